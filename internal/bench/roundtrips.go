package bench

import (
	"math/rand/v2"
	"slices"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Cost says what a time is more than another one.
type Cost string

// The costs that runs tell. All are differences of medians.
const (
	// CostOverhead is what an arm takes more than the baseline.
	CostOverhead Cost = "overhead"
	// CostConnection is what a request over a new connection takes more than
	// one over a connection that is kept.
	CostConnection Cost = "new connection"
	// CostSession is what the first request of a visit takes more than a later
	// one over the same connection.
	CostSession Cost = "first request"
)

// RoundTrips is a cost in round trips of the link: by how many milliseconds it
// grows with each millisecond of round-trip time (the least-squares slope over
// the scenarios), with a 95 % interval from a bootstrap of blocks. What does not
// depend on the link, as processing, has no part in it.
type RoundTrips struct {
	Cell           // without a scenario
	Cost  Cost     `json:"cost"`
	Trips float64  `json:"round_trips"`
	Low   *float64 `json:"round_trips_low"` // nil for fewer than 5 blocks
	High  *float64 `json:"round_trips_high"`
}

// RoundTripsOf returns all costs that the scenarios of a run tell apart, given
// the measured round-trip time of each in milliseconds. There are none unless
// two scenarios or more have different ones.
func RoundTripsOf(p Plan, tally *Tally, rtts map[string]float64) []RoundTrips {
	fit := newLine(p, rtts)
	if fit == nil {
		return nil
	}
	counted, first := tally.Counted(), tally.First()
	random := rand.New(rand.NewPCG(p.Seed, 3))
	var all []RoundTrips
	add := func(cell Cell, cost Cost, more, less Times, other Cell) {
		if trips, ok := fit.slope(more, cell, less, other, random); ok {
			trips.Cell, trips.Cost = cell, cost
			all = append(all, trips)
		}
	}
	seen := map[Cell]bool{}
	for _, cell := range p.cells() {
		cell.Scenario = ""
		if seen[cell] {
			continue
		}
		seen[cell] = true
		if cell.Arm != p.Baseline {
			other := cell
			other.Arm = p.Baseline
			add(cell, CostOverhead, counted, counted, other)
		}
		switch kept := slices.Contains(p.Connections, load.Reuse); {
		case cell.Connection == load.Reuse:
			add(cell, CostSession, first, counted, cell)
		case kept && cell.Connection == load.New:
			other := cell
			other.Connection = load.Reuse
			add(cell, CostConnection, counted, counted, other)
		}
	}
	return all
}

// line fits lines over the round-trip times of scenarios.
type line struct {
	scenarios []string
	weights   []float64 // of each scenario's value in the slope
}

func newLine(p Plan, rtts map[string]float64) *line {
	l := &line{}
	mean := 0.0
	for _, scenario := range sortedKeys(p.Scenarios) {
		if rtt, ok := rtts[scenario]; ok {
			l.scenarios = append(l.scenarios, scenario)
			mean += rtt
		}
	}
	mean /= float64(len(l.scenarios))
	squares := 0.0
	for _, scenario := range l.scenarios {
		squares += (rtts[scenario] - mean) * (rtts[scenario] - mean)
	}
	// Scenarios that differ by less than a tenth of a millisecond are the same.
	if len(l.scenarios) < 2 || squares < 0.01 {
		return nil
	}
	for _, scenario := range l.scenarios {
		l.weights = append(l.weights, (rtts[scenario]-mean)/squares)
	}
	return l
}

// slope returns by how much the median of the first times exceeds that of the
// second ones for each millisecond of round-trip time.
func (l *line) slope(more Times, moreCell Cell, less Times, lessCell Cell, random *rand.Rand) (RoundTrips, bool) {
	var all []cellTimes // of the first and the second of each scenario, in turn
	for _, scenario := range l.scenarios {
		moreCell.Scenario, lessCell.Scenario = scenario, scenario
		all = append(all, timesOf(more[moreCell]), timesOf(less[lessCell]))
	}
	common := inCommon(all)
	if len(common) == 0 {
		return RoundTrips{}, false
	}
	of := make([]*resampler, len(all))
	for i, times := range all {
		of[i] = times.only(common)
	}
	slope := func(draws []int) float64 {
		sum := 0.0
		for i, weight := range l.weights {
			sum += weight * (of[2*i].quantile(draws, 0.5) - of[2*i+1].quantile(draws, 0.5))
		}
		return sum
	}
	trips := RoundTrips{Trips: slope(slices.Repeat([]int{1}, len(common)))}
	if len(common) < minBlocks {
		return trips, true
	}
	var outcomes []outcome
	for _, d := range drawsOf(len(common), random) {
		outcomes = append(outcomes, outcome{slope(d.counts), d.probability})
	}
	found := between(outcomes, expandedTail(len(common), len(common)-1))
	trips.Low, trips.High = &found.low, &found.high
	return trips, true
}

// inCommon returns the blocks that all of the times have.
func inCommon(all []cellTimes) []int {
	common := slices.Clone(all[0].ids)
	for _, times := range all[1:] {
		common = slices.DeleteFunc(common, func(id int) bool { return !slices.Contains(times.ids, id) })
	}
	return common
}

// only returns the times of some of the blocks.
func (t cellTimes) only(ids []int) *resampler {
	if slices.Equal(ids, t.ids) {
		return t.resampler
	}
	var blocks [][]float64
	for _, id := range ids {
		blocks = append(blocks, t.block(slices.Index(t.ids, id)))
	}
	return newResampler(blocks)
}
