package provider

import (
	"os"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// TestNetworkExamples plans the examples of networks, profiles and links.
func TestNetworkExamples(t *testing.T) {
	for _, name := range []string{"testbed_network", "testbed_netem_profile", "testbed_link"} {
		t.Run(name, func(t *testing.T) {
			example, err := os.ReadFile("../examples/resources/" + name + "/resource.tf")
			if err != nil {
				t.Fatal(err)
			}
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:             providerConfig(t.TempDir()) + string(example),
					PlanOnly:           true,
					ExpectNonEmptyPlan: true,
				}},
			})
		})
	}
}
