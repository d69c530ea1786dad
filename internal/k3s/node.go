package k3s

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Environment variables of the service, which say what it runs.
const (
	// identityKey holds what cannot change. It tells the node of this Spec,
	// perhaps half made, from another one on the same host.
	identityKey = "TESTBED_K3S_CLUSTER"

	// revisionKey holds a digest of all that the service reads at its start,
	// so that a start that was due and did not happen is made up for.
	revisionKey = "TESTBED_K3S_REVISION"

	// deviceKey holds the interface between nodes as it was at the start,
	// "NAME:INDEX": flannel's routes are lost with the device they lead to.
	deviceKey = "TESTBED_K3S_DEVICE"
)

// node is what a server and an agent have in common: all that one host gets.
type node struct {
	service, role string // "k3s" runs the role "server", "k3s-agent" the role "agent"

	name     string
	ip       netip.Addr
	device   string // "" is k3s's choice
	identity string // of the cluster and the node

	config       string // content of config.yaml
	registries   string // content of registries.yaml
	settings     map[string]any
	binary       artifact.File
	airgapImages []artifact.File
}

func (s Spec) node() (node, error) {
	config, err := s.ConfigYAML()
	return node{
		service: serverService, role: "server", name: s.Name, ip: s.NodeIP, device: s.Interface,
		identity: fmt.Sprintf("%s,%s,%s", s.Name, s.ClusterCIDR, s.ServiceCIDR),
		config:   config, registries: s.Registries, settings: s.Config, binary: s.Binary, airgapImages: s.AirgapImages,
	}, err
}

func (a Agent) node() (node, error) {
	config, err := a.ConfigYAML()
	return node{
		service: agentService, role: "agent", name: a.Name, ip: a.NodeIP, device: a.Interface,
		identity: fmt.Sprintf("%s,%s", a.Cluster, a.Name),
		config:   config, registries: a.Registries, settings: a.Config, binary: a.Binary, airgapImages: a.AirgapImages,
	}, err
}

func (n node) revision() string {
	hash := sha256.New()
	fmt.Fprintln(hash, n.config, n.binary.SHA256)
	for _, image := range n.airgapImages {
		fmt.Fprintln(hash, image.SHA256)
	}
	if n.registries != "" {
		fmt.Fprintln(hash, n.registries)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// overlayService is the service that makes the overlay's device.
const overlayService = "nebula"

// described is the service that runs a node, with the interface between nodes
// as it is now. On an overlay of the host's it starts after that, and again
// with it: an address that comes later is not seen, and routes go with the
// device.
func (n node) described(ctx context.Context, h host.Host, devices devices) (host.Service, error) {
	service := host.Service{
		Name:     n.service,
		Argv:     []string{binaryPath, n.role},
		Env:      []string{identityKey + "=" + n.identity, revisionKey + "=" + n.revision()},
		After:    []string{overlayService},
		KillMode: "process",
	}
	if n.device != "" {
		service.Env = append(service.Env, fmt.Sprintf("%s=%s:%d", deviceKey, n.device, devices.index(n.device)))
	}
	if !devices.tunnel(n.ip) {
		return service, nil
	}
	_, err := h.Service(ctx, overlayService)
	switch {
	case err == nil:
		service.Requires = []string{overlayService}
	case !errors.Is(err, host.ErrNotExist) && !errors.Is(err, host.ErrForeign):
		return host.Service{}, fmt.Errorf("look for the overlay on %s: %w", h.URL(), err)
	}
	return service, nil
}

// placed is a node whose files are on the host and whose service is about to
// start.
type placed struct {
	node
	host    host.Host
	service host.Service
	before  *host.ServiceStatus // nil when there was none
	changed bool                // what the service reads is not as it was
}

// place checks that the host can run the node, and puts its files in place.
// An input that cannot work is an *InputError, and nothing was touched.
func (n node) place(ctx context.Context, h host.Host, token func(context.Context) error, progress func(string)) (*placed, error) {
	before, err := n.find(ctx, h)
	if err != nil {
		return nil, err
	}
	found, err := listDevices(ctx, h)
	if err != nil {
		return nil, err
	}
	if err := n.check(ctx, h, found); err != nil {
		return nil, err
	}
	service, err := n.described(ctx, h, found)
	if err != nil {
		return nil, err
	}
	changed, err := n.install(ctx, h, token, progress)
	if err != nil {
		return nil, err
	}
	return &placed{node: n, host: h, service: service, before: before, changed: changed}, nil
}

// find returns the state of the node's service, or nil when there is none.
// Another node on the host is an *InputError.
func (n node) find(ctx context.Context, h host.Host) (*host.ServiceStatus, error) {
	var own *host.ServiceStatus
	for _, name := range []string{serverService, agentService} {
		status, err := h.Service(ctx, name)
		if errors.Is(err, host.ErrNotExist) {
			continue
		}
		if errors.Is(err, host.ErrForeign) {
			return nil, &InputError{"name", fmt.Errorf("%s already runs a k3s of its own (%w); a host has one: take another host, or remove that one, as with k3s-uninstall.sh", h.URL(), err)}
		}
		if err != nil {
			return nil, fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
		}
		if name != n.service || !slices.Contains(status.Service.Env, identityKey+"="+n.identity) {
			return nil, &InputError{"name", fmt.Errorf("%s already runs another k3s (%s); a host has one", h.URL(), describe(status.Service))}
		}
		own = &status
	}
	return own, nil
}

func describe(service host.Service) string {
	for _, entry := range service.Env {
		identity, ok := strings.CutPrefix(entry, identityKey+"=")
		switch parts := strings.Split(identity, ","); {
		case ok && len(parts) == 3:
			return fmt.Sprintf("node %s, pods %s, services %s", parts[0], parts[1], parts[2])
		case ok && len(parts) == 2:
			return fmt.Sprintf("node %s of cluster %s", parts[1], parts[0])
		}
	}
	return "not made by this provider"
}

// start makes the service run with the files that are in place.
func (p *placed) start(ctx context.Context) error {
	if err := p.host.StartService(ctx, p.service); err != nil {
		return fmt.Errorf("start k3s on %s: %w", p.host.URL(), err)
	}
	// An equal service was left alone, but what it reads was not as it is now.
	if p.changed && p.before != nil && reflect.DeepEqual(p.before.Service, p.service) {
		return p.restart(ctx)
	}
	return nil
}

func (p *placed) restart(ctx context.Context) error {
	if err := p.host.RestartService(ctx, p.service.Name); err != nil {
		return fmt.Errorf("restart k3s on %s: %w", p.host.URL(), err)
	}
	return nil
}
