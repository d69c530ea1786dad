package local

import (
	"fmt"
	"net/netip"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Spec is what a local host shall be.
type Spec struct {
	Name string

	// Networks are those that the host is on, with a device for each, eth0 for
	// the first; the default route leads to the first.
	Networks []Network
}

// Network is a host's place on a network.
type Network struct {
	Name    string
	Address netip.Addr
}

// Status is what a local host is.
type Status struct {
	Spec // as observed; a network that the host was cut off from is missing
	host.Facts
}

func (s Spec) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, network := range s.Networks {
		if seen[network.Name] {
			return fmt.Errorf("host %s is on network %s twice; a host has one address on each network", s.Name, network.Name)
		}
		seen[network.Name] = true
	}
	return nil
}

func (s Spec) addresses() []netip.Addr {
	var addresses []netip.Addr
	for _, network := range s.Networks {
		addresses = append(addresses, network.Address)
	}
	return addresses
}

// NetworkError is an error about one of a host's networks.
type NetworkError struct {
	Index     int    // in Spec.Networks
	Attribute string // "network" or "address"
	Err       error
}

func (e *NetworkError) Error() string { return e.Err.Error() }

func (e *NetworkError) Unwrap() error { return e.Err }
