package bench

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the wanted files of tests anew")

// The files that repeat a run are readable and leave nothing to chance.
func TestInputs(t *testing.T) {
	inputs := Inputs{
		"name": "short", "blocks": 5, "max_error_ratio": 0.05, "triggers": nil,
		"arms": map[string]any{
			"direct": map[string]any{"urls": map[string]any{"hello": "http://198.19.0.12:30080/"}, "path": nil},
		},
		"connections": []any{"new", "reuse"},
		"scenarios": map[string]any{
			"edge":  map[string]any{"profiles": map[string]any{"wan/edge/cloud": `{"delay":"5ms"}`}},
			"local": map[string]any{"profiles": map[string]any{}},
			"odd":   map[string]any{"profiles": map[string]any{"wan/a/b": "${path.module} and %{ if }"}},
		},
	}
	variables, err := inputs.Variables()
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{InputsFile: variables, ModuleFile: inputs.Module()} {
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
