package bench

import (
	"maps"
	"math"
	"slices"
)

// Drift is how far times moved in the course of a run.
type Drift struct {
	// Percent is the change from the first block to the last one, in percent of
	// the median: the median slope between pairs of blocks (Theil and Sen)
	// times the blocks in between.
	Percent float64 `json:"percent"`

	// P is the probability that blocks without a trend are in as clear an order
	// by chance (Mann and Kendall's test, exact). Whatever the trend, it cannot
	// be less than 2 in 120 for 5 blocks.
	P float64 `json:"p"`
}

// DriftLevel is the p value below which a drift is taken for one.
const DriftLevel = 0.05

// driftOf returns the drift of values by their block, nil for fewer than
// minBlocks of them.
func driftOf(values map[int]float64) *Drift {
	blocks := sortedKeys(values)
	if len(blocks) < minBlocks {
		return nil
	}
	score := 0
	var slopes, all []float64
	for i, later := range blocks {
		for _, earlier := range blocks[:i] {
			change := values[later] - values[earlier]
			slopes = append(slopes, change/float64(later-earlier))
			switch {
			case change > 0:
				score++
			case change < 0:
				score--
			}
		}
		all = append(all, values[later])
	}
	slices.Sort(slopes)
	slices.Sort(all)
	span := float64(blocks[len(blocks)-1] - blocks[0])
	return &Drift{Percent: 100 * quantile(slopes, 0.5) * span / quantile(all, 0.5), P: kendall(len(blocks), score)}
}

// kendall returns the probability that the values of n blocks in random order
// have a score as far from 0: the pairs whose later value is greater less those
// whose later value is smaller. Ties count as neither and make it cautious.
func kendall(n, score int) float64 {
	// probability[i] is that of i pairs in falling order. The k-th value of k in
	// random order makes 0 to k-1 falling pairs with those before it.
	pairs := n * (n - 1) / 2
	probability := make([]float64, pairs+1)
	probability[0] = 1
	for k := 2; k <= n; k++ {
		next := make([]float64, pairs+1)
		sum := 0.0
		for i := range next {
			sum += probability[i]
			if i >= k {
				sum -= probability[i-k]
			}
			next[i] = sum / float64(k)
		}
		probability = next
	}
	if score < 0 {
		score = -score
	}
	// A score is pairs - 2 x falling pairs, and its distribution symmetric.
	tail := 0.0
	for falling := 0; falling <= (pairs-score)/2; falling++ {
		tail += probability[falling]
	}
	return min(1, 2*tail)
}

// DriftOf returns the drift that all cells of a run have in common: that of the
// mean over the cells of each block's median, as a ratio to the cell's own. It
// is nil for a run with fewer than 5 blocks in which all cells were measured.
func DriftOf(p Plan, tally *Tally) *Drift {
	counted := tally.Counted()
	logs := map[int][]float64{} // of ratios, by block
	cells := 0
	for _, cell := range p.cells() {
		medians := timesOf(counted[cell]).medians()
		if len(medians) == 0 {
			continue
		}
		cells++
		center := quantile(sortedValues(medians), 0.5)
		for block, median := range medians {
			logs[block] = append(logs[block], math.Log(median/center))
		}
	}
	means := map[int]float64{}
	for block, values := range logs {
		if len(values) == cells {
			mean, _ := meanAndDeviation(values)
			means[block] = math.Exp(mean)
		}
	}
	return driftOf(means)
}

func sortedValues(medians map[int]float64) []float64 {
	return slices.Sorted(maps.Values(medians))
}
