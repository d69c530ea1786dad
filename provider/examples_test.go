package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// TestExamples plans the example of each resource's page.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob("../examples/resources/*/resource.tf")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(examples), len((&testbedProvider{}).Resources(t.Context())); got != want {
		t.Errorf("%d examples of %d resources", got, want)
	}
	for _, example := range examples {
		t.Run(filepath.Base(filepath.Dir(example)), func(t *testing.T) {
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
}
