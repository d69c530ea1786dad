package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// vxlanOverhead is what flannel's VXLAN takes from each packet.
const vxlanOverhead = 50

// podMTU is the MTU that flannel gives pods, also while there is one node and
// no tunnel yet.
func podMTU(c Config, iface *net.Interface) int {
	if c.FlannelBackend == "vxlan" {
		return iface.MTU - vxlanOverhead
	}
	return iface.MTU
}

// nodeInterface is the interface between nodes: flannel-iface, else the one
// with the node's address.
func nodeInterface(c Config) (*net.Interface, error) {
	if c.FlannelIface != "" {
		iface, err := net.InterfaceByName(c.FlannelIface)
		if err != nil {
			return nil, fmt.Errorf("find flannel-iface %q: %w", c.FlannelIface, err)
		}
		return iface, nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, iface := range interfaces {
		addrs, err := iface.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list the addresses of %s: %w", iface.Name, err)
		}
		for _, addr := range addrs {
			if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr() == c.NodeIP {
				return &iface, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has node-ip %s", c.NodeIP)
}

// sysctls are what pods and services need of the node's network namespace.
var sysctls = []struct{ path, value string }{
	{"/proc/sys/net/ipv4/ip_forward", "1"},
	{"/proc/sys/net/bridge/bridge-nf-call-iptables", "1"},
}

// prepareNode readies the node's network namespace for pods.
func prepareNode(ctx context.Context, c Config) error {
	// Inside a container the modules may be out of reach, though loaded.
	_ = exec.CommandContext(ctx, "modprobe", "-aq", "overlay", "br_netfilter", "nf_conntrack").Run()
	for _, s := range sysctls {
		if now, err := os.ReadFile(s.path); err == nil && strings.TrimSpace(string(now)) == s.value {
			continue
		}
		if err := os.WriteFile(s.path, []byte(s.value), 0); err != nil {
			return fmt.Errorf("prepare the node's network: %w", err)
		}
	}
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(masquerade(c))
	if out, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("masquerade the pods with nft: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// masquerade is flannel's rule: what pods send out of the pods' network comes
// from the node. One table replaces a chain for each pod.
func masquerade(c Config) string {
	return fmt.Sprintf(`table ip k3s-pods
delete table ip k3s-pods
table ip k3s-pods {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		ip saddr %[1]s ip daddr != { %[1]s, 224.0.0.0/4 } masquerade
	}
}
`, c.ClusterCIDR)
}

// resolvConf is the resolver configuration of pods that use the node's. A
// resolver on the loopback would be the pod itself, so it is left out.
func resolvConf(c Config) (path string, forwards bool, err error) {
	source := "/etc/resolv.conf"
	if c.ResolvConf != "" {
		source = c.ResolvConf
	}
	content, err := os.ReadFile(source)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", false, fmt.Errorf("read the resolver configuration: %w", err)
	}
	var kept []string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "nameserver" {
			if ip, err := netip.ParseAddr(fields[1]); err != nil || ip.IsLoopback() {
				continue
			}
			forwards = true
		}
		kept = append(kept, line)
	}
	path = filepath.Join(c.DataDir, "agent/etc/resolv.conf")
	return path, forwards, writeFile(path, []byte(strings.Join(kept, "")), 0o644)
}

// fillCpuset fills an empty v1 cpuset, in which no process can run. A cgroup
// namespace's root is a cgroup that somebody made, often without filling it.
func fillCpuset() error {
	const root = "/sys/fs/cgroup/cpuset/"
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read the allowed CPUs: %w", err)
	}
	for file, field := range map[string]string{"cpuset.cpus": "Cpus_allowed_list:", "cpuset.mems": "Mems_allowed_list:"} {
		now, err := os.ReadFile(root + file)
		if errors.Is(err, os.ErrNotExist) || len(bytes.TrimSpace(now)) > 0 {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, field); ok {
				if err := os.WriteFile(root+file, []byte(strings.TrimSpace(value)), 0); err != nil {
					return fmt.Errorf("fill the cpuset: %w", err)
				}
			}
		}
	}
	return nil
}
