package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// law is a distribution of times with its true quantiles.
type law struct {
	name     string
	block    func(random *rand.Rand, n int) []float64
	quantile func(q float64) float64
}

// laws are what times look like: skewed, in two clusters, and such that each
// request resembles the one before it. All have a median of about 10.
func laws() []law {
	logNormal := func(q float64) float64 { return 10 * math.Exp(0.5*distuv.UnitNormal.Quantile(q)) }
	return []law{
		{"log-normal", autoregressive(0), logNormal},
		{"bimodal", bimodal, bimodalQuantile},
		{"autocorrelated", autoregressive(0.8), logNormal},
	}
}

// autoregressive makes blocks of log-normal times whose logarithms have a
// correlation from one request to the next.
func autoregressive(correlation float64) func(*rand.Rand, int) []float64 {
	return func(random *rand.Rand, n int) []float64 {
		times := make([]float64, n)
		state := random.NormFloat64()
		for i := range times {
			times[i] = 10 * math.Exp(0.5*state)
			state = correlation*state + math.Sqrt(1-correlation*correlation)*random.NormFloat64()
		}
		return times
	}
}

// Three of ten requests take 15 ms longer than the others.
const slowShare = 0.3

func bimodal(random *rand.Rand, n int) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = 10 + random.NormFloat64()
		if random.Float64() < slowShare {
			times[i] += 15
		}
	}
	return times
}

func bimodalQuantile(q float64) float64 {
	low, high := 0.0, 50.0
	for range 60 {
		middle := (low + high) / 2
		if (1-slowShare)*distuv.UnitNormal.CDF(middle-10)+slowShare*distuv.UnitNormal.CDF(middle-25) < q {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// coverage counts how often intervals hold the truth. An end that is not
// bounded holds everything.
type coverage struct{ held, bounded, made int }

func (c *coverage) count(low, high *float64, truth float64) {
	c.made++
	if low != nil && high != nil {
		c.bounded++
	}
	if (low == nil || *low <= truth) && (high == nil || truth <= *high) {
		c.held++
	}
}

func (c *coverage) percent() float64 { return 100 * float64(c.held) / float64(c.made) }

// simulate makes runs of two arms, the second of which takes 1.2 times as long,
// each of which has blocks of requests, and counts what the intervals hold: that
// of the percentile q of one arm, those of the difference and of the ratio, and
// that of the ratio when the second arm is the same one in another run.
func simulate(l law, q float64, blocks, requests, runs int) (percentile, difference, ratio, between coverage) {
	const factor = 1.2
	random := rand.New(rand.NewPCG(uint64(blocks), uint64(requests)))
	for range runs {
		arm, base := map[int][]float64{}, map[int][]float64{}
		for block := range blocks {
			base[block] = l.block(random, requests)
			arm[block] = l.block(random, requests)
			for i := range arm[block] {
				arm[block][i] *= factor
			}
		}
		ofArm, ofBase := timesOf(arm), timesOf(base)
		low, high := quantileInterval(ofBase.resampler, q)
		percentile.count(low, high, l.quantile(q))
		var c Comparison
		c.describe(ofArm, ofBase, random)
		difference.count(c.DifferenceLow, c.DifferenceHigh, (factor-1)*l.quantile(0.5))
		ratio.count(c.RatioLow, c.RatioHigh, factor)
		var apart RunComparison
		apart.describe(ofArm, ofBase, random)
		between.count(apart.RatioLow, apart.RatioHigh, factor)
	}
	return percentile, difference, ratio, between
}

// BenchmarkCoverage prints how many of 100 intervals hold the truth, which
// should be 95: of the median or of another percentile of one arm, of the
// difference and ratio of two medians, and of their ratio between two runs.
func BenchmarkCoverage(b *testing.B) {
	const runs = 3000
	for _, l := range laws() {
		for _, size := range []struct {
			blocks, requests int
			q                float64
		}{{5, 8, 0.5}, {5, 20, 0.5}, {5, 200, 0.5}, {5, 200, 0.99}, {10, 20, 0.5}, {10, 20, 0.9}, {20, 50, 0.99}} {
			b.Run(fmt.Sprintf("%s/%d-blocks-of-%d/p%g", l.name, size.blocks, size.requests, 100*size.q), func(b *testing.B) {
				var percentile, difference, ratio, between coverage
				for range b.N {
					percentile, difference, ratio, between = simulate(l, size.q, size.blocks, size.requests, runs)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(percentile.percent(), "%-percentile")
				b.ReportMetric(100*float64(percentile.bounded)/float64(percentile.made), "%-bounded")
				b.ReportMetric(difference.percent(), "%-difference")
				b.ReportMetric(ratio.percent(), "%-ratio")
				b.ReportMetric(between.percent(), "%-between-runs")
			})
		}
	}
}

// Intervals are neither too narrow nor too wide. The simulation is short, so
// that its own error is about 1 %; the benchmark prints exacter figures.
func TestCoverage(t *testing.T) {
	for _, l := range laws() {
		percentile, difference, ratio, between := simulate(l, 0.5, 5, 20, 500)
		for name, c := range map[string]coverage{"median": percentile, "difference": difference, "ratio": ratio, "ratio between runs": between} {
			if got := c.percent(); got < 91 || got > 99 {
				t.Errorf("%s: %.1f %% of the intervals of the %s hold the truth", l.name, got, name)
			}
		}
	}
}

// A run that becomes slower is told, and a steady one hardly ever taken for one.
func TestDriftIsTold(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const runs = 200
	for slope, bounds := range map[float64][2]float64{0: {0, 0.09}, 0.05: {0.9, 1}} {
		told := 0
		for range runs {
			blocks := map[int][]float64{}
			for block := range 10 {
				times := autoregressive(0.5)(random, 200)
				for i := range times {
					times[i] *= 1 + slope*float64(block)
				}
				blocks[block] = times
			}
			if driftOf(timesOf(blocks).medians()).P < DriftLevel {
				told++
			}
		}
		if share := float64(told) / runs; share < bounds[0] || share > bounds[1] {
			t.Errorf("a slope of %g is told in %.2f of the runs, want %v", slope, share, bounds)
		}
	}
}
