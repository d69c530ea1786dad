package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	}{{99, 900, false}, {100, 900, true}, {199, 950, false}, {200, 950, true}, {999, 990, false}, {1000, 990, true}, {9999, 999, false}, {10000, 999, true}} {
		if got := enoughFor(test.n, test.p); got != test.want {
			t.Errorf("%d samples for %d thousandths: got %t", test.n, test.p, got)
		}
	}
}

// The wanted ranks of medians are those of tables of the sign test: of n values
// the k-th smallest and the k-th greatest bound the median. Those of other
// percentiles are qbinom(0.025, n, q) and 1 + qbinom(0.975, n, q) of R.
func TestExactRanks(t *testing.T) {
	for _, test := range []struct {
		n         int
		q         float64
		low, high int
	}{
		{5, 0.5, 0, 6}, {6, 0.5, 1, 6}, {8, 0.5, 1, 8}, {9, 0.5, 2, 8}, {10, 0.5, 2, 9}, {20, 0.5, 6, 15}, {25, 0.5, 8, 18},
		{30, 0.5, 10, 21}, {40, 0.5, 14, 27}, {50, 0.5, 18, 33}, {100, 0.5, 40, 61},
		{100, 0.9, 84, 96}, {1000, 0.99, 983, 997}, {10, 0.99, 9, 11},
	} {
		if low, high := exactRanks(test.n, test.q); low != test.low || high != test.high {
			t.Errorf("%d values, quantile %g: got ranks %d and %d, want %d and %d", test.n, test.q, low, high, test.low, test.high)
		}
	}
	// As the normal law has it, where the binomial one is hard to compute.
	const n = 10_000_000
	low, high := exactRanks(n, 0.5)
	half := 1.959964 * math.Sqrt(n) / 2
	if math.Abs(float64(low)-(n/2-half)) > 2 || math.Abs(float64(high)-(n/2+half)) > 2 {
		t.Errorf("ten million values: got ranks %d and %d, want %.0f either side of the middle", low, high, half)
	}
}

// Blocks that differ widen the interval of a quantile, and blocks that agree
// narrow it to the values beside it.
func TestBlockRanks(t *testing.T) {
	for name, test := range map[string]struct {
		above     []float64
		low, high int
	}{
		"agreeing":  {[]float64{0, 0, 0, 0, 0}, 50, 51},
		"differing": {[]float64{4, -4, 2, -2, 0}, 30, 71}, // 2.776 x sqrt(40 x 5/4) = 19.6
		"opposite":  {[]float64{20, -20, 20, -20, 0}, 0, 101},
	} {
		if low, high := blockRanks(100, 0.5, test.above); low != test.low || high != test.high {
			t.Errorf("%s: got ranks %d and %d, want %d and %d", name, low, high, test.low, test.high)
		}
	}
}

func TestQuantileIntervalIsRefused(t *testing.T) {
	for n := range 6 {
		low, high := quantileInterval(newResampler([][]float64{make([]float64, n)}), 0.5)
		if low != nil && high != nil {
			t.Errorf("%d values have an interval", n)
		}
	}
	if low, high := quantileInterval(newResampler(nil), 0.5); low != nil || high != nil {
		t.Error("nothing has an interval")
	}
}

func TestMeanAndDeviation(t *testing.T) {
	mean, deviation := meanAndDeviation([]float64{2, 4, 4, 4, 5, 5, 7, 9})
	if !near(mean, 5) || !near(deviation, math.Sqrt(32.0/7)) {
		t.Errorf("got %g and %g", mean, deviation)
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
			if d, _, ok := bootstrap(newResampler(arm), newResampler(base), random); ok && d.low <= difference && difference <= d.high {
				covered++
			}
		}
		share := float64(covered) / runs
		t.Logf("%d blocks: %.1f %% cover", blocks, 100*share)
		if share < 0.88 { // three standard errors below 95 % of so few runs
			t.Errorf("%d blocks: only %.1f %% cover the difference", blocks, 100*share)
		}
	}
}

func TestBootstrapNeedsBlocks(t *testing.T) {
	few := make([][]float64, minBlocks-1)
	for i := range few {
		few[i] = []float64{1, 2}
	}
	if _, _, ok := bootstrap(newResampler(few), newResampler(few), rand.New(rand.NewPCG(0, 0))); ok {
		t.Errorf("%d blocks have an interval", len(few))
	}
}

// Every way to draw three blocks of three has its multinomial probability.
func TestAllDraws(t *testing.T) {
	want := map[[3]int]float64{}
	for i := range 27 {
		var counts [3]int
		for _, block := range []int{i % 3, i / 3 % 3, i / 9} {
			counts[block]++
		}
		want[counts] += 1.0 / 27
	}
	got := map[[3]int]float64{}
	for _, d := range allDraws(3) {
		got[[3]int(d.counts)] = d.probability
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("draws (-want +got):\n%s", diff)
	}
	if n := len(allDraws(maxExact)); n > resamples {
		t.Errorf("%d blocks make %d draws, more than %d", maxExact, n, resamples)
	}
}

func TestBetween(t *testing.T) {
	outcomes := []outcome{{3, 0.1}, {1, 0.1}, {2, 0.8}}
	for _, test := range []struct {
		tail float64
		want interval
	}{{0.04, interval{1, 3}}, {0.05, interval{1, 3}}, {0.14, interval{1.2, 2.8}}, {0.5, interval{2, 2}}} {
		if got := between(slices.Clone(outcomes), test.tail); !near(got.low, test.want.low) || !near(got.high, test.want.high) {
			t.Errorf("without %g at each end: got %v, want %v", test.tail, got, test.want)
		}
	}
}

// The wanted value is that of R: wilcox.test(a, b, exact = TRUE).
func TestMannWhitney(t *testing.T) {
	a, b := []float64{1.1, 2.2, 3.3, 4.4}, []float64{2.5, 3.5, 4.5, 5.5, 6.5}
	if p := mannWhitney(a, b); p == nil || math.Abs(*p-0.1111111) > 1e-6 {
		t.Errorf("got %v, want 0.1111", p)
	}
	if p := mannWhitney(nil, b); p != nil {
		t.Errorf("of nothing: got %g", *p)
	}
	if p := mannWhitney([]float64{1, 1}, []float64{1, 1}); p != nil {
		t.Errorf("of equal values: got %g", *p)
	}
}

// The wanted values are those of R: p.adjust(c(...), "holm").
func TestHolm(t *testing.T) {
	var got []float64
	for _, p := range holm([]*float64{new(0.01), nil, new(0.04), new(0.03), new(0.005)}) {
		if p == nil {
			got = append(got, -1)
			continue
		}
		got = append(got, *p)
	}
	if diff := cmp.Diff([]float64{0.03, -1, 0.06, 0.06, 0.02}, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("adjusted values (-want +got):\n%s", diff)
	}
	if p := holm([]*float64{new(0.8), new(0.9)}); *p[0] != 1 || *p[1] != 1 {
		t.Errorf("got %g and %g, want 1", *p[0], *p[1])
	}
}
