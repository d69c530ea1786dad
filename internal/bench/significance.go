package bench

import (
	"cmp"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// mannWhitney returns the probability that two samples of one distribution are
// ranked as differently as these are, by the test that benchstat uses, from its
// library: exact for few values, and nil where all values are the same or one
// sample is empty. It takes requests for independent of each other.
func mannWhitney(a, b []float64) *float64 {
	result, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers)
	if err != nil {
		return nil
	}
	return new(min(1, result.P))
}

// holm adjusts the p values of tests that are made together, so that the
// probability of any false finding among all of them stays below the level that
// a single adjusted value is compared with (Holm, A Simple Sequentially
// Rejective Multiple Test Procedure, 1979). Values that are nil stay nil and
// are no tests.
func holm(values []*float64) []*float64 {
	var order []int
	for i, p := range values {
		if p != nil {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(*values[a], *values[b]) })
	adjusted := make([]*float64, len(values))
	greatest := 0.0
	for place, i := range order {
		greatest = max(greatest, min(1, *values[i]*float64(len(order)-place)))
		adjusted[i] = new(greatest)
	}
	return adjusted
}
