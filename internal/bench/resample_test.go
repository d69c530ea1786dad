package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A resampler gives what sorting everything that was drawn gives.
func TestResampler(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, sizes := range [][]int{{1}, {3, 1}, {10, 0, 20}, {200, 300, 250, 7, 400}, {2 * stride, stride}} {
		blocks := make([][]float64, len(sizes))
		for i, size := range sizes {
			for range size {
				// Rounded, so that some are equal.
				blocks[i] = append(blocks[i], float64(random.IntN(500)))
			}
		}
		r := newResampler(blocks)
		for range 200 {
			draws := make([]int, len(blocks))
			var drawn []float64
			for range blocks {
				block := random.IntN(len(blocks))
				draws[block]++
				drawn = append(drawn, blocks[block]...)
			}
			if len(drawn) == 0 {
				continue
			}
			slices.Sort(drawn)
			for _, q := range []float64{0, 0.25, 0.5, 0.99, 1} {
				if got, want := r.quantile(draws, q), quantile(drawn, q); !near(got, want) {
					t.Fatalf("blocks of %d, drawn %d, quantile %g: got %g, want %g", sizes, draws, q, got, want)
				}
			}
		}
	}
}
