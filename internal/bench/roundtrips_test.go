package bench

import (
	"math"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Costs are found in round trips, whatever does not depend on the link, and
// whatever one block has more than another.
func TestRoundTripsOf(t *testing.T) {
	plan := testPlan()
	plan.Blocks = 6
	rtts := map[string]float64{}
	for i, scenario := range sortedKeys(plan.Scenarios) {
		rtts[scenario] = float64(1 + 20*i)
	}
	tally := NewTally(plan)
	for _, cell := range plan.cells() {
		for block := 1; block <= plan.Blocks; block++ {
			trips, own := 1.0, 2+0.1*float64(block)
			if cell.Arm != plan.Baseline {
				trips, own = trips+0.25, own+5
			}
			setUp := 1.0
			if cell.Arm != plan.Baseline {
				setUp = 4
			}
			if cell.Connection == load.New {
				trips += setUp
			}
			for i := range 9 {
				tally.counted.add(cell, block, own+trips*rtts[cell.Scenario]+0.01*float64(i))
			}
			if cell.Connection == load.Reuse {
				trips += setUp + 1
			}
			tally.first.add(cell, block, own+3+trips*rtts[cell.Scenario])
		}
	}
	found := RoundTripsOf(plan, tally, rtts)
	want := map[Cost]map[load.Connection]map[string]float64{
		CostOverhead:   {load.Reuse: {"clusterlink": 0.25}, load.New: {"clusterlink": 3.25}},
		CostConnection: {load.New: {"direct": 1, "clusterlink": 4}},
		CostSession:    {load.Reuse: {"direct": 2, "clusterlink": 5}},
	}
	if len(found) != 6*len(plan.Functions) {
		t.Errorf("got %d costs: %+v", len(found), found)
	}
	for _, trips := range found {
		wanted, ok := want[trips.Cost][trips.Connection][trips.Arm]
		if !ok || math.Abs(trips.Trips-wanted) > 1e-9 || trips.Low == nil || math.Abs(*trips.Low-wanted) > 1e-9 || math.Abs(*trips.High-wanted) > 1e-9 {
			t.Errorf("%v, %s: got %g, want %g", trips.Cell, trips.Cost, trips.Trips, wanted)
		}
	}

	for scenario := range rtts {
		rtts[scenario] = 10
	}
	if found := RoundTripsOf(plan, tally, rtts); found != nil {
		t.Errorf("scenarios of one round-trip time tell %+v", found)
	}
}

// A block that some scenario lacks has no part in a cost, and fewer than five
// have no interval.
func TestRoundTripsNeedBlocks(t *testing.T) {
	plan := testPlan()
	rtts := map[string]float64{}
	tally := NewTally(plan)
	for i, scenario := range sortedKeys(plan.Scenarios) {
		rtts[scenario] = float64(1 + 20*i)
		for _, arm := range sortedKeys(plan.Arms) {
			cell := Cell{Function: "hello", Scenario: scenario, Connection: load.New, Arm: arm}
			for block := range 5 {
				if block == 4 && i == 0 {
					continue
				}
				tally.counted.add(cell, block, 1+rtts[scenario])
			}
		}
	}
	found := RoundTripsOf(plan, tally, rtts)
	if len(found) != 1 || found[0].Cost != CostOverhead || !near(found[0].Trips, 0) || found[0].Low != nil {
		t.Errorf("got %+v", found)
	}
}
