package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What flannel has, so that packets look the same.
const (
	vxlanDevice = "flannel.1"
	vxlanID     = 1
	vxlanPort   = 8472

	flannelRetry = time.Second
)

// flannel leads pods' packets from node to node, as flannel's VXLAN and host-gw
// do. It also tells the CNI plugins which part of the pods' addresses is the
// node's, and so makes the node Ready. While there is one node only, there is
// no tunnel.
type flannel struct {
	config Config
	files  files
	api    *api
	iface  *net.Interface

	subnet netip.Prefix          // of this node, once it is known
	peers  map[string]flannelHop // by the name of the node
}

// flannelHop is another node.
type flannelHop struct {
	subnet netip.Prefix
	node   netip.Addr
}

func newFlannel(c Config, p pki, f files) (*flannel, error) {
	iface, err := nodeInterface(c)
	if err != nil {
		return nil, err
	}
	// kube-proxy may list the nodes, unlike a kubelet.
	return &flannel{config: c, files: f, api: newAPIAs(c, p, p.proxy), iface: iface, peers: map[string]flannelHop{}}, nil
}

// run follows the cluster's nodes until ctx ends.
func (f *flannel) run(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if err != nil && ctx.Err() == nil && !temporary(err) {
			report(fmt.Errorf("network of pods: %w", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(flannelRetry):
		}
	}
}

// node is what flannel reads of a node.
type flannelNode struct {
	Metadata struct{ Name, ResourceVersion string }
	Spec     struct{ PodCIDR string }
	Status   struct {
		Addresses []struct{ Type, Address string }
	}
}

// follow lists the nodes and then acts on each change, until the API server
// ends the answer.
func (f *flannel) follow(ctx context.Context) error {
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []flannelNode
	}
	if err := f.api.get(ctx, "/api/v1/nodes", &list); err != nil {
		return err
	}
	nodes := map[string]flannelNode{}
	for _, node := range list.Items {
		nodes[node.Metadata.Name] = node
	}
	if err := f.apply(nodes); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.api.base+"/api/v1/nodes?watch=1&resourceVersion="+list.Metadata.ResourceVersion, nil)
	if err != nil {
		return err
	}
	watching := &http.Client{Transport: f.api.client.Transport} // without a time limit
	response, err := watching.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	events := json.NewDecoder(response.Body)
	for {
		var event struct {
			Type   string
			Object flannelNode
		}
		if err := events.Decode(&event); err != nil {
			return nil // ended; the next list catches up
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
			nodes[event.Object.Metadata.Name] = event.Object
		case "DELETED":
			delete(nodes, event.Object.Metadata.Name)
		default:
			return nil // too old; the next list catches up
		}
		if err := f.apply(nodes); err != nil {
			return err
		}
	}
}

// hop returns a node's part of the network, once it has one.
func (n flannelNode) hop() (flannelHop, bool) {
	subnet, err := netip.ParsePrefix(n.Spec.PodCIDR)
	if err != nil {
		return flannelHop{}, false
	}
	for _, address := range n.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Address); err == nil && address.Type == "InternalIP" {
			return flannelHop{subnet: subnet, node: ip}, true
		}
	}
	return flannelHop{}, false
}

// apply makes the network be as the nodes want it.
func (f *flannel) apply(nodes map[string]flannelNode) error {
	own, ok := nodes[f.config.NodeName].hop()
	if !ok {
		return nil
	}
	if own.subnet != f.subnet {
		network, err := json.MarshalIndent(podNetwork(own.subnet.String(), podMTU(f.config, f.iface)), "", "  ")
		if err != nil {
			return err
		}
		if err := writeFile(f.files.network, network, 0o600); err != nil {
			return err
		}
		f.subnet = own.subnet
	}
	peers := map[string]flannelHop{}
	for name, node := range nodes {
		if hop, ok := node.hop(); ok && name != f.config.NodeName {
			peers[name] = hop
		}
	}
	if maps.Equal(peers, f.peers) {
		return nil
	}
	if err := f.lead(peers); err != nil {
		return err
	}
	f.peers = peers
	return nil
}

// lead makes a way to each peer, and removes those to peers that left.
func (f *flannel) lead(peers map[string]flannelHop) error {
	var device netlink.Link
	var err error
	if f.config.FlannelBackend == "host-gw" {
		device, err = netlink.LinkByIndex(f.iface.Index)
	} else if len(peers) > 0 || len(f.peers) > 0 {
		device, err = f.tunnel()
	}
	if err != nil {
		return fmt.Errorf("make the device between nodes: %w", err)
	}
	for name, hop := range f.peers {
		if peers[name] == hop {
			continue
		}
		route := netlink.Route{LinkIndex: device.Attrs().Index, Dst: ipNet(hop.subnet)}
		if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove the route to node %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		if err := f.reach(device, peers[name]); err != nil {
			return fmt.Errorf("make a route to node %s: %w", name, err)
		}
	}
	return nil
}

// tunnel returns the VXLAN device, after making it if need be.
func (f *flannel) tunnel() (netlink.Link, error) {
	link, err := netlink.LinkByName(vxlanDevice)
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		err = netlink.LinkAdd(&netlink.Vxlan{
			LinkAttrs:    netlink.LinkAttrs{Name: vxlanDevice, MTU: f.iface.MTU - vxlanOverhead, HardwareAddr: hardware(f.config.NodeIP)},
			VxlanId:      vxlanID,
			VtepDevIndex: f.iface.Index,
			SrcAddr:      f.config.NodeIP.AsSlice(),
			Port:         vxlanPort,
			Learning:     false,
		})
		if err == nil {
			link, err = netlink.LinkByName(vxlanDevice)
		}
	}
	if err != nil {
		return nil, err
	}
	address := netlink.Addr{IPNet: &net.IPNet{IP: f.subnet.Addr().AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrReplace(link, &address); err != nil {
		return nil, err
	}
	return link, netlink.LinkSetUp(link)
}

// hardware is the link address of a node's end of the tunnel, which follows
// from the node's address, so that no node has to be told.
func hardware(node netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x02, 0x6b}, node.AsSlice()...)
}

// reach makes the way to one peer.
func (f *flannel) reach(device netlink.Link, hop flannelHop) error {
	index := device.Attrs().Index
	route := netlink.Route{LinkIndex: index, Dst: ipNet(hop.subnet), Gw: hop.node.AsSlice()}
	if f.config.FlannelBackend != "host-gw" {
		gateway := hop.subnet.Addr().AsSlice()
		neighbours := []netlink.Neigh{
			{LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, Type: unix.RTN_UNICAST, IP: gateway, HardwareAddr: hardware(hop.node)},
			{LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF, IP: hop.node.AsSlice(), HardwareAddr: hardware(hop.node)},
		}
		for _, neighbour := range neighbours {
			if err := netlink.NeighSet(&neighbour); err != nil {
				return err
			}
		}
		route.Gw, route.Flags = gateway, int(netlink.FLAG_ONLINK)
	}
	return netlink.RouteReplace(&route)
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
