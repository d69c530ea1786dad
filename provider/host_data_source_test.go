package provider

import (
	"regexp"
	"runtime"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
)

func TestAccHostDataSource(t *testing.T) {
	preCheck(t)
	const data = "data.testbed_host.edge"
	config := providerConfig(t.TempDir())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config: config + `
resource "testbed_local_host" "edge" {
  name = "edge"
}

data "testbed_host" "edge" {
  url = testbed_local_host.edge.url
}
`,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(data, tfjsonpath.New("hostname"), knownvalue.StringExact("edge")),
					statecheck.ExpectKnownValue(data, tfjsonpath.New("arch"), knownvalue.StringExact(runtime.GOARCH)),
					statecheck.ExpectKnownValue(data, tfjsonpath.New("memory"), knownvalue.NotNull()),
				},
			},
			{
				Config:      config + "data \"testbed_host\" \"none\" {\n  url = \"local://none\"\n}\n",
				ExpectError: regexp.MustCompile(`no\s+local\s+host\s+"none"\s+in`),
			},
		},
	})
}
