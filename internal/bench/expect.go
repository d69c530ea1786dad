package bench

import (
	"fmt"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Measured are the numbers of one cell, by the names of their columns. Those of
// an arm that is not the baseline include its comparison.
type Measured struct {
	Cell
	Numbers map[string]*float64
}

// Measure joins the results of cells with their comparisons.
func Measure(results []Result, comparisons []Comparison) []Measured {
	var all []Measured
	for _, result := range results {
		m := Measured{Cell: result.Cell, Numbers: map[string]*float64{}}
		for _, column := range ResultColumns() {
			m.Numbers[column.Name] = column.Value(result)
		}
		for _, comparison := range comparisons {
			if comparison.Cell != result.Cell {
				continue
			}
			for _, column := range ComparisonColumns() {
				m.Numbers[column.Name] = column.Value(comparison)
			}
		}
		all = append(all, m)
	}
	return all
}

// Expectation is a hypothesis about some cells of a run. It holds when the 95 %
// interval of each of them lies within all bounds as a whole, so that a run with
// too few requests or blocks refutes nothing and confirms nothing.
type Expectation struct {
	Cell // whose empty fields mean any

	// Bounds of what an arm takes more than the baseline, and of times. Those
	// that are nil bound nothing.
	MaxOverheadPercent *float64
	MinOverheadPercent *float64
	MaxOverheadMS      *float64
	MinOverheadMS      *float64
	MaxMedianMS        *float64
	MaxP99MS           *float64
}

// bound is one limit of an expectation and the number that it limits.
type bound struct {
	limit  *float64
	upper  bool
	what   string // for example "the overhead"
	unit   string
	column string
	// of returns the bounded number from the one of the column.
	of func(float64) float64
}

// ends returns the columns of the interval.
func (b bound) ends() (low, high string) {
	stem, isTime := strings.CutSuffix(b.column, "_ms")
	if isTime {
		return stem + "_low_ms", stem + "_high_ms"
	}
	return b.column + "_low", b.column + "_high"
}

func (e Expectation) bounds() []bound {
	same := func(v float64) float64 { return v }
	percent := func(ratio float64) float64 { return 100 * (ratio - 1) }
	var bounds []bound
	for _, b := range []bound{
		{e.MaxOverheadPercent, true, "the overhead", "%", "ratio", percent},
		{e.MinOverheadPercent, false, "the overhead", "%", "ratio", percent},
		{e.MaxOverheadMS, true, "the overhead", "ms", "difference_ms", same},
		{e.MinOverheadMS, false, "the overhead", "ms", "difference_ms", same},
		{e.MaxMedianMS, true, "the median", "ms", "median_ms", same},
		{e.MaxP99MS, true, "the 99th percentile", "ms", "p99_ms", same},
	} {
		if b.limit != nil {
			bounds = append(bounds, b)
		}
	}
	return bounds
}

// OnOverhead tells whether the expectation bounds what an arm takes more than
// the baseline, which the baseline itself has none of.
func (e Expectation) OnOverhead() bool {
	return e.MaxOverheadPercent != nil || e.MinOverheadPercent != nil || e.MaxOverheadMS != nil || e.MinOverheadMS != nil
}

// Bounded tells whether the expectation bounds anything.
func (e Expectation) Bounded() bool { return len(e.bounds()) > 0 }

// Covers tells whether the expectation is about a cell, given the baseline.
func (e Expectation) Covers(cell Cell, baseline string) bool {
	matches := func(wanted, name string) bool { return wanted == "" || wanted == name }
	return matches(e.Function, cell.Function) && matches(e.Scenario, cell.Scenario) && matches(e.Arm, cell.Arm) &&
		(e.Connection == load.Connection("") || e.Connection == cell.Connection) &&
		(!e.OnOverhead() || cell.Arm != baseline)
}

// Unmet returns why the expectation does not hold, one sentence for each cell
// and bound, and nothing when it does. The numbers are part of the sentences.
func (e Expectation) Unmet(measured []Measured, baseline string) []string {
	var unmet []string
	covered := false
	for _, m := range measured {
		if !e.Covers(m.Cell, baseline) {
			continue
		}
		covered = true
		for _, b := range e.bounds() {
			if reason := b.unmet(m); reason != "" {
				unmet = append(unmet, m.String()+": "+reason)
			}
		}
	}
	if !covered {
		unmet = append(unmet, "It is about no cell of the run.")
	}
	return unmet
}

// unmet returns why one cell is not within the bound, "" when it is.
func (b bound) unmet(m Measured) string {
	value := m.Numbers[b.column]
	if value == nil {
		return fmt.Sprintf("%s was not measured, or has too few requests.", b.what)
	}
	lowName, highName := b.ends()
	low, high := m.Numbers[lowName], m.Numbers[highName]
	// The end that has to be within the bound, and the one that is beyond it
	// when the expectation is refuted.
	critical, other, wanted := high, low, "at most"
	beyond := func(v *float64) bool { return v != nil && b.of(*v) > *b.limit }
	if !b.upper {
		critical, other, wanted = low, high, "at least"
		beyond = func(v *float64) bool { return v != nil && b.of(*v) < *b.limit }
	}
	text := fmt.Sprintf("%s is %s, with 95 %% confidence %s, and should be %s %s", b.what, b.text(value), b.interval(low, high), wanted, b.print(*b.limit))
	switch {
	case beyond(other):
		return text + ": it is not."
	case critical == nil:
		return text + ": the interval has no such end. More blocks, 5 at least, and more requests give it one."
	case beyond(critical):
		return text + ": the interval is too wide to tell. More blocks and requests narrow it."
	default:
		return ""
	}
}

func (b bound) text(v *float64) string { return b.print(b.of(*v)) }

func (b bound) print(v float64) string { return fmt.Sprintf("%.4g %s", v, b.unit) }

func (b bound) interval(low, high *float64) string {
	switch {
	case low == nil && high == nil:
		return "anything"
	case low == nil:
		return b.text(high) + " at most"
	case high == nil:
		return b.text(low) + " at least"
	default:
		return fmt.Sprintf("%.4g to %s", b.of(*low), b.text(high))
	}
}
