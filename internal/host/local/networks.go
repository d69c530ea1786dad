package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// connect puts the host on the given networks and takes it off all others.
func (o *Opener) connect(ctx context.Context, found record, networks []Network) error {
	wanted, err := o.ports(ctx, found, networks)
	if err != nil {
		return err
	}
	current, err := o.connections(ctx, found.Name)
	if err != nil {
		return err
	}
	changed := false
	// Devices change their names when a network before them goes.
	for network, port := range current {
		if port == wanted[network] {
			continue
		}
		changed = true
		if err := o.network(network, func(client *underlay.Client) error { return client.Detach(ctx, found.Name) }); err != nil {
			return fmt.Errorf("take host %s off a network: %w", found.Name, err)
		}
	}
	for network, port := range wanted {
		if port == current[network] {
			continue
		}
		changed = true
		if err := o.network(network, func(client *underlay.Client) error { return client.Attach(ctx, port) }); err != nil {
			return fmt.Errorf("put host %s on a network: %w", found.Name, err)
		}
	}
	if !changed || !found.Made {
		return nil
	}
	text := layout.HostsFile(found.Name, Spec{Networks: networks}.addresses())
	return newClient(o.dir, found).Write(ctx, layout.Hosts, 0o644, strings.NewReader(text))
}

func (o *Opener) network(name string, use func(*underlay.Client) error) error {
	client, err := underlay.Open(o.dir, name)
	if err != nil {
		return err
	}
	return use(client)
}

// ports returns the ports that put a host on networks, by network.
func (o *Opener) ports(ctx context.Context, found record, networks []Network) (map[string]underlay.Port, error) {
	ports := map[string]underlay.Port{}
	for i, network := range networks {
		status, err := underlay.Observe(ctx, o.dir, network.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &NetworkError{i, "network", fmt.Errorf("put host %s on network %s: %w", found.Name, network.Name, err)}
		}
		if err != nil {
			return nil, fmt.Errorf("put host %s on network %s: %w", found.Name, network.Name, err)
		}
		if err := status.Spec.CheckAddress(network.Address); err != nil {
			return nil, &NetworkError{i, "address", fmt.Errorf("put host %s on network %s: %w", found.Name, network.Name, err)}
		}
		for _, port := range status.Ports {
			if port.Address.Addr() == network.Address && port.Host != found.Name {
				return nil, &NetworkError{i, "address", fmt.Errorf("put host %s on network %s: host %s has address %s already; choose another", found.Name, network.Name, port.Host, network.Address)}
			}
		}
		ports[network.Name] = underlay.Port{
			Host:         found.Name,
			Namespace:    found.namespace(),
			Device:       fmt.Sprintf("eth%d", i),
			Address:      netip.PrefixFrom(network.Address, status.Spec.CIDR.Bits()),
			DefaultRoute: i == 0,
		}
	}
	return ports, nil
}

// namespace is the path of the host's network namespace.
func (r record) namespace() string { return fmt.Sprintf("/proc/%d/ns/net", r.Init.PID) }

// connections returns a host's ports by network. A network whose daemon has
// ended has none.
func (o *Opener) connections(ctx context.Context, name string) (map[string]underlay.Port, error) {
	networks, err := o.dir.Networks()
	if err != nil {
		return nil, err
	}
	found := map[string]underlay.Port{}
	for _, network := range networks {
		status, err := underlay.Observe(ctx, o.dir, network)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, port := range status.Ports {
			if port.Host == name {
				found[network] = port
			}
		}
	}
	return found, nil
}

// networks returns the networks that a host is on, in the order of their
// devices.
func (o *Opener) networks(ctx context.Context, found record) ([]Network, error) {
	ports, err := o.connections(ctx, found.Name)
	if err != nil {
		return nil, err
	}
	var networks []Network
	for name, port := range ports {
		if port.Namespace == found.namespace() {
			networks = append(networks, Network{Name: name, Address: port.Address.Addr()})
		}
	}
	slices.SortFunc(networks, func(a, b Network) int { return strings.Compare(ports[a.Name].Device, ports[b.Name].Device) })
	return networks, nil
}
