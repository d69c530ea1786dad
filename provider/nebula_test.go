package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// compareDiffer compares a value that every step changes.
var compareDiffer = compare.ValuesDiffer()

// gone returns an error when there is something at the path.
func gone(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is still there: %v", path, err)
	}
	return nil
}

// noPrivateKey searches the whole state for private keys.
func noPrivateKey(s *terraform.State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "PRIVATE KEY") {
		return errors.New("a private key is in the state")
	}
	return nil
}

// wrapped matches the text however Terraform breaks its lines.
func wrapped(text string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)` + strings.ReplaceAll(text, " ", `[\s│|]+`))
}

// The examples of the documentation are configurations that can be planned.
func TestNebulaExamples(t *testing.T) {
	examples, err := filepath.Glob("../examples/resources/testbed_nebula_*/resource.tf")
	if err != nil || len(examples) != 3 {
		t.Fatalf("found %q, %v; want three examples", examples, err)
	}
	for _, example := range examples {
		t.Run(filepath.Base(filepath.Dir(example)), func(t *testing.T) {
			text, err := os.ReadFile(example)
			if err != nil {
				t.Fatal(err)
			}
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:             providerConfig(t.TempDir()) + string(text),
					PlanOnly:           true,
					ExpectNonEmptyPlan: true,
				}},
			})
		})
	}
}
