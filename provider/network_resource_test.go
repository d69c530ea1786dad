package provider

import (
	"context"
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const network = "testbed_network.wan"

func TestAccNetwork(t *testing.T) {
	preCheck(t)
	dir := newDataDir(t)
	var daemon process.ID
	remember := func(*terraform.State) (err error) {
		status, err := underlay.Observe(context.Background(), dir, "wan")
		if err == nil {
			daemon, err = process.Of(status.PID)
		}
		return err
	}
	config := func(seed, mtu int, cidr string) string {
		return providerConfig(string(dir)) + fmt.Sprintf(`
resource "testbed_network" "wan" {
  name = "wan"
  cidr = %q
  mtu  = %d
  seed = %d
}
`, cidr, mtu, seed)
	}
	action := func(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(network, action)}}
	}
	const one, two = "198.18.20.0/24", "198.18.23.0/24"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			if daemon.Alive() {
				return fmt.Errorf("the daemon %d outlives its network", daemon.PID)
			}
			return gone(dir.Network("wan"))
		},
		Steps: []resource.TestStep{
			{
				Config: config(1, 1500, one),
				Check:  remember,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectKnownValue(network, tfjsonpath.New("id"), knownvalue.StringExact("wan")),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(network, tfjsonpath.New("mtu"), knownvalue.Int64Exact(1500)),
				},
			},
			{
				Config:           config(1, 1500, one),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				ResourceName:      network,
				ImportState:       true,
				ImportStateId:     "wan",
				ImportStateVerify: true,
			},
			{
				Config:           config(2, 9000, one),
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
				Check: func(*terraform.State) error {
					if !daemon.Alive() {
						return fmt.Errorf("an update ended the daemon")
					}
					return nil
				},
			},
			{
				Config:           config(2, 9000, two),
				ConfigPlanChecks: action(plancheck.ResourceActionReplace),
				Check:            remember,
			},
			{
				// A killed daemon is a network that has gone.
				PreConfig: func() {
					if err := daemon.Kill(t.Context()); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config(2, 9000, two),
				ConfigPlanChecks: action(plancheck.ResourceActionCreate),
				Check:            remember,
			},
		},
	})
}

func TestNetworkInvalid(t *testing.T) {
	for _, test := range []struct{ name, body, text string }{
		{"name", `name = "Wan"
  cidr = "198.18.0.0/24"`, `"Wan" is not a name`},
		{"host bits", `name = "wan"
  cidr = "198.18.0.1/24"`, `write the range, 198.18.0.0/24`},
		{"no range", `name = "wan"
  cidr = "198.18.0.0"`, `Invalid IP CIDR String Value`},
		{"mtu", `name = "wan"
  cidr = "198.18.0.0/24"
  mtu  = 100`, `must be between 576 and 65535`},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      "resource \"testbed_network\" \"wan\" {\n  " + test.body + "\n}\n",
					PlanOnly:    true,
					ExpectError: wrapped(test.text),
				}},
			})
		})
	}
}
