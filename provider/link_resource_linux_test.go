package provider

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const testLink = "testbed_link.this"

// attach gives a network two hosts that are nothing but network namespaces,
// which is all that an unverified link needs.
func attach(t *testing.T, dir datadir.Dir, network string, hosts map[string]string) {
	t.Helper()
	client, err := underlay.Open(dir, network)
	if err != nil {
		t.Fatal(err)
	}
	for host, address := range hosts {
		namespace := exec.Command("cat") // it ends with the test, which holds its input
		namespace.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if _, err := namespace.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := namespace.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = namespace.Process.Kill()
			_ = namespace.Wait()
		})
		port := underlay.Port{Host: host, Namespace: fmt.Sprintf("/proc/%d/ns/net", namespace.Process.Pid), Device: "eth0", Address: netip.MustParsePrefix(address)}
		if err := client.Attach(t.Context(), port); err != nil {
			t.Fatal(err)
		}
	}
}

// expectDrift checks that the plan shows a value that was changed by hand.
type expectDrift struct{ address, attribute, value string }

func (e expectDrift) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	for _, change := range req.Plan.ResourceChanges {
		before, ok := change.Change.Before.(map[string]any)
		if change.Address == e.address && ok && before[e.attribute] == e.value {
			return
		}
	}
	resp.Error = fmt.Errorf("the plan does not show %s of %s as %s", e.attribute, e.address, e.value)
}

func TestAccLink(t *testing.T) {
	preCheck(t)
	dir := newDataDir(t)
	base := providerConfig(string(dir)) + `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.21.0/24"
}
`
	config := func(profile string) string {
		return base + netemProfileConfig(profile) + `
resource "testbed_link" "this" {
  network = testbed_network.wan.name
  between = ["local://edge", "local://cloud"]
  profile = testbed_netem_profile.this.json
}
`
	}
	profile := func(text string) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(testLink, tfjsonpath.New("profile"), knownvalue.StringExact(text)),
			statecheck.ExpectKnownValue(testLink, tfjsonpath.New("id"), knownvalue.StringExact("wan/edge/cloud")),
			statecheck.ExpectKnownValue(testLink, tfjsonpath.New("measured"), knownvalue.Null()),
		}
	}
	action := func(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(testLink, action)}}
	}
	// byHand runs the command that a person would.
	byHand := func(args ...string) {
		t.Helper()
		program, err := agent.Install(dir)
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{"underlay", "set", string(dir), "wan"}, args...)
		if output, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{Config: base},
			{
				Config:      config(`rtt = "10ms"`),
				ExpectError: wrapped(`is not attached to network "wan"; attach it`),
			},
			{
				PreConfig:         func() { attach(t, dir, "wan", map[string]string{"edge": "198.18.21.1/24", "cloud": "198.18.21.2/24"}) },
				Config:            config(`rtt = "10ms"`),
				ConfigPlanChecks:  action(plancheck.ResourceActionCreate),
				ConfigStateChecks: profile(`{"delay":"5ms"}`),
			},
			{
				Config:           config(`rtt = "10ms"`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				ResourceName:      testLink,
				ImportState:       true,
				ImportStateId:     "wan/edge/cloud",
				ImportStateVerify: true,
			},
			{
				Config:            config(`delay = "20ms"`),
				ConfigPlanChecks:  action(plancheck.ResourceActionUpdate),
				ConfigStateChecks: profile(`{"delay":"20ms"}`),
			},
			{
				Config:            config(``),
				ConfigPlanChecks:  action(plancheck.ResourceActionUpdate),
				ConfigStateChecks: profile(`{}`),
			},
			{
				// The other way is the same link, and a profile without delay one, too.
				Config: config(``) + `
resource "testbed_link" "back" {
  network = testbed_network.wan.name
  between = ["local://cloud", "local://edge"]
  profile = jsonencode({ delay = "30ms" })
}
`,
				ExpectError: wrapped(`link wan/cloud/edge has the profile {} already, by another testbed_link or by hand. .*terraform import" and the id "wan/cloud/edge"`),
			},
			{
				Config:           config(``),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{Config: config(`delay = "20ms"`)},
			{
				// Someone changes one direction: the plan shows it, apply repairs it.
				PreConfig: func() { byHand("cloud", "edge", `{"delay":"1ms"}`) },
				Config:    config(`delay = "20ms"`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(testLink, plancheck.ResourceActionUpdate),
					expectDrift{testLink, "profile", `{"forward":{"delay":"20ms"},"reverse":{"delay":"1ms"}}`},
				}},
				ConfigStateChecks: profile(`{"delay":"20ms"}`),
			},
			{
				// Someone removes both.
				PreConfig: func() {
					byHand("cloud", "edge")
					byHand("edge", "cloud")
				},
				Config:            config(`delay = "20ms"`),
				ConfigPlanChecks:  action(plancheck.ResourceActionCreate),
				ConfigStateChecks: profile(`{"delay":"20ms"}`),
			},
			{Config: base},
			{
				// A creation was killed half-way.
				PreConfig:         func() { byHand("edge", "cloud", `{"delay":"20ms"}`) },
				Config:            config(`delay = "20ms"`),
				ConfigPlanChecks:  action(plancheck.ResourceActionCreate),
				ConfigStateChecks: profile(`{"delay":"20ms"}`),
			},
			{
				// The network's process is killed and the profile changed: a new network has no links.
				PreConfig: func() {
					status, err := underlay.Observe(t.Context(), dir, "wan")
					if err != nil {
						t.Fatal(err)
					}
					daemon, err := process.Of(status.PID)
					if err == nil {
						err = daemon.Kill(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				},
				Config:            config(`delay = "10ms"`),
				ConfigPlanChecks:  action(plancheck.ResourceActionCreate),
				ConfigStateChecks: profile(`{"delay":"10ms"}`),
			},
			{
				// Without the link packets pass untouched again.
				Config: base,
				Check: func(*terraform.State) error {
					status, err := underlay.Observe(context.Background(), dir, "wan")
					if err == nil && len(status.Links) > 0 {
						err = fmt.Errorf("links are left: %v", status.Links)
					}
					return err
				},
			},
		},
	})
}

// TestAccLinkVerify measures a link between real hosts. A miss fails the apply,
// keeps the link and is measured again.
func TestAccLinkVerify(t *testing.T) {
	preCheck(t)
	dir := newDataDir(t)
	config := func(rtt, verify string) string {
		return providerConfig(string(dir)) + netemProfileConfig(`rtt = "`+rtt+`"`) + `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.22.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.22.1" }]
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.22.2" }]
}

resource "testbed_link" "this" {
  network = testbed_network.wan.name
  between = [testbed_local_host.edge.url, testbed_local_host.cloud.url]
  profile = testbed_netem_profile.this.json
  ` + verify + `
}
`
	}
	measured := func(least, most float64) []statecheck.StateCheck {
		return []statecheck.StateCheck{
			statecheck.ExpectKnownValue(testLink, tfjsonpath.New("measured").AtMapKey("rtt_median_ms"), knownvalue.Float64Func(func(ms float64) error {
				if ms < least || ms > most {
					return fmt.Errorf("%v ms is not from %v to %v ms", ms, least, most)
				}
				return nil
			})),
			statecheck.ExpectKnownValue(testLink, tfjsonpath.New("measured").AtMapKey("forward_loss"), knownvalue.Float64Exact(0)),
		}
	}
	update := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction(testLink, plancheck.ResourceActionUpdate),
	}}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir.Network("wan")) },
		Steps: []resource.TestStep{
			{
				Config:            config("10ms", `verify = {}`),
				ConfigStateChecks: measured(9.9, 10.4),
			},
			{
				Config:           config("10ms", `verify = {}`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				// Nothing is within a nanosecond.
				Config:      config("20ms", `verify = { rtt_tolerance = "1ns", packets = 10 }`),
				ExpectError: wrapped(`wanted 20.000 ms within`),
			},
			{
				Config:            config("20ms", `verify = { packets = 50 }`),
				ConfigPlanChecks:  update,
				ConfigStateChecks: measured(19.9, 20.7),
			},
		},
	})
}

func TestLinkInvalid(t *testing.T) {
	for _, test := range []struct{ name, between, profile, text string }{
		{"one host", `["local://edge"]`, `{}`, `must contain at least 2 elements and at most 2 elements`},
		{"host twice", `["local://edge", "local://edge"]`, `{}`, `duplicate`},
		{"no local host", `["local://edge", "edge"]`, `{}`, `write the url of a testbed_local_host`},
		{"no profile", `["local://edge", "local://cloud"]`, `edge`, `use the json attribute of a testbed_netem_profile`},
		{"bad profile", `["local://edge", "local://cloud"]`, `{\"delay\":\"5\"}`, `has no unit`},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config: fmt.Sprintf(`
resource "testbed_link" "this" {
  network = "wan"
  between = %s
  profile = "%s"
}
`, test.between, test.profile),
					PlanOnly:    true,
					ExpectError: wrapped(test.text),
				}},
			})
		})
	}
}
