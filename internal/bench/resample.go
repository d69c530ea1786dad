package bench

import (
	"cmp"
	"slices"
)

// resampler returns quantiles of what is drawn from the blocks of one cell. A
// bootstrap needs thousands of them, and sorting what was drawn each time takes
// hours where blocks hold millions of values. It sorts once instead: a value's
// place in what was drawn follows from how many values of each block lie below
// it and how often each block was drawn.
type resampler struct {
	sizes  []int     // values of each block
	values []float64 // of all blocks, sorted
	blocks []int32   // which block each value is of

	// ranks says how many of the first i*stride values each block has, one row
	// for each i.
	ranks [][]int32
}

// stride is how many values lie between two known ranks: few to count, and so
// many that the ranks take less memory than the values.
const stride = 256

// newResampler takes the blocks in the order in which draws count them. The
// values may have any order.
func newResampler(blocks [][]float64) *resampler {
	r := &resampler{}
	total := 0
	for _, values := range blocks {
		r.sizes = append(r.sizes, len(values))
		total += len(values)
	}
	order := make([]ranked, 0, total)
	for block, values := range blocks {
		for _, value := range values {
			order = append(order, ranked{value, int32(block)})
		}
	}
	slices.SortFunc(order, func(a, b ranked) int { return cmp.Compare(a.value, b.value) })
	r.values, r.blocks = make([]float64, total), make([]int32, total)
	below := make([]int32, len(blocks))
	for i, v := range order {
		if i%stride == 0 {
			r.ranks = append(r.ranks, slices.Clone(below))
		}
		r.values[i], r.blocks[i] = v.value, v.block
		below[v.block]++
	}
	return r
}

// ranked is a value with its block.
type ranked struct {
	value float64
	block int32
}

// quantile returns the q-quantile, as the function of that name, of what is
// drawn when each block is taken as many times as draws says. Something has to
// be drawn.
func (r *resampler) quantile(draws []int, q float64) float64 {
	total := 0
	for block, times := range draws {
		total += times * r.sizes[block]
	}
	at := q * float64(total-1)
	low := int(at)
	// The row of ranks before the value that is the low-th of what was drawn.
	row, end := 0, len(r.ranks)
	for end-row > 1 {
		middle := (row + end) / 2
		if r.drawn(middle, draws) <= low {
			row = middle
		} else {
			end = middle
		}
	}
	seen, i := r.drawn(row, draws), row*stride
	for ; ; i++ {
		if seen += draws[r.blocks[i]]; seen > low {
			break
		}
	}
	value := r.values[i]
	if seen > low+1 || low+1 >= total {
		return value
	}
	for i++; draws[r.blocks[i]] == 0; i++ {
	}
	return value + (at-float64(low))*(r.values[i]-value)
}

// drawn counts what lies before a row of ranks.
func (r *resampler) drawn(row int, draws []int) int {
	count := 0
	for block, times := range draws {
		count += times * int(r.ranks[row][block])
	}
	return count
}
