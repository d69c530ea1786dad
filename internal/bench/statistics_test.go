package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// The wanted values are those of R: quantile(x, p, type = 7).
func TestPercentile(t *testing.T) {
	values := []float64{15, 20, 35, 40, 50}
	for _, test := range []struct{ p, want float64 }{{0, 15}, {25, 20}, {40, 29}, {50, 35}, {90, 46}, {100, 50}} {
		if got, ok := Percentile(values, test.p); !ok || !near(got, test.want) {
			t.Errorf("percentile %g: got %g, %t, want %g", test.p, got, ok, test.want)
		}
	}
	if got, ok := Percentile([]float64{7}, 90); !ok || got != 7 {
		t.Errorf("of one value: got %g, %t", got, ok)
	}
	for _, p := range []float64{-1, 101, math.NaN()} {
		if _, ok := Percentile(values, p); ok {
			t.Errorf("percentile %g exists", p)
		}
	}
	if _, ok := Percentile(nil, 50); ok {
		t.Error("nothing has a median")
	}
}

func TestEnoughFor(t *testing.T) {
	for _, test := range []struct {
		n, p int
		want bool
	}{{99, 90, false}, {100, 90, true}, {999, 99, false}, {1000, 99, true}, {20, 50, true}, {19, 50, false}} {
		if got := enoughFor(test.n, test.p); got != test.want {
			t.Errorf("%d samples for p%d: got %t", test.n, test.p, got)
		}
	}
}

// The wanted ranks are those of tables of the sign test: of n values the k-th
// smallest and the k-th greatest bound the median.
func TestMedianInterval(t *testing.T) {
	for _, test := range []struct{ n, k int }{{6, 1}, {8, 1}, {9, 2}, {10, 2}, {20, 6}, {25, 8}, {30, 10}, {40, 14}, {50, 18}, {100, 40}} {
		values := make([]float64, test.n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		low, high, ok := medianInterval(values)
		if !ok || low != float64(test.k) || high != float64(test.n+1-test.k) {
			t.Errorf("%d values: got ranks %g and %g, %t, want %d and %d", test.n, low, high, ok, test.k, test.n+1-test.k)
		}
	}
	for n := range 6 {
		if _, _, ok := medianInterval(make([]float64, n)); ok {
			t.Errorf("%d values have an interval", n)
		}
	}
	if low, high, ok := medianInterval(make([]float64, 100000)); !ok || low != 0 || high != 0 {
		t.Errorf("100000 values: got %g, %g, %t", low, high, ok)
	}
}

func TestMeanAndDeviation(t *testing.T) {
	mean, deviation := meanAndDeviation([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	if !near(mean, 5) || !near(deviation, math.Sqrt(32.0/7)) {
		t.Errorf("got %g and %g", mean, deviation)
	}
}

// At least 95 of 100 intervals of the median cover it, on a skewed
// distribution.
func TestMedianIntervalCovers(t *testing.T) {
	const runs = 4000
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 20, 101} {
		covered := 0
		for range runs {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			slices.Sort(values)
			if low, high, _ := medianInterval(values); low <= math.Ln2 && math.Ln2 <= high {
				covered++
			}
		}
		share := float64(covered) / runs
		t.Logf("n = %d: %.1f %% cover", n, 100*share)
		if share < 0.945 {
			t.Errorf("n = %d: only %.1f %% cover the median", n, 100*share)
		}
	}
}

// The bootstrap covers the true difference although the requests of a block
// share a disturbance, as long as it hits both arms of the block.
func TestBootstrapCovers(t *testing.T) {
	const runs, requests, difference = 100, 10, 3.0
	random := rand.New(rand.NewPCG(3, 4))
	for _, blocks := range []int{minBlocks, 2 * minBlocks} {
		covered := 0
		for range runs {
			arm, base := make([][]float64, blocks), make([][]float64, blocks)
			for b := range blocks {
				shared := random.NormFloat64()
				for range requests {
					arm[b] = append(arm[b], 20+difference+shared+random.ExpFloat64())
					base[b] = append(base[b], 20+shared+random.ExpFloat64())
				}
			}
			if d, _, ok := bootstrap(arm, base, random); ok && d.low <= difference && difference <= d.high {
				covered++
			}
		}
		share := float64(covered) / runs
		t.Logf("%d blocks: %.1f %% cover", blocks, 100*share)
		if share < 0.88 { // three standard errors below 95 %
			t.Errorf("%d blocks: only %.1f %% cover the difference", blocks, 100*share)
		}
	}
}

func TestBootstrapNeedsBlocks(t *testing.T) {
	few := make([][]float64, minBlocks-1)
	for i := range few {
		few[i] = []float64{1, 2}
	}
	if _, _, ok := bootstrap(few, few, rand.New(rand.NewPCG(0, 0))); ok {
		t.Errorf("%d blocks have an interval", len(few))
	}
}
