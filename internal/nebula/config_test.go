package nebula

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func nodeSpec() Spec {
	return Spec{
		Identity:    identity(),
		Lighthouses: []Lighthouse{{netip.MustParseAddr("198.19.0.1"), "198.18.0.2:4242"}},
		Port:        4242,
		Device:      "nebula1",
		MTU:         1300,
	}
}

func lighthouseSpec() Spec {
	s := nodeSpec()
	s.Identity = Identity{Name: "lighthouse", Network: netip.MustParsePrefix("198.19.0.1/24")}
	s.Lighthouses = nil
	s.IsLighthouse, s.Underlay = true, "198.18.0.2"
	return s
}

func TestConfig(t *testing.T) {
	relayed := nodeSpec()
	relayed.Lighthouses[0].Underlay = "[2001:2::2]:4242"
	relayed.Relays = []netip.Addr{netip.MustParseAddr("198.19.0.1")}
	relayed.UnsafeRoutes = []Route{{Route: netip.MustParsePrefix("10.42.0.0/24"), Via: netip.MustParseAddr("198.19.0.12"), MTU: 1200}}

	walled := lighthouseSpec()
	walled.Relay = true
	walled.Firewall = &Firewall{
		Inbound:  []Rule{{Port: "2379-2380", Proto: "tcp", Groups: []string{"k3s", "edge"}}, {Port: "any", Proto: "any", CIDR: "198.19.0.0/24", LocalCIDR: "any"}},
		Outbound: []Rule{},
	}
	shut := nodeSpec()
	shut.Firewall = &Firewall{}

	for name, spec := range map[string]Spec{"node": nodeSpec(), "lighthouse": lighthouseSpec(), "relayed": relayed, "walled": walled, "shut": shut} {
		t.Run(name, func(t *testing.T) {
			if err := spec.Check(); err != nil {
				t.Fatal(err)
			}
			got, err := spec.Config().YAML()
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			parsed, err := ParseConfig(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parsed.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), string(again)); diff != "" {
				t.Errorf("it changes when it is parsed and rendered again (-first +again):\n%s", diff)
			}
		})
	}
}

func TestSpecCheck(t *testing.T) {
	rule := func(r Rule) func(*Spec) {
		return func(s *Spec) { s.Firewall = &Firewall{Inbound: []Rule{{"any", "any", "any", nil, "", ""}, r}} }
	}
	for _, test := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"device", func(s *Spec) { s.Device = "a-name-that-is-too-long" }, "device: "},
		{"mtu", func(s *Spec) { s.MTU = 100 }, "mtu: 100 is out of range"},
		{"port of a lighthouse", func(s *Spec) { s.IsLighthouse, s.Port = true, 0 }, "port: a lighthouse needs a port"},
		{"no lighthouse", func(s *Spec) { s.Lighthouses = nil }, "lighthouses: a node needs a lighthouse"},
		{"itself", func(s *Spec) { s.Lighthouses[0].Overlay = s.Network.Addr() }, "lighthouses: 198.19.0.11 is the node itself"},
		{"foreign lighthouse", func(s *Spec) { s.Lighthouses[0].Overlay = netip.MustParseAddr("198.19.9.1") }, "lighthouses: 198.19.9.1 is outside the node's overlay 198.19.0.0/24"},
		{"no port", func(s *Spec) { s.Lighthouses[0].Underlay = "198.18.0.2" }, `lighthouses: "198.18.0.2" is no address and port`},
		{"route", func(s *Spec) {
			s.UnsafeRoutes = []Route{{Route: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr("198.18.0.3")}}
		}, "unsafe_routes: the route to 10.0.0.0/8 goes via 198.18.0.3"},
		{"rule for no one", rule(Rule{Port: "any", Proto: "any"}), "firewall: inbound rule 2: the rule says nothing about the other side"},
		{"rule port", rule(Rule{Port: "http", Proto: "tcp", Host: "any"}), `firewall: inbound rule 2: port "http" is none`},
		{"rule proto", rule(Rule{Port: "80", Proto: "sctp", Host: "any"}), `firewall: inbound rule 2: proto "sctp" is unknown`},
		{"rule cidr", rule(Rule{Port: "80", Proto: "tcp", CIDR: "198.19.0.1"}), `firewall: inbound rule 2: cidr "198.19.0.1" is no network`},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := nodeSpec()
			test.change(&spec)
			err := spec.Check()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
