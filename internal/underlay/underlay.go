// Package underlay is the private network between local hosts: one daemon
// process for each network owns a TUN device in every attached host and
// forwards IP packets between them, doing to each packet what the link of its
// ordered pair of hosts says.
//
// This package starts and ends daemons and talks to them; package daemon is
// what they run. A daemon outlives the process that started it and is found
// again by the network's folder, DATA_DIR/networks/NAME.
package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Spec is a network.
type Spec struct {
	Name string       `json:"name"`
	CIDR netip.Prefix `json:"cidr"`
	MTU  int          `json:"mtu"` // bytes of an IP packet

	// Seed chooses the fates of packets on links whose profile has no seed of
	// its own.
	Seed uint64 `json:"seed,omitzero"`
}

// Port is one host's place on a network.
type Port struct {
	Host string `json:"host"`

	// Namespace is the path of the host's network namespace, of the form
	// /proc/PID/ns/net. The port lives as long as that process.
	Namespace string `json:"namespace"`

	Device       string       `json:"device"`  // name of the TUN device
	Address      netip.Prefix `json:"address"` // with the prefix length of the network
	DefaultRoute bool         `json:"default_route,omitzero"`
}

// Link is what happens to packets of an ordered pair of hosts. It belongs to
// the names, so it stays when a host leaves and holds when it comes back.
type Link struct {
	From      string          `json:"from"`
	To        string          `json:"to"`
	Direction netem.Direction `json:"direction"`
}

// Counters count the packets of an ordered pair of hosts since both were
// attached. Received packets were sent by From; each is then lost, dropped for
// want of room, unreachable, waiting or delivered, and a duplicated one is
// counted twice from there on.
type Counters struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Received    uint64 `json:"received"`
	Delivered   uint64 `json:"delivered"`
	Bytes       uint64 `json:"bytes"` // of delivered IP packets
	Lost        uint64 `json:"lost"`
	Dropped     uint64 `json:"dropped"`
	Duplicated  uint64 `json:"duplicated"`
	Corrupted   uint64 `json:"corrupted"`
	Reordered   uint64 `json:"reordered"`
	Unreachable uint64 `json:"unreachable"`
	Waiting     int64  `json:"waiting"` // now
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Validate reports what is wrong with the network.
func (s Spec) Validate() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	if err := CheckCIDR(s.CIDR); err != nil {
		return err
	}
	least := 576
	if s.CIDR.Addr().Is6() {
		least = 1280
	}
	if s.MTU < least || s.MTU > 65535 {
		return fmt.Errorf("an mtu of %d bytes is out of range; write from %d to 65535", s.MTU, least)
	}
	return nil
}

// CheckName reports a name that no network can have.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is not a name; write up to 63 lower-case letters, digits and inner hyphens", name)
	}
	return nil
}

// CheckCIDR reports a range that no network can have.
func CheckCIDR(cidr netip.Prefix) error {
	switch {
	case !cidr.IsValid():
		return errors.New("a range is missing; write for example \"198.18.0.0/24\"")
	case cidr.Masked() != cidr:
		return fmt.Errorf("%s is an address in a range; write the range, %s", cidr, cidr.Masked())
	case cidr.Addr().BitLen()-cidr.Bits() < 1:
		return fmt.Errorf("%s has room for one host only; write a wider range", cidr)
	}
	return nil
}

// CheckAddress reports an address that no host can have on the network.
func (s Spec) CheckAddress(address netip.Addr) error {
	if !s.CIDR.Contains(address) {
		return fmt.Errorf("address %s is not within %s; choose one that is", address, s.CIDR)
	}
	if address.Is4() && s.CIDR.Bits() < 31 && (address == s.CIDR.Addr() || address == broadcast(s.CIDR)) {
		return fmt.Errorf("address %s is the first or the last of %s, which stand for the network as a whole; choose one between them", address, s.CIDR)
	}
	return nil
}

// broadcast is the last address of an IPv4 network.
func broadcast(cidr netip.Prefix) netip.Addr {
	address := cidr.Addr().As4()
	for bit := cidr.Bits(); bit < 32; bit++ {
		address[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(address)
}
