package provider

import (
	"net/netip"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// What is wrong with a node shows in the plan, before any host is asked.
func TestNebulaNodeRefuses(t *testing.T) {
	dataDir := t.TempDir()
	// An existing CA, so that its limits are known to the plan.
	spec := nebula.CASpec{Name: "old", Networks: []netip.Prefix{netip.MustParsePrefix("198.19.0.0/16")}, Groups: []string{"k3s"}, Duration: time.Hour, Curve: "25519", Version: 1}
	if _, err := nebula.MakeCA(spec, nebula.KeyFile(dataDir, "old"), time.Now()); err != nil {
		t.Fatal(err)
	}
	const lighthouse = `lighthouses = [{ overlay = "198.19.0.1", underlay = "198.18.0.2:4242" }]`
	for name, test := range map[string]struct{ kind, attributes, want string }{
		"network":           {"node", `network = "198.19.0.11"` + "\n" + lighthouse, `valid.*CIDR`},
		"no address":        {"node", `network = "198.19.0.0/24"` + "\n" + lighthouse, `198.19.0.0/24 is a network, not the address of a node in it`},
		"IPv6":              {"node", `network = "2001:2::b/64"` + "\n" + `lighthouses = [{ overlay = "2001:2::1", underlay = "198.18.0.2:4242" }]`, `2001:2::b/64 is IPv6, which CA "old" cannot sign with certificates of version 1`},
		"group":             {"node", `network = "198.19.0.11/24"` + "\n" + `groups = ["edge"]` + "\n" + lighthouse, `"edge" is no group of CA "old", whose groups are`},
		"no lighthouse":     {"node", `network = "198.19.0.11/24"` + "\n" + `lighthouses = []`, `must contain at least 1 elements`},
		"itself":            {"node", `network = "198.19.0.1/24"` + "\n" + lighthouse, `198.19.0.1 is the node itself; name another node that is a lighthouse`},
		"other overlay":     {"node", `network = "198.19.1.11/24"` + "\n" + lighthouse, `198.19.0.1 is outside the node's overlay 198.19.1.0/24`},
		"endpoint":          {"node", `network = "198.19.0.11/24"` + "\n" + `lighthouses = [{ overlay = "198.19.0.1", underlay = "198.18.0.2" }]`, `"198.18.0.2" is no address and port of the underlay`},
		"half a lighthouse": {"node", `network = "198.19.0.11/24"` + "\n" + `lighthouses = [{ overlay = "198.19.0.1" }]`, `lighthouses\[0\] has no underlay; set it`},
		"device":            {"node", `network = "198.19.0.11/24"` + "\n" + `device = "overlay-of-the-lab"` + "\n" + lighthouse, `"overlay-of-the-lab" has 18 characters; Linux wants 1 to 15`},
		"mtu":               {"node", `network = "198.19.0.11/24"` + "\n" + `mtu = 90` + "\n" + lighthouse, `90 is out of range; use 576 to 9000`},
		"rule":              {"node", `network = "198.19.0.11/24"` + "\n" + `firewall = { inbound = [{ port = "22" }] }` + "\n" + lighthouse, `inbound rule 1: the rule says nothing about the other side`},
		"rule port":         {"node", `network = "198.19.0.11/24"` + "\n" + `firewall = { outbound = [{ port = "ssh", host = "any" }] }` + "\n" + lighthouse, `outbound rule 1: port "ssh" is none`},
		"route":             {"node", `network = "198.19.0.11/24"` + "\n" + `unsafe_routes = [{ route = "10.42.0.0/24", via = "198.18.0.3" }]` + "\n" + lighthouse, `the route to 10.42.0.0/24 goes via 198.18.0.3, which is outside`},
		"duration":          {"node", `network = "198.19.0.11/24"` + "\n" + `duration = "-1h"` + "\n" + lighthouse, `-1h0m0s is no time to live`},
		"outside the CA":    {"lighthouse", `network = "198.18.5.1/24"` + "\n" + `underlay = "198.18.0.2"`, `198.18.5.1/24 is outside the networks of CA "old", which are`},
		"lighthouse":        {"lighthouse", `network = "198.19.0.1/24"` + "\n" + `underlay = "198.18.0.2"` + "\n" + `port = 0`, `a lighthouse needs a port that its nodes know`},
		"port":              {"lighthouse", `network = "198.19.0.1/24"` + "\n" + `underlay = "198.18.0.2"` + "\n" + `port = 70000`, `value must be between 0 and 65535`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config: providerConfig(dataDir) + `
resource "testbed_nebula_` + test.kind + `" "this" {
  host = "local://absent"
  ca   = "old"
` + test.attributes + `
}
`,
					PlanOnly:    true,
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}
