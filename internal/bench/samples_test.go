package bench

import (
	"os"
	"strings"
	"testing"
)

// The documentation of the samples file names every column.
func TestColumnsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../templates/resources/benchmark_run.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range columns {
		if !strings.Contains(string(text), "`"+column.name+"`") {
			t.Errorf("the column %s is not described", column.name)
		}
	}
}
