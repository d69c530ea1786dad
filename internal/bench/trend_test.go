package bench

import (
	"math"
	"testing"
)

// The wanted values follow from counting permutations: of 5 values in order 2
// of 120 have a score as far from 0, and so on (Kendall's tables).
func TestKendall(t *testing.T) {
	for _, test := range []struct {
		n, score int
		want     float64
	}{{5, 10, 2.0 / 120}, {5, -10, 2.0 / 120}, {5, 8, 10.0 / 120}, {5, 0, 1}, {4, 6, 2.0 / 24}, {10, 25, 0.0286}} {
		if got := kendall(test.n, test.score); math.Abs(got-test.want) > 5e-4 {
			t.Errorf("%d values, score %d: got %.4f, want %.4f", test.n, test.score, got, test.want)
		}
	}
}

func TestDriftOf(t *testing.T) {
	if d := driftOf(map[int]float64{1: 1, 2: 2, 3: 3, 4: 4}); d != nil {
		t.Errorf("four blocks have a drift: %+v", d)
	}
	// A block without a valid visit is no step of the others.
	d := driftOf(map[int]float64{1: 100, 2: 101, 4: 103, 5: 104, 6: 105})
	if d == nil || !near(d.Percent, 100*5/103.0) || !near(d.P, 2.0/120) {
		t.Errorf("a rise of 5 about 103: got %+v", d)
	}
	d = driftOf(map[int]float64{1: 100, 2: 104, 3: 101, 4: 103, 5: 102})
	if d == nil || d.P < 0.5 {
		t.Errorf("no order: got %+v", d)
	}
}

// The drift of a run is what its cells have in common, whatever their times.
func TestDriftOfRun(t *testing.T) {
	plan := testPlan()
	plan.Blocks = 6
	tally := NewTally(plan)
	for i, cell := range plan.cells() {
		for block := 1; block <= plan.Blocks; block++ {
			noise := 1 + 0.03*math.Sin(float64(7*i+11*block))
			tally.counted.add(cell, block, float64(10*(i+1))*math.Pow(1.02, float64(block))*noise)
		}
	}
	d := DriftOf(plan, tally)
	if d == nil || math.Abs(d.Percent-10.4) > 2 || d.P > 2.1/720 {
		t.Errorf("five steps of 2 %%: got %+v", d)
	}
}
