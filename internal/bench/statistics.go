package bench

import (
	"math"
	"math/rand/v2"
	"slices"
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

// enoughFor tells whether n samples allow the p-th percentile: ten of them have
// to lie beyond it.
func enoughFor(n, p int) bool { return n*(100-p) >= 10*100 }

// medianInterval returns a confidence interval of the median from sorted
// values: two order statistics between which the median lies with 95 %
// probability at least, whatever the distribution. There is none for fewer
// than 6 values.
func medianInterval(sorted []float64) (low, high float64, ok bool) {
	// The number of values below the median is binomial(n, 1/2). k order
	// statistics may be left out at each end while both tails together stay
	// within 5 %.
	n := len(sorted)
	logTotal, _ := math.Lgamma(float64(n + 1))
	tail, k := 0.0, 0
	for ; k < n/2; k++ {
		a, _ := math.Lgamma(float64(k + 1))
		b, _ := math.Lgamma(float64(n - k + 1))
		tail += math.Exp(logTotal - a - b - float64(n)*math.Ln2)
		if 2*tail > 0.05 {
			break
		}
	}
	if k == 0 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
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
	// minBlocks is how many blocks a bootstrap needs: intervals from fewer
	// are too narrow, as the test of their coverage shows.
	minBlocks = 5
)

// bootstrap returns intervals of the difference and of the ratio of two
// medians. values and base hold the same blocks: the samples of the arm and of
// the baseline that were taken side by side. Requests of one block are not
// independent of each other, so whole blocks are drawn, both arms of a block
// together. There is no interval for fewer than minBlocks blocks.
func bootstrap(values, base [][]float64, random *rand.Rand) (difference, ratio interval, ok bool) {
	if len(values) < minBlocks {
		return interval{}, interval{}, false
	}
	differences, ratios := make([]float64, resamples), make([]float64, resamples)
	ofValues, ofBase := newResampler(values), newResampler(base)
	draws := make([]int, len(values))
	for i := range resamples {
		clear(draws)
		for range draws {
			draws[random.IntN(len(draws))]++
		}
		v, b := ofValues.quantile(draws, 0.5), ofBase.quantile(draws, 0.5)
		differences[i], ratios[i] = v-b, v/b
	}
	slices.Sort(differences)
	slices.Sort(ratios)
	return interval{quantile(differences, 0.025), quantile(differences, 0.975)},
		interval{quantile(ratios, 0.025), quantile(ratios, 0.975)}, true
}
