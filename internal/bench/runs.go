package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// RunComparison is what a cell's median in one run is against that of the same
// cell in another, with 95 % intervals from a bootstrap of blocks. The times of
// both runs were taken apart from each other, so whatever changed between them
// is part of the difference.
type RunComparison struct {
	Cell
	Run            string   `json:"run"`
	Base           string   `json:"base"` // run that is compared with
	Difference     *float64 `json:"difference_ms"`
	DifferenceLow  *float64 `json:"difference_low_ms"`
	DifferenceHigh *float64 `json:"difference_high_ms"`
	Ratio          *float64 `json:"ratio"`
	RatioLow       *float64 `json:"ratio_low"`
	RatioHigh      *float64 `json:"ratio_high"`
}

// CompareRuns compares every cell that both runs have. A cell that was another
// one in the base, though it has the same names, is left out, and the reasons
// are returned, one sentence each.
func CompareRuns(base, run Folder) (comparisons []RunComparison, reasons []string) {
	random := rand.New(rand.NewPCG(base.Plan.Seed, 2))
	times, baseTimes := run.Times(), base.Times()
	baseCells := base.Plan.cells()
	for _, cell := range run.Plan.cells() {
		if !slices.Contains(baseCells, cell) {
			continue
		}
		if reason := differs(base.Plan, run.Plan, cell); reason != "" {
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			continue
		}
		comparison := RunComparison{Cell: cell, Run: run.ID, Base: base.ID}
		comparison.describe(timesOf(times[cell]), timesOf(baseTimes[cell]), random)
		comparisons = append(comparisons, comparison)
	}
	return comparisons, reasons
}

// differs tells why a cell of the same names was another one in the base, ""
// when it was not.
func differs(base, run Plan, cell Cell) string {
	one, other := base.Functions[cell.Function], run.Functions[cell.Function]
	switch {
	case one.PayloadBytes != other.PayloadBytes:
		return fmt.Sprintf("The function %q was called with %d bytes in one run and with %d in the other.", cell.Function, one.PayloadBytes, other.PayloadBytes)
	case one.ResponseBytes != other.ResponseBytes:
		return fmt.Sprintf("The function %q was asked for %d bytes in one run and for %d in the other.", cell.Function, one.ResponseBytes, other.ResponseBytes)
	case one.protocol() != other.protocol():
		return fmt.Sprintf("The function %q was called over %s in one run and over %s in the other.", cell.Function, one.protocol(), other.protocol())
	}
	a, b := base.Scenarios[cell.Scenario], run.Scenarios[cell.Scenario]
	same := len(a) == len(b)
	for id, profile := range a {
		other, ok := b[id]
		same = same && ok && profile.Equal(other)
	}
	if !same {
		return fmt.Sprintf("The scenario %q has other link profiles in one run than in the other.", cell.Scenario)
	}
	if one, other := base.loadOf(), run.loadOf(); one != other {
		return fmt.Sprintf("The load was %s in one run and %s in the other.", one, other)
	}
	return ""
}

// describe fills in the numbers from the times of both runs.
func (c *RunComparison) describe(run, base cellTimes, random *rand.Rand) {
	if len(run.values) == 0 || len(base.values) == 0 {
		return
	}
	a, b := quantile(run.values, 0.5), quantile(base.values, 0.5)
	c.Difference, c.Ratio = new(a-b), new(a/b)
	if min(len(run.ids), len(base.ids)) < minBlocks {
		return
	}
	// The blocks of two runs are not paired, so each run is drawn by itself.
	differences, ratios := make([]outcome, resamples), make([]outcome, resamples)
	for i := range resamples {
		a, b := drawMedian(run.resampler, random), drawMedian(base.resampler, random)
		differences[i], ratios[i] = outcome{a - b, 1.0 / resamples}, outcome{a / b, 1.0 / resamples}
	}
	tail := expandedTail(min(len(run.ids), len(base.ids)), len(run.ids)+len(base.ids)-2)
	difference, ratio := between(differences, tail), between(ratios, tail)
	c.DifferenceLow, c.DifferenceHigh = new(difference.low), new(difference.high)
	c.RatioLow, c.RatioHigh = new(ratio.low), new(ratio.high)
}

// drawMedian draws as many blocks as there are, with replacement, and returns
// the median of their values.
func drawMedian(of *resampler, random *rand.Rand) float64 {
	draws := make([]int, len(of.sizes))
	for range draws {
		draws[random.IntN(len(draws))]++
	}
	return of.quantile(draws, 0.5)
}
