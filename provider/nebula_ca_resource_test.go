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

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

const nebulaCA = "testbed_nebula_ca.lab"

func TestNebulaCA(t *testing.T) {
	dataDir := filepath.Join(t.TempDir(), "data")
	keyFile := nebula.KeyFile(dataDir, "lab")
	config := func(groups string) string {
		return providerConfig(dataDir) + `
resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
  groups   = ` + groups + `
  duration = "48h0m0s"
}
`
	}
	fingerprint := statecheck.CompareValue(compareDiffer)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			return gone(dataDir)
		},
		Steps: []resource.TestStep{
			{
				Config: config(`["edge"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectKnownValue(nebulaCA, tfjsonpath.New("key_file"), knownvalue.StringExact(keyFile)),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nebulaCA, tfjsonpath.New("id"), knownvalue.StringExact(keyFile)),
					statecheck.ExpectKnownValue(nebulaCA, tfjsonpath.New("curve"), knownvalue.StringExact("25519")),
					statecheck.ExpectKnownValue(nebulaCA, tfjsonpath.New("version"), knownvalue.Int64Exact(2)),
					statecheck.ExpectKnownValue(nebulaCA, tfjsonpath.New("certificate"), knownvalue.StringRegexp(regexp.MustCompile("^-----BEGIN NEBULA CERTIFICATE V2"))),
					fingerprint.AddStateValue(nebulaCA, tfjsonpath.New("fingerprint")),
				},
				Check: noPrivateKey,
			},
			{
				Config: config(`["edge"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectEmptyPlan(),
				}},
			},
			{
				ResourceName:                         nebulaCA,
				ImportState:                          true,
				ImportStateId:                        "lab",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "fingerprint",
			},
			{
				PreConfig: func() {
					if err := os.Remove(keyFile); err != nil {
						t.Fatal(err)
					}
				},
				Config: config(`["edge"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(nebulaCA, plancheck.ResourceActionCreate),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					fingerprint.AddStateValue(nebulaCA, tfjsonpath.New("fingerprint")),
				},
			},
			{
				Config: config(`["edge", "cloud"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(nebulaCA, plancheck.ResourceActionReplace),
					plancheck.ExpectUnknownValue(nebulaCA, tfjsonpath.New("id")),
				}},
			},
		},
	})
}

func TestNebulaCARefuses(t *testing.T) {
	dataDir := t.TempDir()
	taken := filepath.Join(dataDir, "taken")
	if err := os.WriteFile(taken, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ attributes, want string }{
		"name":     {`name = "a/b"`, `"a/b" names a file; use up to 253 characters`},
		"networks": {"name = \"lab\"\nnetworks = [\"198.19.0.0\"]", `valid.*CIDR`},
		"duration": {"name = \"lab\"\nduration = \"-1h\"", `-1h0m0s is no time to live; use a positive duration`},
		"curve":    {"name = \"lab\"\ncurve = \"ed448\"", `value must be one of`},
		"version":  {"name = \"lab\"\nversion = 3", `value must be between 1 and 2`},
		"IPv6":     {"name = \"lab\"\nversion = 1\nnetworks = [\"2001:2::/48\"]", `2001:2::/48 is IPv6`},
		"relative": {"name = \"lab\"\nkey_file = \"lab.key\"", `it must be an absolute path`},
		"taken":    {"name = \"lab\"\nkey_file = \"" + taken + "\"", `load the CA's key from`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      providerConfig(dataDir) + "resource \"testbed_nebula_ca\" \"lab\" {\n" + test.attributes + "\n}\n",
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}
