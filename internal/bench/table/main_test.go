package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const outputs = `{
  "samples_file": {"sensitive": false, "type": "string", "value": "/srv/samples.csv"},
  "results": {"value": [{"function": "hello", "scenario": "edge", "connection": "reuse", "arm": "direct", "count": 10, "errors": 0, "median_ms": 10.25, "p90_ms": null}]},
  "comparisons": {"value": []}
}`
	var table strings.Builder
	if err := run(strings.NewReader(outputs), &table); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.Contains(got, "hello edge reuse direct 10 0 - - - 10.25 - - - -") {
		t.Errorf("got %s", got)
	}
	if err := run(strings.NewReader("{}"), &table); err == nil || !strings.Contains(err.Error(), "apply the configuration first") {
		t.Errorf("no outputs: got error %v", err)
	}
	if err := run(strings.NewReader("No outputs"), &table); err == nil {
		t.Error("text that is no JSON is no error")
	}
}
