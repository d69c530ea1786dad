package report

import (
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// Findings say in words what the comparisons found, one sentence for each
// function, connection mode and arm. A difference is only called one when its
// interval leaves 0 out.
func (r *run) Findings() []string {
	var findings []string
	for _, function := range r.Functions {
		for _, connection := range r.Plan.Connections {
			for _, arm := range r.Arms[1:] {
				var parts []string
				for _, s := range r.Scenarios {
					cell := bench.Cell{Function: function, Scenario: s.Name, Connection: connection, Arm: arm}
					if part := finding(r.overhead[cell], s.Name); part != "" {
						parts = append(parts, part)
					}
				}
				if len(parts) > 0 {
					findings = append(findings, function+", "+connectionTitle(connection)+": "+arm+" against "+r.Plan.Baseline+" takes "+strings.Join(parts, "; ")+".")
				}
			}
		}
	}
	return findings
}

// finding words one comparison, "" for one without numbers.
func finding(c bench.Comparison, scenario string) string {
	switch {
	case c.Difference == nil:
		return ""
	case c.DifferenceLow == nil:
		return signed(*c.Difference) + " in " + scenario + " (no interval)"
	case *c.DifferenceLow <= 0 && *c.DifferenceHigh >= 0:
		return "not measurably more or less in " + scenario + " (" + interval(c.DifferenceLow, c.DifferenceHigh) + " ms)"
	default:
		return signed(*c.Difference) + " in " + scenario + " (" + interval(c.DifferenceLow, c.DifferenceHigh) + " ms)"
	}
}

// signed words a difference in milliseconds.
func signed(difference float64) string {
	if difference < 0 {
		difference = -difference
		return number(&difference) + " ms less"
	}
	return number(&difference) + " ms more"
}
