package bench

import (
	"math/rand/v2"
	"testing"
)

// The intervals of differences between runs cover the true difference although
// the requests of a block share a disturbance, which hits each run by itself.
func TestCompareRunsCovers(t *testing.T) {
	const runs, requests, difference = 200, 6, 3.0
	random := rand.New(rand.NewPCG(5, 6))
	for _, blocks := range []int{minBlocks, 2 * minBlocks} {
		covered := 0
		for range runs {
			run, base := map[int][]float64{}, map[int][]float64{}
			for b := range blocks {
				one, other := random.NormFloat64(), random.NormFloat64()
				for range requests {
					run[b] = append(run[b], 20+difference+one+random.ExpFloat64())
					base[b] = append(base[b], 20+other+random.ExpFloat64())
				}
			}
			var c RunComparison
			c.describe(timesOf(run), timesOf(base), random)
			if *c.DifferenceLow <= difference && difference <= *c.DifferenceHigh {
				covered++
			}
		}
		share := float64(covered) / runs
		t.Logf("%d blocks: %.1f %% cover", blocks, 100*share)
		if share < 0.90 { // three standard errors below 95 %
			t.Errorf("%d blocks: only %.1f %% cover the difference", blocks, 100*share)
		}
	}
}
