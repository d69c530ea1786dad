package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// TestExamples plans the examples of each resource's page.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob("../examples/resources/*/*.tf")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, example := range examples {
		page := filepath.Base(filepath.Dir(example))
		pages[page] = true
		t.Run(page+"/"+filepath.Base(example), func(t *testing.T) {
			text, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factoriesDialling(refuse),
				Steps: []resource.TestStep{{
					Config:             providerConfig(t.TempDir()) + string(text),
					PlanOnly:           true,
					ExpectNonEmptyPlan: true,
				}},
			})
		})
	}
	if got, want := len(pages), len((&testbedProvider{}).Resources(t.Context())); got != want {
		t.Errorf("examples of %d resources, of which there are %d", got, want)
	}
}
