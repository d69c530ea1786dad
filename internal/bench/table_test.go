package bench

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

func TestTable(t *testing.T) {
	direct := Cell{Function: "hello", Scenario: "edge", Connection: load.Reuse, Arm: "direct"}
	clusterlink, unmeasured := direct, direct
	clusterlink.Arm = "clusterlink"
	unmeasured.Scenario = "cloud"
	results := []Result{
		{Cell: direct, Count: 100, First: new(21.5), Min: new(10.0), Mean: new(10.5), Median: new(10.4), MedianLow: new(10.3), MedianHigh: new(10.6), P90: new(11.0), Max: new(12.0)},
		{Cell: clusterlink, Count: 98, Errors: 2, First: new(61.5), Min: new(10.2), Mean: new(11.5), Median: new(11.4), MedianLow: new(11.3), Max: new(13.0)},
		{Cell: unmeasured},
	}
	comparisons := []Comparison{{Cell: clusterlink, Baseline: "direct", Difference: new(1.0), DifferenceLow: new(0.9), DifferenceHigh: new(1.1), Ratio: new(1.096), RatioLow: new(1.09), RatioHigh: new(1.1)}}
	var text strings.Builder
	if err := Table(&text, results, comparisons); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"FUNCTION SCENARIO CONNECTION ARM COUNT ERRORS FIRST MIN MEAN MEDIAN P90 P99 MAX OVERHEAD RATIO",
		"hello edge reuse direct 100 0 21.50 10.00 10.50 10.40 [10.30, 10.60] 11.00 - 12.00 - -",
		"clusterlink 98 2 61.50 10.20 11.50 11.40 [11.30, -] - - 13.00 1.00 [0.90, 1.10] 1.10 [1.09, 1.10]",
		"hello cloud reuse direct 0 0 - - - - - - - - -",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
}
