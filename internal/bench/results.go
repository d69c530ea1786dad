package bench

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

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

	// Cold has the medians of the parts of cold starts, nil for other requests.
	Cold *ColdParts `json:"cold_start,omitempty"`
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
	Pod      Stages    // of the pod that a cold start waited for
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
// every cell of another arm with the baseline. Cells that differ in more than
// their arm have nothing to do with each other and are worked on side by side.
func Summarize(p Plan, tally *Tally) ([]Result, []Comparison) {
	tally.settle() // from here on it is only read
	groups := slices.Collect(slices.Chunk(p.cells(), len(p.Arms)))
	results, comparisons := make([][]Result, len(groups)), make([][]Comparison, len(groups))
	var working errgroup.Group
	working.SetLimit(runtime.GOMAXPROCS(0))
	for i, cells := range groups {
		working.Go(func() error {
			results[i], comparisons[i] = summarizeArms(cells, tally, rand.New(rand.NewPCG(p.Seed, uint64(i)+1)))
			return nil
		})
	}
	_ = working.Wait() // none fails
	compared := slices.Concat(comparisons...)
	adjust(compared)
	return slices.Concat(results...), compared
}

// summarizeArms does so for cells that differ in their arm only, the baseline
// first.
func summarizeArms(cells []Cell, tally *Tally, random *rand.Rand) (results []Result, comparisons []Comparison) {
	var base cellTimes
	for i, cell := range cells {
		times := timesOf(tally.counted[cell])
		result := Result{Cell: cell, Errors: tally.Failed(cell)}
		result.describe(times)
		result.describeFirst(tally.first[cell])
		result.describeLag(tally.Lag(cell))
		result.describeCold(tally.cold[cell])
		results = append(results, result)
		if i == 0 {
			base = times
			continue
		}
		comparison := Comparison{Cell: cell, Baseline: cells[0].Arm}
		comparison.describe(times, base, random)
		comparisons = append(comparisons, comparison)
	}
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

// describe fills in the numbers from the times that count.
func (r *Result) describe(times cellTimes) {
	values := times.values
	r.Count = len(values)
	if r.Count == 0 {
		return
	}
	mean, deviation := meanAndDeviation(values)
	r.Min, r.Max, r.Mean = new(values[0]), new(values[len(values)-1]), new(mean)
	if r.Count > 1 {
		r.Stddev = new(deviation)
	}
	for _, p := range r.percentiles() {
		if p.thousandths > 500 && !enoughFor(r.Count, p.thousandths) {
			continue
		}
		q := float64(p.thousandths) / 1000
		*p.value = new(quantile(values, q))
		*p.low, *p.high = quantileInterval(times.resampler, q)
	}
	r.Drift = driftOf(times.medians())
}

// describeFirst fills in the numbers of first requests. A visit has one for
// each client; those of one client are independent of each other.
func (r *Result) describeFirst(first map[int][]float64) {
	times := timesOf(first)
	if len(times.values) == 0 {
		return
	}
	r.First = new(quantile(times.values, 0.5))
	if len(times.values) == len(times.ids) {
		r.FirstLow, r.FirstHigh = orderStatistics(times.values, 0.5)
	} else {
		r.FirstLow, r.FirstHigh = quantileInterval(times.resampler, 0.5)
	}
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

// describe fills in the numbers from the times of both arms.
func (c *Comparison) describe(arm, base cellTimes, random *rand.Rand) {
	if len(arm.values) == 0 || len(base.values) == 0 {
		return
	}
	a, b := quantile(arm.values, 0.5), quantile(base.values, 0.5)
	c.Difference, c.Ratio = new(a-b), new(a/b)
	c.P = mannWhitney(arm.values, base.values)
	ofArm, ofBase := paired(arm, base)
	if difference, ratio, ok := bootstrap(ofArm, ofBase, random); ok {
		c.DifferenceLow, c.DifferenceHigh = new(difference.low), new(difference.high)
		c.RatioLow, c.RatioHigh = new(ratio.low), new(ratio.high)
	}
}

// paired returns the times of those blocks that both arms have.
func paired(arm, base cellTimes) (ofArm, ofBase *resampler) {
	if slices.Equal(arm.ids, base.ids) {
		return arm.resampler, base.resampler
	}
	var values, bases [][]float64
	for i, id := range arm.ids {
		if j := slices.Index(base.ids, id); j >= 0 {
			values, bases = append(values, arm.block(i)), append(bases, base.block(j))
		}
	}
	return newResampler(values), newResampler(bases)
}
