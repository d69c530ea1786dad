// Package layout is what the maker of a local host and the host's init agree
// on: where things are, and what init needs to know for making the host.
package layout

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
)

// Paths inside a host.
const (
	Socket = "/run/testbed/init.sock"
	Agents = "/run/testbed/agent" // the testbed's installed agents, read-only
	Logs   = "/var/log/testbed"   // of the services
	Hosts  = "/etc/hosts"
)

// Setup is what init needs to know for making a host.
type Setup struct {
	Name      string       `json:"name"`
	DataDir   datadir.Dir  `json:"data_dir"`
	Cgroup    string       `json:"cgroup"` // the host's group, relative to the hierarchies' roots
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// HostsFile returns the content of /etc/hosts.
func HostsFile(name string, addresses []netip.Addr) string {
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	for _, address := range addresses {
		fmt.Fprintf(&text, "%s %s\n", address, name)
	}
	if len(addresses) == 0 {
		fmt.Fprintf(&text, "127.0.1.1 %s\n", name)
	}
	return text.String()
}
