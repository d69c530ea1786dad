package bench

import (
	"strings"
	"testing"
)

func TestUnmet(t *testing.T) {
	cell := func(scenario, arm string) Cell {
		return Cell{Function: "hello", Scenario: scenario, Connection: "reuse", Arm: arm}
	}
	results := []Result{
		{Cell: cell("edge", "direct"), Median: new(10.0), MedianLow: new(9.9), MedianHigh: new(10.1)},
		{Cell: cell("edge", "other"), Median: new(10.3), MedianLow: new(10.1), P99: new(20.0), P99Low: new(18.0)},
		{Cell: cell("cloud", "direct")},
		{Cell: cell("cloud", "other")},
	}
	comparisons := []Comparison{
		{Cell: cell("edge", "other"), Difference: new(0.3), DifferenceLow: new(0.1), DifferenceHigh: new(0.6), Ratio: new(1.03), RatioLow: new(1.01), RatioHigh: new(1.06)},
		{Cell: cell("cloud", "other"), Difference: new(0.3), Ratio: new(1.01)},
	}
	measured := Measure(results, comparisons)
	for name, test := range map[string]struct {
		expectation Expectation
		want        []string // in the sentences, in order
	}{
		"holds":            {Expectation{Cell: Cell{Scenario: "edge"}, MaxOverheadPercent: new(6.5)}, nil},
		"holds at both":    {Expectation{Cell: Cell{Scenario: "edge"}, MinOverheadMS: new(0.1), MaxOverheadMS: new(0.6)}, nil},
		"undecided":        {Expectation{Cell: Cell{Scenario: "edge"}, MaxOverheadPercent: new(5.0)}, []string{"the overhead is 3 %, with 95 % confidence 1 to 6 %, and should be at most 5 %: the interval is too wide to tell"}},
		"refuted":          {Expectation{Cell: Cell{Scenario: "edge"}, MaxOverheadPercent: new(0.5)}, []string{"at most 0.5 %: it is not"}},
		"refuted below":    {Expectation{Cell: Cell{Scenario: "edge"}, MinOverheadMS: new(1.0)}, []string{"0.3 ms, with 95 % confidence 0.1 to 0.6 ms, and should be at least 1 ms: it is not"}},
		"undecided below":  {Expectation{Cell: Cell{Scenario: "edge"}, MinOverheadMS: new(0.2)}, []string{"at least 0.2 ms: the interval is too wide"}},
		"no interval":      {Expectation{Cell: Cell{Scenario: "cloud"}, MaxOverheadPercent: new(5.0)}, []string{"with 95 % confidence anything, and should be at most 5 %: the interval has no such end"}},
		"half an interval": {Expectation{Cell: Cell{Scenario: "edge", Arm: "other"}, MaxMedianMS: new(11.0)}, []string{"with 95 % confidence 10.1 ms at least, and should be at most 11 ms: the interval has no such end"}},
		"half is enough":   {Expectation{Cell: Cell{Scenario: "edge", Arm: "other"}, MaxP99MS: new(15.0)}, []string{"should be at most 15 ms: it is not"}},
		"not measured":     {Expectation{Cell: Cell{Scenario: "edge", Arm: "direct"}, MaxP99MS: new(15.0)}, []string{"the 99th percentile was not measured, or has too few requests"}},
		"two cells":        {Expectation{MaxOverheadPercent: new(0.5)}, []string{`scenario "edge"`, `scenario "cloud"`}},
		"both arms":        {Expectation{Cell: Cell{Scenario: "edge"}, MaxMedianMS: new(9.0)}, []string{`arm "direct"`, `arm "other"`}},
		"no cell":          {Expectation{Cell: Cell{Scenario: "moon"}, MaxOverheadPercent: new(5.0)}, []string{"about no cell"}},
		"only baseline":    {Expectation{Cell: Cell{Arm: "direct"}, MaxOverheadPercent: new(5.0)}, []string{"about no cell"}},
	} {
		got := test.expectation.Unmet(measured, "direct")
		if len(got) != len(test.want) {
			t.Errorf("%s: got %q, want %d sentences", name, got, len(test.want))
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got %q, want %q in it", name, got[i], want)
			}
		}
	}
}
