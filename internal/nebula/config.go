package nebula

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// Lighthouse is how a node reaches a lighthouse.
type Lighthouse struct {
	Overlay  netip.Addr
	Underlay string // "address:port", or with a name instead of the address
}

// Route sends packets for a network that is outside the overlay to the node
// that routes into it.
type Route struct {
	Route  netip.Prefix `json:"route"`
	Via    netip.Addr   `json:"via"`
	MTU    int          `json:"mtu,omitempty"`
	Metric int          `json:"metric,omitempty"`
}

// Rule lets packets through the firewall that match all of its fields. At
// least one of the fields after Proto is set.
type Rule struct {
	Port      string   `json:"port,omitempty"` // "any", "22", "8000-8010" or "fragment"; empty for ICMP
	Proto     string   `json:"proto"`          // one of Protocols
	Host      string   `json:"host,omitempty"`
	Groups    []string `json:"groups,omitempty"` // the peer is in all of them
	CIDR      string   `json:"cidr,omitempty"`
	LocalCIDR string   `json:"local_cidr,omitempty"`
}

// Protocols are what a firewall rule can tell apart.
var Protocols = []string{"any", "tcp", "udp", "icmp"}

var portPattern = regexp.MustCompile(`^(any|fragment|\d+(-\d+)?)$`)

// Check returns what Nebula would refuse.
func (r Rule) Check() error {
	if r.Proto == "icmp" && r.Port != "" {
		return fmt.Errorf("icmp has no ports; leave port out")
	}
	if r.Proto != "icmp" && !portPattern.MatchString(r.Port) {
		return fmt.Errorf("port %q is none; use \"any\", \"fragment\", a number like \"6443\" or a range like \"2379-2380\"", r.Port)
	}
	if !slices.Contains(Protocols, r.Proto) {
		return fmt.Errorf("proto %q is unknown; use one of %q", r.Proto, Protocols)
	}
	if r.Host == "" && len(r.Groups) == 0 && r.CIDR == "" && r.LocalCIDR == "" {
		return fmt.Errorf("the rule says nothing about the other side; set host, groups, cidr or local_cidr, for example host = \"any\"")
	}
	for _, cidr := range []string{r.CIDR, r.LocalCIDR} {
		if cidr == "" || cidr == "any" {
			continue
		}
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return fmt.Errorf("cidr %q is no network; use \"any\" or for example \"198.19.0.0/24\"", cidr)
		}
	}
	return nil
}

// Firewall holds the rules of a node; what no rule matches is dropped.
type Firewall struct {
	Inbound  []Rule `json:"inbound"`
	Outbound []Rule `json:"outbound"`
}

// Check returns what Nebula would refuse.
func (f Firewall) Check() error {
	for i, rule := range f.Inbound {
		if err := rule.Check(); err != nil {
			return fmt.Errorf("inbound rule %d: %w", i+1, err)
		}
	}
	for i, rule := range f.Outbound {
		if err := rule.Check(); err != nil {
			return fmt.Errorf("outbound rule %d: %w", i+1, err)
		}
	}
	return nil
}

// Config is the part of Nebula's configuration that the testbed uses, with
// Nebula's names. The rest stays at Nebula's defaults: no sshd, no statistics.
type Config struct {
	PKI           PKIConfig           `json:"pki"`
	StaticHostMap map[string][]string `json:"static_host_map,omitempty"`
	Lighthouse    LighthouseConfig    `json:"lighthouse"`
	Listen        ListenConfig        `json:"listen"`
	Punchy        PunchyConfig        `json:"punchy"`
	Relay         RelayConfig         `json:"relay"`
	Tun           TunConfig           `json:"tun"`
	Firewall      Firewall            `json:"firewall"`
}

// PKIConfig names the files that hold the node's identity.
type PKIConfig struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// LighthouseConfig says who knows where nodes are.
type LighthouseConfig struct {
	AmLighthouse   bool           `json:"am_lighthouse"`
	Hosts          []netip.Addr   `json:"hosts,omitempty"`
	LocalAllowList LocalAllowList `json:"local_allow_list"`
}

// LocalAllowList says which of its own addresses a node tells its peers.
type LocalAllowList struct {
	Interfaces map[string]bool `json:"interfaces"` // by regular expression
}

// ListenConfig is the node's place in the underlay.
type ListenConfig struct {
	Host string `json:"host"`
	Port uint16 `json:"port"`
}

// PunchyConfig keeps address translators on the way open.
type PunchyConfig struct {
	Punch bool `json:"punch"`
}

// RelayConfig says which nodes carry packets of others.
type RelayConfig struct {
	AmRelay   bool         `json:"am_relay"`
	UseRelays bool         `json:"use_relays"`
	Relays    []netip.Addr `json:"relays,omitempty"` // through which this node can be reached
}

// TunConfig is the overlay device.
type TunConfig struct {
	Dev          string  `json:"dev"`
	MTU          int     `json:"mtu"`
	UnsafeRoutes []Route `json:"unsafe_routes,omitempty"`
}

// notUnderlay are interfaces whose addresses peers must not be told: those of
// container networks, which may run over the overlay themselves, so that a
// tunnel to such an address would go through itself.
var notUnderlay = []string{"cni.*", "docker.*", "flannel.*", "kube-.*", "veth.*"}

// Config returns the configuration that makes a node what the specification
// says.
func (s Spec) Config() Config {
	c := Config{
		PKI:           PKIConfig{CA: caPath, Cert: certPath, Key: keyPath},
		StaticHostMap: map[string][]string{},
		Lighthouse: LighthouseConfig{
			AmLighthouse:   s.IsLighthouse,
			LocalAllowList: LocalAllowList{Interfaces: map[string]bool{}},
		},
		Listen: ListenConfig{Host: "0.0.0.0", Port: s.Port},
		Punchy: PunchyConfig{Punch: true},
		Relay:  RelayConfig{AmRelay: s.Relay, UseRelays: true, Relays: s.Relays},
		Tun:    TunConfig{Dev: s.Device, MTU: s.MTU, UnsafeRoutes: s.UnsafeRoutes},
	}
	for _, pattern := range notUnderlay {
		c.Lighthouse.LocalAllowList.Interfaces[pattern] = false
	}
	for _, l := range s.Lighthouses {
		c.Lighthouse.Hosts = append(c.Lighthouse.Hosts, l.Overlay)
		c.StaticHostMap[l.Overlay.String()] = []string{l.Underlay}
	}
	if s.overIPv6() {
		c.Listen.Host = "::" // takes IPv4 as well
	}
	c.Firewall = s.firewall()
	return c
}

func (s Spec) overIPv6() bool {
	if own, err := netip.ParseAddr(s.Underlay); err == nil && own.Is6() {
		return true
	}
	return slices.ContainsFunc(s.Lighthouses, func(l Lighthouse) bool {
		underlay, err := netip.ParseAddrPort(l.Underlay)
		return err == nil && underlay.Addr().Is6()
	})
}

// firewall lets everything through when nothing is specified. Pings to the
// lighthouse pass in any case, because they tell whether a node is up.
func (s Spec) firewall() Firewall {
	everything := []Rule{{Port: "any", Proto: "any", Host: "any"}}
	if s.Firewall == nil {
		return Firewall{Inbound: everything, Outbound: everything}
	}
	ping := Rule{Proto: "icmp", Host: "any"}
	f := Firewall{Inbound: slices.Clone(s.Firewall.Inbound), Outbound: slices.Clone(s.Firewall.Outbound)}
	if s.IsLighthouse {
		f.Inbound = append(f.Inbound, ping)
	}
	for _, l := range s.Lighthouses {
		ping.Host, ping.CIDR = "", netip.PrefixFrom(l.Overlay, l.Overlay.BitLen()).String()
		f.Outbound = append(f.Outbound, ping)
	}
	return f
}

// YAML returns the configuration as the file that Nebula reads; equal
// configurations give equal files.
func (c Config) YAML() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("render the configuration of nebula: %w", err)
	}
	return text, nil
}

// ParseConfig reads a configuration file, leaving out what the testbed does
// not use.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	if err := yaml.Unmarshal(text, &c); err != nil {
		return Config{}, fmt.Errorf("read the configuration of nebula: %w", err)
	}
	return c, nil
}

// Check returns, as a *FieldError, what cannot work whichever CA signs.
func (s Spec) Check() error {
	if len(s.Device) == 0 || len(s.Device) > 15 {
		return &FieldError{"device", fmt.Errorf("%q has %d characters; Linux wants 1 to 15", s.Device, len(s.Device))}
	}
	if s.MTU < 576 || s.MTU > 9000 {
		return &FieldError{"mtu", fmt.Errorf("%d is out of range; use 576 to 9000, and leave 60 bytes of the underlay's MTU to Nebula", s.MTU)}
	}
	if s.IsLighthouse && s.Port == 0 {
		return &FieldError{"port", fmt.Errorf("a lighthouse needs a port that its nodes know; use for example 4242")}
	}
	if !s.IsLighthouse && len(s.Lighthouses) == 0 {
		return &FieldError{"lighthouses", fmt.Errorf("a node needs a lighthouse to find its peers; name at least one")}
	}
	for _, l := range s.Lighthouses {
		if err := s.checkLighthouse(l); err != nil {
			return &FieldError{"lighthouses", err}
		}
	}
	for _, route := range s.UnsafeRoutes {
		if !s.Network.Masked().Contains(route.Via) {
			return &FieldError{"unsafe_routes", fmt.Errorf("the route to %s goes via %s, which is outside the overlay %s", route.Route, route.Via, s.Network.Masked())}
		}
	}
	if s.Firewall != nil {
		if err := s.Firewall.Check(); err != nil {
			return &FieldError{"firewall", err}
		}
	}
	return nil
}

func (s Spec) checkLighthouse(l Lighthouse) error {
	if l.Overlay == s.Network.Addr() {
		return fmt.Errorf("%s is the node itself; name another node that is a lighthouse", l.Overlay)
	}
	if !s.Network.Masked().Contains(l.Overlay) {
		return fmt.Errorf("%s is outside the node's overlay %s", l.Overlay, s.Network.Masked())
	}
	_, port, err := net.SplitHostPort(l.Underlay)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is no address and port of the underlay, for example \"198.18.0.2:4242\"", l.Underlay)
	}
	return nil
}
