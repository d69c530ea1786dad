package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// The results that a state holds are held against expectations, and an error
// shows the numbers.
func TestJudge(t *testing.T) {
	cell := bench.Cell{Function: "hello-world", Scenario: "edge", Connection: "reuse", Arm: "direct"}
	other := cell
	other.Arm = "clusterlink"
	report := bench.Report{
		SamplesFile: "/srv/results/run-1/samples.csv",
		Results:     []bench.Result{{Cell: cell, Median: new(10.0)}, {Cell: other, Median: new(10.7), MedianLow: new(10.5), MedianHigh: new(10.9)}},
		Comparisons: []bench.Comparison{{Cell: other, Baseline: "direct", Ratio: new(1.07), RatioLow: new(1.06), RatioHigh: new(1.085)}},
	}
	kinds := benchmarkExpectAttribute().NestedObject.Type().(types.ObjectType).AttrTypes
	for name, test := range map[string]struct {
		bound string
		limit float64
		want  []string
	}{
		"met":     {"max_overhead_percent", 10, nil},
		"refuted": {"max_overhead_percent", 5, []string{`does not meet the expectation "claim"`, `arm "clusterlink", function "hello-world", scenario "edge", connection "reuse": the overhead is 7 %, with 95 % confidence 6 to 8.5 %, and should be at most 5 %: it is not.`, "in the state and in /srv/results/run-1"}},
		"median":  {"max_median_ms", 10.8, []string{"the median is 10.7 ms, with 95 % confidence 10.5 to 10.9 ms, and should be at most 10.8 ms: the interval is too wide"}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]attr.Value{}
			for name, kind := range kinds {
				values[name] = types.StringNull()
				if kind == types.Float64Type {
					values[name] = types.Float64Null()
				}
			}
			values[test.bound], values["arm"] = types.Float64Value(test.limit), types.StringValue("clusterlink")
			var model benchmarkRunModel
			if diags := model.set(report); diags.HasError() {
				t.Fatal(diags)
			}
			model.Baseline = types.StringValue("direct")
			model.Expect = types.MapValueMust(types.ObjectType{AttrTypes: kinds}, map[string]attr.Value{"claim": types.ObjectValueMust(kinds, values)})
			var diags diag.Diagnostics
			model.judge(t.Context(), &diags)
			if diags.HasError() != (len(test.want) > 0) {
				t.Fatalf("got %v", diags)
			}
			for _, want := range test.want {
				if detail := diags[0].Detail(); !strings.Contains(detail, want) {
					t.Errorf("the error lacks %q:\n%s", want, detail)
				}
			}
		})
	}
}
