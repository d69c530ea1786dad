package bench

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Result summarises the good, measured requests of one cell: those that were
// no warm-up, had no error, were part of a valid visit and, with connections
// reused, used one that was there. All times are milliseconds; what the
// samples do not allow is nil.
type Result struct {
	Cell
	Count  int `json:"count"`
	Errors int `json:"errors"` // failed requests that would have counted

	// First is the median of the first requests of each visit, which set up
	// the connection and the session behind it.
	First      *float64 `json:"first_ms"`
	Min        *float64 `json:"min_ms"`
	Mean       *float64 `json:"mean_ms"`
	Stddev     *float64 `json:"stddev_ms"`
	Median     *float64 `json:"median_ms"`
	MedianLow  *float64 `json:"median_low_ms"` // 95 % interval from order statistics
	MedianHigh *float64 `json:"median_high_ms"`
	P90        *float64 `json:"p90_ms"` // from 100 samples on
	P99        *float64 `json:"p99_ms"` // from 1000 samples on
	Max        *float64 `json:"max_ms"`

	// Lag is the median of the part of each time that the client itself caused.
	// The cell is Lagging when that is more than a share of LagLimit of Median.
	Lag     *float64 `json:"lag_ms"`
	Lagging bool     `json:"lagging"`
}

// LagLimit is the share of a cell's median up to which the client's own part in
// it passes unmarked.
const LagLimit = 0.01

// Comparison is what an arm's median is against the baseline's, with 95 %
// intervals from a bootstrap of blocks.
type Comparison struct {
	Cell
	Baseline       string   `json:"baseline"`
	Difference     *float64 `json:"difference_ms"`
	DifferenceLow  *float64 `json:"difference_low_ms"`
	DifferenceHigh *float64 `json:"difference_high_ms"`
	Ratio          *float64 `json:"ratio"`
	RatioLow       *float64 `json:"ratio_low"`
	RatioHigh      *float64 `json:"ratio_high"`
}

// Sample is one request with its place in the run.
type Sample struct {
	Cell
	Block    int       // from 1
	Attempt  int       // 1, or 2 for the repetition of an invalid visit
	Valid    bool      // the links were as they should be before and after the visit
	Position int       // of the cell within its visit, from 1
	Due      time.Time // when it should have been sent, by the clock of the client pod; Sent in a closed loop
	Sent     time.Time // by the same clock
	load.Record
}

// failed tells whether the request would count but for its error.
func (s *Sample) failed() bool { return s.Valid && !s.Warmup && s.Error != "" }

// counts tells whether the request is part of the summary: a good, measured one
// of a valid visit that belongs to the steady state of its connection mode. In
// an open loop all do, since leaving out those that had to wait for a new
// connection would hide what happened meanwhile.
func (s *Sample) counts(open bool) bool {
	return s.Valid && !s.Warmup && s.Error == "" && (open || s.Connection.Steady(s.Reused))
}

// first tells whether the request set up its cell's session in a valid visit.
func (s *Sample) first() bool { return s.Valid && s.Seq == 0 && s.Error == "" }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func flatten(blocks map[int][]float64) []float64 {
	var all []float64
	for _, values := range blocks {
		all = append(all, values...)
	}
	slices.Sort(all)
	return all
}

// cells returns every cell of the plan, ordered by function, scenario,
// connection mode and arm, the baseline before the other arms.
func (p Plan) cells() []Cell {
	others := slices.DeleteFunc(sortedKeys(p.Arms), func(arm string) bool { return arm == p.Baseline })
	arms := append([]string{p.Baseline}, others...)
	var all []Cell
	for _, function := range sortedKeys(p.Functions) {
		for _, scenario := range sortedKeys(p.Scenarios) {
			for _, connection := range p.Connections {
				for _, arm := range arms {
					all = append(all, Cell{Function: function, Scenario: scenario, Connection: connection, Arm: arm})
				}
			}
		}
	}
	return all
}

// Summarize returns the result of every cell of the plan and the comparison of
// every cell of another arm with the baseline.
func Summarize(p Plan, tally *Tally) ([]Result, []Comparison) {
	counted, first := tally.Counted(), tally.First()
	random := rand.New(rand.NewPCG(p.Seed, 1))
	var results []Result
	var comparisons []Comparison
	for _, cell := range p.cells() {
		result := Result{Cell: cell, Errors: tally.Failed(cell)}
		result.describe(flatten(counted[cell]), flatten(first[cell]))
		result.describeLag(tally.Lag(cell))
		results = append(results, result)
		if cell.Arm != p.Baseline {
			base := cell
			base.Arm = p.Baseline
			comparison := Comparison{Cell: cell, Baseline: p.Baseline}
			comparison.describe(counted[cell], counted[base], random)
			comparisons = append(comparisons, comparison)
		}
	}
	return results, comparisons
}

// describe fills in the numbers from sorted times.
func (r *Result) describe(times, first []float64) {
	if len(first) > 0 {
		r.First = new(quantile(first, 0.5))
	}
	r.Count = len(times)
	if r.Count == 0 {
		return
	}
	mean, deviation := meanAndDeviation(times)
	r.Min, r.Max, r.Mean = new(times[0]), new(times[len(times)-1]), new(mean)
	r.Median = new(quantile(times, 0.5))
	if r.Count > 1 {
		r.Stddev = new(deviation)
	}
	if low, high, ok := medianInterval(times); ok {
		r.MedianLow, r.MedianHigh = new(low), new(high)
	}
	if enoughFor(r.Count, 90) {
		r.P90 = new(quantile(times, 0.9))
	}
	if enoughFor(r.Count, 99) {
		r.P99 = new(quantile(times, 0.99))
	}
}

// describeLag compares the median of the client's own part with the median of
// the times. Runs of earlier versions have none.
func (r *Result) describeLag(median time.Duration) {
	if median == 0 || r.Median == nil {
		return
	}
	r.Lag = new(milliseconds(median))
	r.Lagging = *r.Lag > LagLimit**r.Median
}

// describe fills in the numbers from the times of both arms by block.
func (c *Comparison) describe(arm, base map[int][]float64, random *rand.Rand) {
	if len(arm) == 0 || len(base) == 0 {
		return
	}
	a, b := quantile(flatten(arm), 0.5), quantile(flatten(base), 0.5)
	c.Difference, c.Ratio = new(a-b), new(a/b)
	var values, bases [][]float64
	for _, block := range sortedKeys(arm) {
		if base[block] != nil {
			values, bases = append(values, arm[block]), append(bases, base[block])
		}
	}
	if difference, ratio, ok := bootstrap(values, bases, random); ok {
		c.DifferenceLow, c.DifferenceHigh = new(difference.low), new(difference.high)
		c.RatioLow, c.RatioHigh = new(ratio.low), new(ratio.high)
	}
}
