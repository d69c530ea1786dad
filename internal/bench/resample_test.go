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
		if !slices.IsSorted(r.values) {
			t.Fatalf("blocks of %d: the values are not sorted", sizes)
		}
		for i, block := range blocks {
			if want := slices.Sorted(slices.Values(block)); !slices.Equal(r.block(i), want) {
				t.Fatalf("blocks of %d: block %d holds %g, want %g", sizes, i, r.block(i), want)
			}
			for _, limit := range []float64{-1, 0, 77, 250, 499, 1000} {
				want := 0
				for _, value := range block {
					if value <= limit {
						want++
					}
				}
				if got := r.atMost(limit)[i]; got != want {
					t.Fatalf("blocks of %d: %d values of block %d are at most %g, want %d", sizes, got, i, limit, want)
				}
			}
		}
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
