package provider

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
)

func TestClusterlinkFabric(t *testing.T) {
	const fabric = "testbed_clusterlink_fabric.this"
	dataDir := filepath.Join(t.TempDir(), "data")
	config := func(name string) string {
		return providerConfig(dataDir) + "resource \"testbed_clusterlink_fabric\" \"this\" {\n  name = \"" + name + "\"\n}\n"
	}
	fingerprint := statecheck.CompareValue(compareDiffer)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(filepath.Join(dataDir, "keys")) },
		Steps: []resource.TestStep{
			{
				Config: config("continuum"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(fabric, tfjsonpath.New("id"), knownvalue.StringRegexp(regexp.MustCompile(`^continuum@[0-9a-f]{12}$`))),
					statecheck.ExpectKnownValue(fabric, tfjsonpath.New("certificate"), knownvalue.StringRegexp(regexp.MustCompile("^-----BEGIN CERTIFICATE"))),
					fingerprint.AddStateValue(fabric, tfjsonpath.New("fingerprint")),
				},
				Check: noPrivateKey,
			},
			{
				Config:           config("continuum"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				ResourceName:                         fabric,
				ImportState:                          true,
				ImportStateId:                        "continuum",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "fingerprint",
			},
			{
				PreConfig: func() {
					if err := os.Remove(filepath.Join(clusterlink.FabricDir(dataDir, "continuum"), "key.pem")); err != nil {
						t.Fatal(err)
					}
				},
				Config: config("continuum"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(fabric, plancheck.ResourceActionCreate),
				}},
				ConfigStateChecks: []statecheck.StateCheck{fingerprint.AddStateValue(fabric, tfjsonpath.New("fingerprint"))},
			},
			{
				Config: config("other"),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(fabric, plancheck.ResourceActionReplace),
				}},
			},
		},
	})
}
