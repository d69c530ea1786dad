package provider

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// TestAccLinkByKernel has the kernels of local hosts carry a link out. Where
// they have no netem, as on many machines that run tests, it is one that does
// nothing, and the plan of another says what is missing.
func TestAccLinkByKernel(t *testing.T) {
	preCheck(t)
	dir := newDataDir(t)
	hosts := providerConfig(string(dir)) + `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.23.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.23.1" }]
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.23.2" }]
}
`
	config := func(profile, more string) string {
		return hosts + netemProfileConfig(profile) + `
resource "testbed_link" "this" {
  between   = [testbed_local_host.edge.url, testbed_local_host.cloud.url]
  addresses = [["198.18.23.1"], ["198.18.23.2"]]
  profile   = testbed_netem_profile.this.json
  verify    = { packets = 20, rtt_tolerance = "1s" }
  ` + more + `
}
`
	}
	on := func(name string, argv ...string) string {
		t.Helper()
		h, err := local.NewOpener(string(dir)).Open(context.Background(), local.URL(name))
		if err != nil {
			t.Fatal(err)
		}
		output, err := h.Run(context.Background(), host.Command{Argv: argv})
		if err != nil {
			t.Fatal(err)
		}
		return string(output.Stdout)
	}
	lacking := resource.TestStep{
		Config:      config(`rtt = "10ms"`, ""),
		ExpectError: wrapped(`(?s)Unable to Plan Link.*on local://edge, the kernel does not have the netem queueing discipline, sch_netem .*to mend it: modprobe sch_netem.*on local://cloud`),
	}
	if exec.Command("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms").Run() == nil {
		lacking = resource.TestStep{Config: config(`rtt = "10ms"`, "")}
	}
	const id = "underlay/local://edge/local://cloud"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir.Network("wan")) },
		Steps: []resource.TestStep{
			{Config: hosts},
			{
				Config: config(``, ""),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(testLink, tfjsonpath.New("id"), knownvalue.StringExact(id)),
					statecheck.ExpectKnownValue(testLink, tfjsonpath.New("network"), knownvalue.Null()),
					statecheck.ExpectKnownValue(testLink, tfjsonpath.New("measured").AtMapKey("base_rtt_ms"), knownvalue.NotNull()),
					statecheck.ExpectKnownValue(testLink, tfjsonpath.New("shaping").AtSliceIndex(1), knownvalue.ObjectPartial(map[string]knownvalue.Check{
						"host":     knownvalue.StringExact("local://cloud"),
						"device":   knownvalue.StringExact("eth0"),
						"ingress":  knownvalue.Bool(false),
						"replaced": knownvalue.Null(),
					})),
				},
			},
			{
				Config:           config(``, ""),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				ResourceName:            testLink,
				ImportState:             true,
				ImportStateId:           id,
				ImportStateVerify:       true,
				ImportStateVerifyIgnore: []string{"verify", "measured"},
			},
			lacking,
			{
				// One host does it all, in place.
				Config:           config(``, `shape_on = testbed_local_host.cloud.url`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(testLink, plancheck.ResourceActionUpdate)}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(testLink, tfjsonpath.New("shaping"), knownvalue.ListSizeExact(1)),
				},
			},
			{
				// Someone takes away what sends packets there.
				PreConfig: func() {
					on("cloud", "tc", "qdisc", "del", "dev", "eth0", "root")
					on("cloud", "tc", "qdisc", "del", "dev", "eth0", "ingress")
				},
				Config:           config(``, `shape_on = testbed_local_host.cloud.url`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(testLink, plancheck.ResourceActionCreate)}},
			},
			{
				Config: hosts,
				Check: func(*terraform.State) error {
					for _, name := range []string{"edge", "cloud"} {
						if left := on(name, "tc", "qdisc", "show"); strings.Contains(left, "htb") || strings.Contains(left, "ingress") {
							t.Errorf("on %s is left:\n%s", name, left)
						}
					}
					return nil
				},
			},
		},
	})
}

func TestLinkByKernelInvalid(t *testing.T) {
	for _, test := range []struct{ name, body, text string }{
		{"local hosts without addresses", `between = ["local://a", "local://b"]`, `names no address; set network`},
		{"a name for an address", `between = ["ssh://pi@board", "ssh://192.0.2.2"]`, `"ssh://pi@board" names no address by which another host could reach it`},
		{"loopback", `between = ["ssh://pi@127.0.0.1:2222", "ssh://192.0.2.2"]`, `names no address by which another host could reach it`},
		{"no host", `between = ["http://a", "ssh://192.0.2.2"]`, `is not a host`},
		{"overlay without addresses", `between = ["ssh://192.0.2.1", "ssh://192.0.2.2"]` + "\n" + `on = "overlay"`, `testbed_nebula_node`},
		{"no place", `between = ["ssh://192.0.2.1", "ssh://192.0.2.2"]` + "\n" + `on = "wire"`, `must be one of`},
		{"no address", `between = ["ssh://a", "ssh://b"]` + "\n" + `addresses = [["192.0.2.1"], ["b"]]`, `"b" is not an address of a host`},
		{"addresses of one host", `between = ["ssh://a", "ssh://b"]` + "\n" + `addresses = [["192.0.2.1"]]`, `at least 2 elements`},
		{"shaped elsewhere", `between = ["ssh://192.0.2.1", "ssh://192.0.2.2"]` + "\n" + `shape_on = "ssh://192.0.2.3"`, `none of the hosts of between`},
		{"kernel's on a network", `between = ["local://a", "local://b"]` + "\n" + `network = "wan"` + "\n" + `on = "overlay"`, `has no effect on a network`},
		{"SSH host on a network", `between = ["local://a", "ssh://192.0.2.2"]` + "\n" + `network = "wan"`, `is not a host of a network`},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      "resource \"testbed_link\" \"this\" {\n" + test.body + "\nprofile = \"{}\"\n}\n",
					PlanOnly:    true,
					ExpectError: wrapped(test.text),
				}},
			})
		})
	}
}
