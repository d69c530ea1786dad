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
	First     *float64 `json:"first_ms"`
	FirstLow  *float64 `json:"first_low_ms"` // from 6 visits on
	FirstHigh *float64 `json:"first_high_ms"`

	Min    *float64 `json:"min_ms"`
	Mean   *float64 `json:"mean_ms"`
	Stddev *float64 `json:"stddev_ms"`
	Max    *float64 `json:"max_ms"`

	// The median and percentiles with 95 % intervals, whose ends are order
	// statistics; an end that the times do not bound is nil. A percentile needs
	// ten requests beyond it.
	Median     *float64 `json:"median_ms"`
	MedianLow  *float64 `json:"median_low_ms"`
	MedianHigh *float64 `json:"median_high_ms"`
	P90        *float64 `json:"p90_ms"`
	P90Low     *float64 `json:"p90_low_ms"`
	P90High    *float64 `json:"p90_high_ms"`
	P95        *float64 `json:"p95_ms"`
	P95Low     *float64 `json:"p95_low_ms"`
	P95High    *float64 `json:"p95_high_ms"`
	P99        *float64 `json:"p99_ms"`
	P99Low     *float64 `json:"p99_low_ms"`
	P99High    *float64 `json:"p99_high_ms"`
	P999       *float64 `json:"p99_9_ms"`
	P999Low    *float64 `json:"p99_9_low_ms"`
	P999High   *float64 `json:"p99_9_high_ms"`

	Drift *Drift `json:"drift"` // of the blocks' medians; nil for fewer than 5

	// Lag is the median of the part of each time that the client itself caused.
	// The cell is Lagging when that is more than a share of LagLimit of Median.
	Lag     *float64 `json:"lag_ms"`
	Lagging bool     `json:"lagging"`
}

// LagLimit is the share of a cell's median up to which the client's own part in
// it passes unmarked.
const LagLimit = 0.01

// Comparison is what an arm is against the baseline: the difference and the
// ratio of the medians, with 95 % intervals from a bootstrap of blocks, and how
// likely it is that both arms have the same times.
type Comparison struct {
	Cell
	Baseline       string   `json:"baseline"`
	Difference     *float64 `json:"difference_ms"`
	DifferenceLow  *float64 `json:"difference_low_ms"`
	DifferenceHigh *float64 `json:"difference_high_ms"`
	Ratio          *float64 `json:"ratio"`
	RatioLow       *float64 `json:"ratio_low"`
	RatioHigh      *float64 `json:"ratio_high"`

	// P is that of Mann and Whitney's test, which takes requests for independent
	// of each other, as the intervals do not. Adjusted is P after Holm's
	// correction for all comparisons of the run.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted"`
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
		result.describe(counted[cell], flatten(first[cell]))
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
	adjust(comparisons)
	return results, comparisons
}

// adjust corrects the p values of comparisons for how many there are.
func adjust(comparisons []Comparison) {
	values := make([]*float64, len(comparisons))
	for i, c := range comparisons {
		values[i] = c.P
	}
	for i, p := range holm(values) {
		comparisons[i].Adjusted = p
	}
}

// describe fills in the numbers from the times by block, and from those of
// first requests, which are sorted.
func (r *Result) describe(counted map[int][]float64, first []float64) {
	if len(first) > 0 {
		r.First = new(quantile(first, 0.5))
		// Each is of another visit, and independent of the others.
		r.FirstLow, r.FirstHigh = quantileInterval(first, nil, 0.5)
	}
	times := flatten(counted)
	r.Count = len(times)
	if r.Count == 0 {
		return
	}
	mean, deviation := meanAndDeviation(times)
	r.Min, r.Max, r.Mean = new(times[0]), new(times[len(times)-1]), new(mean)
	if r.Count > 1 {
		r.Stddev = new(deviation)
	}
	blocks := inOrder(counted)
	for _, p := range r.percentiles() {
		if p.thousandths > 500 && !enoughFor(r.Count, p.thousandths) {
			continue
		}
		q := float64(p.thousandths) / 1000
		*p.value = new(quantile(times, q))
		*p.low, *p.high = quantileInterval(times, blocks, q)
	}
	r.Drift = driftOf(blockMedians(counted))
}

// percentile is where a percentile of a result and its interval stand.
type percentile struct {
	thousandths      int
	value, low, high **float64
}

func (r *Result) percentiles() []percentile {
	return []percentile{
		{500, &r.Median, &r.MedianLow, &r.MedianHigh},
		{900, &r.P90, &r.P90Low, &r.P90High},
		{950, &r.P95, &r.P95Low, &r.P95High},
		{990, &r.P99, &r.P99Low, &r.P99High},
		{999, &r.P999, &r.P999Low, &r.P999High},
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
	ofArm, ofBase := flatten(arm), flatten(base)
	a, b := quantile(ofArm, 0.5), quantile(ofBase, 0.5)
	c.Difference, c.Ratio = new(a-b), new(a/b)
	c.P = mannWhitney(ofArm, ofBase)
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
