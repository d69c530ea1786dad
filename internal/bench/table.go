package bench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Table prints one line for each arm of a function, scenario and connection
// mode, in the order of the results, and puts the comparison with the baseline
// on the line of the arm. Times are milliseconds; brackets hold 95 %
// confidence intervals, whose end may be unbounded; "-" stands for what the
// samples do not allow.
func Table(w io.Writer, results []Result, comparisons []Comparison) error {
	overhead := map[Cell]Comparison{}
	for _, c := range comparisons {
		overhead[c.Cell] = c
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FUNCTION\tSCENARIO\tCONNECTION\tARM\tCOUNT\tERRORS\tFIRST\tMIN\tMEAN\tMEDIAN\t\tP90\tP99\tMAX\tOVERHEAD\t\tRATIO\t")
	last := Cell{}
	for _, r := range results {
		group := r.Cell
		group.Arm = ""
		function, scenario, connection := r.Function, r.Scenario, r.Connection
		if group == last {
			function, scenario, connection = "", "", load.Connection("")
		}
		last = group
		c := overhead[r.Cell]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			function, scenario, connection, r.Arm, r.Count, r.Errors,
			number(r.First), number(r.Min), number(r.Mean), number(r.Median), bounds(r.MedianLow, r.MedianHigh),
			number(r.P90), number(r.P99), number(r.Max),
			number(c.Difference), bounds(c.DifferenceLow, c.DifferenceHigh), number(c.Ratio), bounds(c.RatioLow, c.RatioHigh))
	}
	return table.Flush()
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func bounds(low, high *float64) string {
	if low == nil && high == nil {
		return ""
	}
	return "[" + number(low) + ", " + number(high) + "]"
}
