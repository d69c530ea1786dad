package bench

import (
	"slices"
	"sort"
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
	var ends []int
	for i, values := range blocks {
		start := len(r.values)
		r.sizes = append(r.sizes, len(values))
		r.values = append(r.values, values...)
		slices.Sort(r.values[start:])
		r.blocks = append(r.blocks, slices.Repeat([]int32{int32(i)}, len(values))...)
		ends = append(ends, len(r.values))
	}
	r.merge(ends)
	below := make([]int32, len(blocks))
	for i, block := range r.blocks {
		if i%stride == 0 {
			r.ranks = append(r.ranks, slices.Clone(below))
		}
		below[block]++
	}
	return r
}

// merge sorts values of which each part up to the next end is sorted already,
// two neighbouring parts at a time.
func (r *resampler) merge(ends []int) {
	values, blocks := make([]float64, len(r.values)), make([]int32, len(r.values))
	for len(ends) > 1 {
		var merged []int
		start := 0
		for i := 0; i < len(ends); i += 2 {
			middle, end := ends[i], ends[min(i+1, len(ends)-1)]
			left, right := start, middle
			for to := start; to < end; to++ {
				from := &right
				if right >= end || left < middle && r.values[left] <= r.values[right] {
					from = &left
				}
				values[to], blocks[to] = r.values[*from], r.blocks[*from]
				*from++
			}
			start = end
			merged = append(merged, end)
		}
		r.values, values = values, r.values
		r.blocks, blocks = blocks, r.blocks
		ends = merged
	}
}

// atMost counts the values of each block that are at most a limit.
func (r *resampler) atMost(limit float64) []int {
	end := sort.Search(len(r.values), func(i int) bool { return r.values[i] > limit })
	counts := make([]int, len(r.sizes))
	row := max(0, min(end/stride, len(r.ranks)-1))
	if len(r.ranks) > 0 {
		for block, count := range r.ranks[row] {
			counts[block] = int(count)
		}
	}
	for _, block := range r.blocks[min(row*stride, end):end] {
		counts[block]++
	}
	return counts
}

// median returns that of one block, which has values.
func (r *resampler) median(block int) float64 {
	draws := make([]int, len(r.sizes))
	draws[block] = 1
	return r.quantile(draws, 0.5)
}

// block returns the values of one block.
func (r *resampler) block(block int) []float64 {
	values := make([]float64, 0, r.sizes[block])
	for i, of := range r.blocks {
		if of == int32(block) {
			values = append(values, r.values[i])
		}
	}
	return values
}

// cellTimes are the times of one cell, ready for statistics.
type cellTimes struct {
	ids []int // of the blocks, in order
	*resampler
}

func timesOf(blocks map[int][]float64) cellTimes {
	var ids []int
	var values [][]float64
	for _, id := range sortedKeys(blocks) {
		if len(blocks[id]) > 0 {
			ids, values = append(ids, id), append(values, blocks[id])
		}
	}
	return cellTimes{ids, newResampler(values)}
}

// medians returns the median of each block.
func (t cellTimes) medians() map[int]float64 {
	medians := map[int]float64{}
	for i, id := range t.ids {
		medians[id] = t.median(i)
	}
	return medians
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
