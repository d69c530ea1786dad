package bench

import (
	"cmp"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// quantile returns the q-quantile, q from 0 to 1, of sorted values that are
// not empty: linear between the two nearest order statistics, as the defaults
// of R (type 7) and NumPy compute it, so that the raw samples give the same.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Percentile returns the p-th percentile, p from 0 to 100, and whether there
// are values and p is one.
func Percentile(values []float64, p float64) (float64, bool) {
	if len(values) == 0 || !(p >= 0 && p <= 100) {
		return 0, false
	}
	return quantile(slices.Sorted(slices.Values(values)), p/100), true
}

// enoughFor tells whether n samples allow the p-th percentile, p in thousandths:
// ten of them have to lie beyond it.
func enoughFor(n, p int) bool { return n*(1000-p) >= 10*1000 }

// confidence is the share of intervals that hold what they are of.
const confidence = 0.95

// exactRanks returns the places, from 1, of the two order statistics of n
// independent values between which the q-quantile lies with the confidence at
// least, whatever the distribution; each end is missed in half of the other
// cases at most. An end that n values cannot bound is place 0 or n+1.
func exactRanks(n int, q float64) (low, high int) {
	// The number of values below the quantile is binomial(n, q).
	below := distuv.Binomial{N: float64(n), P: q}
	low = sort.Search(n, func(k int) bool { return below.CDF(float64(k)) > (1-confidence)/2 })
	high = 1 + sort.Search(n, func(k int) bool { return 1-below.CDF(float64(k)) <= (1-confidence)/2 })
	return low, high
}

// blockRanks returns the same for values that depend on each other within
// blocks. above says how many more values of each block lie below the quantile
// of all values than its share q of them; n counts all values. The number of
// values below the true quantile varies from block to block, and that is all
// that has to be known of how they depend on each other (Woodruff, Confidence
// Intervals for Medians and Other Position Measures, 1952); Student's law makes
// up for how few blocks tell how much.
func blockRanks(n int, q float64, above []float64) (low, high int) {
	blocks := float64(len(above))
	var squares float64
	for _, v := range above {
		squares += v * v
	}
	deviation := math.Sqrt(squares * blocks / (blocks - 1))
	half := student(len(above)-1) * deviation
	at := q * float64(n)
	return max(0, int(math.Floor(at-half+0.5))), min(n+1, int(math.Ceil(at+half+0.5)))
}

// student returns how many standard errors an interval reaches to each side
// when the error itself is estimated with some degrees of freedom.
func student(freedom int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}.Quantile((1 + confidence) / 2)
}

// quantileInterval returns an interval of the q-quantile: two of the values. An
// end that they do not bound is nil. From minBlocks blocks on, requests of one
// block may depend on each other in any way; with fewer the interval takes all
// of them for independent.
func quantileInterval(of *resampler, q float64) (low, high *float64) {
	n := len(of.values)
	if n == 0 {
		return nil, nil
	}
	if len(of.sizes) < minBlocks {
		return orderStatistics(of.values, q)
	}
	above := make([]float64, len(of.sizes))
	for block, count := range of.atMost(quantile(of.values, q)) {
		above[block] = float64(count) - q*float64(of.sizes[block])
	}
	from, to := blockRanks(n, q, above)
	return placed(of.values, from, to)
}

// orderStatistics returns the same for independent values, which are sorted.
func orderStatistics(sorted []float64, q float64) (low, high *float64) {
	if len(sorted) == 0 {
		return nil, nil
	}
	from, to := exactRanks(len(sorted), q)
	return placed(sorted, from, to)
}

// placed returns the values at two places from 1 on, nil for a place that is
// none.
func placed(sorted []float64, from, to int) (low, high *float64) {
	if from >= 1 {
		low = new(sorted[from-1])
	}
	if to <= len(sorted) {
		high = new(sorted[to-1])
	}
	return low, high
}

// meanAndDeviation returns the mean and the standard deviation of a sample; the
// deviation of fewer than two values is NaN.
func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / float64(len(values)-1))
}

// interval is a 95 % confidence interval.
type interval struct{ low, high float64 }

const (
	resamples = 2000
	// minBlocks is how many blocks an interval from blocks needs: those from
	// fewer are too narrow, as the simulation of their coverage shows.
	minBlocks = 5
	// maxExact is up to how many blocks every outcome of drawing them is
	// looked at, since there are no more of them than resamples: 1716 for 7.
	maxExact = 7
)

// draw is one outcome of drawing as many blocks as there are, with replacement:
// how often each block was drawn, and the probability of that.
type draw struct {
	counts      []int
	probability float64
}

// drawsOf returns all outcomes for few blocks, so that chance has no part in an
// interval, and resamples of them for more.
func drawsOf(blocks int, random *rand.Rand) []draw {
	if blocks <= maxExact {
		return allDraws(blocks)
	}
	draws := make([]draw, resamples)
	for i := range draws {
		draws[i] = draw{make([]int, blocks), 1.0 / resamples}
		for range blocks {
			draws[i].counts[random.IntN(blocks)]++
		}
	}
	return draws
}

// allDraws returns every outcome with its multinomial probability.
func allDraws(blocks int) []draw {
	var draws []draw
	counts := make([]int, blocks)
	var fill func(block, left int, probability float64)
	fill = func(block, left int, probability float64) {
		if block == blocks-1 {
			counts[block] = left
			draws = append(draws, draw{slices.Clone(counts), probability})
			return
		}
		// Of the draws that are left, a block gets some with the binomial
		// probability of its share among the blocks that are left.
		share := distuv.Binomial{N: float64(left), P: 1 / float64(blocks-block)}
		for n := range left + 1 {
			counts[block] = n
			fill(block+1, left-n, probability*share.Prob(float64(n)))
		}
	}
	fill(0, blocks, 1)
	return draws
}

// outcome is a number that a bootstrap found, with its probability.
type outcome struct{ value, probability float64 }

// between returns the outcomes that cut off a probability at each end. Each
// outcome stands for the middle of its own probability, and what lies between
// two of them is linear.
func between(outcomes []outcome, tail float64) interval {
	slices.SortFunc(outcomes, func(a, b outcome) int { return cmp.Compare(a.value, b.value) })
	low := cutOff(slices.All(outcomes), tail)
	return interval{low, cutOff(slices.Backward(outcomes), tail)}
}

// cutOff returns the outcome before which a probability lies.
func cutOff(outcomes iter.Seq2[int, outcome], tail float64) float64 {
	var last outcome
	seen, middle := 0.0, -1.0 // the probability before the last outcome's middle
	for _, o := range outcomes {
		next := seen + o.probability/2
		switch {
		case next < tail:
		case middle < 0:
			return o.value
		default:
			return last.value + (tail-middle)/(next-middle)*(o.value-last.value)
		}
		seen, middle, last = seen+o.probability, next, o
	}
	return last.value
}

// bootstrap returns intervals of the difference and of the ratio of two
// medians. values and base have the same blocks: the samples of the arm and of
// the baseline that were taken side by side. Requests of one block are not
// independent of each other, so whole blocks are drawn, both arms of a block
// together. There is no interval for fewer than minBlocks blocks.
func bootstrap(values, base *resampler, random *rand.Rand) (difference, ratio interval, ok bool) {
	blocks := len(values.sizes)
	if blocks < minBlocks {
		return interval{}, interval{}, false
	}
	var differences, ratios []outcome
	for _, d := range drawsOf(blocks, random) {
		v, b := values.quantile(d.counts, 0.5), base.quantile(d.counts, 0.5)
		differences = append(differences, outcome{v - b, d.probability})
		ratios = append(ratios, outcome{v / b, d.probability})
	}
	tail := expandedTail(blocks, blocks-1)
	return between(differences, tail), between(ratios, tail), true
}

// expandedTail returns the probability to cut off at each end of what a
// bootstrap of some blocks found, for an interval of 95 %. Percentiles of few
// blocks lie too close together: of 5 blocks, those of 2.5 and 97.5 hold the
// truth 87 times in 100. The expanded ones of Hesterberg (What Teachers Should
// Know About the Bootstrap, 2015) make up for the variance that a resample
// lacks and for what Student's law is wider than the normal one.
func expandedTail(blocks, freedom int) float64 {
	fewer := float64(blocks)
	return distuv.UnitNormal.CDF(-student(freedom) * math.Sqrt(fewer/(fewer-1)))
}
