package provider

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// An object that is unknown as a whole is planned; one that lacks what it
// needs is refused on the attribute that is missing.
func TestNeededAttributes(t *testing.T) {
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config: `
resource "terraform_data" "place" {
  input = { network = "wan", address = "198.18.0.2" }
}
resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [terraform_data.place.output]
}`,
				PlanOnly:           true,
				ExpectNonEmptyPlan: true,
			},
			{
				Config: `
resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = "wan" }]
}`,
				ExpectError: regexp.MustCompile(`networks\[0\] has no address; set it`),
			},
		},
	})
}
