package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// The files that repeat a run.
const (
	InputsFile = "inputs.tfvars"
	ModuleFile = "main.tf"
)

// Inputs are the arguments that define a run, by their names in a
// configuration, as JSON has them: nil, bool, string, numbers, []any and
// map[string]any. Defaults are filled in, so that they repeat the run also
// where a later version has others.
type Inputs map[string]any

// names returns the names of the arguments that have a value: the run's name
// first, the rest in order.
func (in Inputs) names() []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(in)), func(name string) bool { return in[name] == nil })
	slices.SortFunc(names, func(a, b string) int {
		if first := cmp.Compare(rank(a), rank(b)); first != 0 {
			return first
		}
		return cmp.Compare(a, b)
	})
	return names
}

func rank(name string) int {
	if name == "name" {
		return 0
	}
	return 1
}

// Variables returns the inputs as the text of a file of variables.
func (in Inputs) Variables() ([]byte, error) {
	file := hclwrite.NewEmptyFile()
	for _, name := range in.names() {
		value, err := toCty(in[name])
		if err != nil {
			return nil, fmt.Errorf("write the input %s: %w", name, err)
		}
		file.Body().SetAttributeValue(name, value)
	}
	return hclwrite.Format(file.Bytes()), nil
}

// toCty returns a value without the fields of objects that are null, which say
// no more than their absence.
func toCty(value any) (cty.Value, error) {
	text, err := json.Marshal(withoutNulls(value))
	if err != nil {
		return cty.NilVal, err
	}
	kind, err := ctyjson.ImpliedType(text)
	if err != nil {
		return cty.NilVal, err
	}
	return ctyjson.Unmarshal(text, kind)
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, field := range value {
			if field != nil {
				kept[name] = withoutNulls(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, element := range value {
			kept[i] = withoutNulls(element)
		}
		return kept
	default:
		return value
	}
}

// Module returns the text of a module that makes the run from its inputs.
func (in Inputs) Module() []byte {
	file := hclwrite.NewEmptyFile()
	body := file.Body()
	body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte(
		"# Makes the run of inputs.tfvars once more, on a testbed that has its clusters,\n" +
			"# links and functions. Copy both files to a folder of their own, beside the\n" +
			"# provider block of the testbed unless its data_dir is the default, then:\n" +
			"#   terraform init && terraform apply -var-file=inputs.tfvars\n\n")}})
	required := body.AppendNewBlock("terraform", nil).Body().AppendNewBlock("required_providers", nil).Body()
	required.SetAttributeValue("testbed", cty.ObjectVal(map[string]cty.Value{"source": cty.StringVal("terraform-testbed/testbed")}))
	for _, name := range in.names() {
		body.AppendNewline()
		variable := body.AppendNewBlock("variable", []string{name}).Body()
		variable.SetAttributeTraversal("type", hcl.Traversal{hcl.TraverseRoot{Name: "any"}})
	}
	body.AppendNewline()
	run := body.AppendNewBlock("resource", []string{"testbed_benchmark_run", "this"}).Body()
	for _, name := range in.names() {
		run.SetAttributeTraversal(name, hcl.Traversal{hcl.TraverseRoot{Name: "var"}, hcl.TraverseAttr{Name: name}})
	}
	body.AppendNewline()
	output := body.AppendNewBlock("output", []string{"run"}).Body()
	output.SetAttributeTraversal("value", hcl.Traversal{hcl.TraverseRoot{Name: "testbed_benchmark_run"}, hcl.TraverseAttr{Name: "this"}})
	return hclwrite.Format(file.Bytes())
}
