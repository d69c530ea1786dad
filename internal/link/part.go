package link

import (
	"net/netip"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Part is what one host has to do for a link by its kernel: it is what the
// agent's role "shape" reads.
type Part struct {
	Link  string       `json:"link"`  // the link's id
	Place Place        `json:"place"` // where the device has to be
	Peers []netip.Addr `json:"peers"` // of the other host, as this one reaches it
	Own   []netip.Addr `json:"own"`   // of this host, as the other one reaches it

	// Egress is what packets to the peers meet, Ingress what those from them
	// do, by way of an ifb device; nil is nothing at all.
	Egress  *netem.Direction `json:"egress,omitempty"`
	Ingress *netem.Direction `json:"ingress,omitempty"`

	// SSHPorts are the ports of both hosts' SSH servers. SSH between the
	// hosts may carry the connection to one of them, and is never shaped.
	SSHPorts []uint16 `json:"ssh_ports,omitempty"`

	KeepOffloads    bool `json:"keep_offloads,omitempty"`
	ReplaceExisting bool `json:"replace_existing,omitempty"`

	// BaseRTT is what was measured before anything was shaped.
	BaseRTT time.Duration `json:"base_rtt,omitempty"` // nanoseconds
}

// Shaped is what one host does for a link.
type Shaped struct {
	Part          // with the directions as read back
	Device string `json:"device"`
	MTU    int    `json:"mtu"` // in bytes

	// OffloadsOff were on before, for example "tso".
	OffloadsOff []string `json:"offloads_off,omitempty"`
	// Replaced is the kind of the queueing discipline that somebody else had
	// at the device's root, and that comes back.
	Replaced string `json:"replaced,omitempty"`
}

// Path is where packets to a host leave.
type Path struct {
	Device  string     `json:"device"`
	Source  netip.Addr `json:"source"`
	Overlay bool       `json:"overlay"`  // it is a TUN device
	SSHPort uint16     `json:"ssh_port"` // of the SSH server that this was asked through; 0 for none
}

// Lack is something that a host cannot do, and what makes it able to.
type Lack struct {
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// Place says on which device of the hosts a link works.
type Place string

// The places of a link: the network cards between the hosts, or the devices of
// the overlay, before packets are encrypted.
const (
	Underlay Place = "underlay"
	Overlay  Place = "overlay"
)

// Words that the agent's role "shape" and its callers exchange.
const (
	// Keep is the line that makes a change stay. Without it the host takes
	// the change back.
	Keep = "keep"
	// KeepWithin is how long the host waits for it.
	KeepWithin = time.Minute
)
