package bench

import (
	"errors"
	"fmt"
	"slices"
)

// Hop is one point that the requests of an arm pass. The hops of an arm go from
// the client to the function, so that two arms can be compared point by point.
type Hop struct {
	Name string  `json:"name"` // what it is, for example "haproxy on cloud"
	Kind HopKind `json:"kind"`

	// Protocol and Network say how requests get here from the hop before. They
	// are empty for the first hop.
	Protocol HopProtocol `json:"protocol,omitempty"`
	Network  HopNetwork  `json:"network,omitempty"`
}

// HopKind is what a hop does to the connection that requests come on.
type HopKind string

// The kinds of hops. A client begins the first connection and a function ends
// the last one; a proxy ends one and begins another; a service translates
// addresses and lets the connection through.
const (
	HopClient   HopKind = "client"
	HopService  HopKind = "service"
	HopProxy    HopKind = "proxy"
	HopFunction HopKind = "function"
)

// HopKinds returns all kinds.
func HopKinds() []HopKind { return []HopKind{HopClient, HopService, HopProxy, HopFunction} }

// HopProtocol is what carries requests to a hop.
type HopProtocol string

// The protocols of hops: HTTP in plain TCP, in TLS whose server alone has a
// certificate, and in TLS whose both ends have one.
const (
	HopTCP  HopProtocol = "tcp"
	HopTLS  HopProtocol = "tls"
	HopMTLS HopProtocol = "mtls"
)

// HopProtocols returns all protocols.
func HopProtocols() []HopProtocol { return []HopProtocol{HopTCP, HopTLS, HopMTLS} }

// HopNetwork is what a hop is reached over.
type HopNetwork string

// The networks of hops: inside one cluster, over the overlay between hosts, and
// between hosts without it.
const (
	HopCluster  HopNetwork = "cluster"
	HopOverlay  HopNetwork = "overlay"
	HopUnderlay HopNetwork = "underlay"
)

// HopNetworks returns all networks.
func HopNetworks() []HopNetwork { return []HopNetwork{HopCluster, HopOverlay, HopUnderlay} }

// Chain is what a path is made of.
type Chain struct {
	Connections  int // that follow each other
	Encrypted    int // of them, those with TLS
	Translations int // of addresses
}

// Chain counts what the hops of an arm amount to. It is zero for an arm that
// names none.
func (a Arm) Chain() Chain {
	var chain Chain
	encrypted := false
	for _, hop := range a.Hops {
		encrypted = encrypted || hop.Protocol == HopTLS || hop.Protocol == HopMTLS
		switch hop.Kind {
		case HopService:
			chain.Translations++
		case HopProxy, HopFunction:
			chain.Connections++
			if encrypted {
				chain.Encrypted++
			}
			encrypted = false
		}
	}
	return chain
}

// ValidateHops reports what is wrong with the hops of an arm. No hops at all
// are right: the path of the arm is then not written down.
func ValidateHops(hops []Hop) error {
	if len(hops) == 0 {
		return nil
	}
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for i, hop := range hops {
		first, last := i == 0, i == len(hops)-1
		if hop.Name == "" {
			complain("hop %d has no name", i+1)
		}
		if first != (hop.Kind == HopClient) || last != (hop.Kind == HopFunction) {
			complain("hop %d of %d, %q, is a %s; the first hop, and no other, is the %s, and the last one, and no other, the %s",
				i+1, len(hops), hop.Name, hop.Kind, HopClient, HopFunction)
		}
		if first {
			continue
		}
		if !slices.Contains(HopKinds(), hop.Kind) {
			complain("hop %d, %q, is of kind %q; the kinds are %q", i+1, hop.Name, hop.Kind, HopKinds())
		}
		if !slices.Contains(HopProtocols(), hop.Protocol) {
			complain("hop %d, %q, is reached by protocol %q; the protocols are %q", i+1, hop.Name, hop.Protocol, HopProtocols())
		}
		if !slices.Contains(HopNetworks(), hop.Network) {
			complain("hop %d, %q, is reached over network %q; the networks are %q", i+1, hop.Name, hop.Network, HopNetworks())
		}
	}
	return errors.Join(problems...)
}
