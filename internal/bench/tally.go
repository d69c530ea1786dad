package bench

import (
	"math"
	"slices"
	"time"
)

// Times are the times of requests in milliseconds, by cell and block, in the
// order in which they were taken.
type Times map[Cell]map[int][]float64

// Tally is what summaries need of the samples of a run, taken in one sample at
// a time: 12 bytes for a request that counts, so that a run of millions can be
// summarised in little memory.
type Tally struct {
	open    bool              // the requests were those of an open loop
	counted Times             // requests that are part of the summary
	first   Times             // requests that set up their cell's session
	lags    map[Cell][]uint32 // client's own part in the times that count, nanoseconds
	failed  map[Cell]int
	failure map[Cell]string // what became of the last failed request

	// The times of the cell and block that the last request was of, which are
	// not in counted yet: most requests follow one of their own.
	cell  Cell
	block int
	times []float64
	late  []uint32
}

// NewTally returns an empty tally for the samples of a plan.
func NewTally(plan Plan) *Tally {
	return &Tally{open: plan.Load.Open(), lags: map[Cell][]uint32{}, counted: Times{}, first: Times{}, failed: map[Cell]int{}, failure: map[Cell]string{}}
}

// Add takes a sample in, of which nothing is kept but numbers and names.
func (t *Tally) Add(s *Sample) {
	if s.first() {
		t.first.add(s.Cell, s.Block, milliseconds(s.Total))
	}
	switch {
	case s.failed():
		t.failed[s.Cell]++
		t.failure[s.Cell] = describeFailure(s.Record)
	case s.counts(t.open):
		if s.Block != t.block || s.Cell != t.cell {
			t.settle()
			t.cell, t.block = s.Cell, s.Block
			t.times, t.late = t.counted[s.Cell][s.Block], t.lags[s.Cell]
		}
		t.times = append(t.times, milliseconds(s.Total))
		t.late = append(t.late, uint32(min(max(s.Lag, 0), math.MaxUint32)))
	}
}

// settle puts the times of the last cell and block where the others are.
func (t *Tally) settle() {
	if len(t.times) > 0 {
		t.counted.blocks(t.cell)[t.block] = t.times
		t.lags[t.cell] = t.late
	}
}

// Counted returns the times of the requests that are part of the summary:
// those that were no warm-up, had no error, were part of a valid visit and, with
// connections kept in a closed loop, used one that was there.
func (t *Tally) Counted() Times {
	t.settle()
	return t.counted
}

// First returns the times of the first requests of valid visits.
func (t *Tally) First() Times { return t.first }

// Failed returns how many requests of a cell would count but for their error.
func (t *Tally) Failed(cell Cell) int { return t.failed[cell] }

// Lag returns the median of the client's own part in the times of a cell that
// count, 0 without any.
func (t *Tally) Lag(cell Cell) time.Duration {
	t.settle()
	lags := slices.Clone(t.lags[cell])
	if len(lags) == 0 {
		return 0
	}
	slices.Sort(lags)
	return time.Duration(lags[(len(lags)-1)/2])
}

func (t Times) blocks(cell Cell) map[int][]float64 {
	if t[cell] == nil {
		t[cell] = map[int][]float64{}
	}
	return t[cell]
}

func (t Times) add(cell Cell, block int, time float64) {
	blocks := t.blocks(cell)
	blocks[block] = append(blocks[block], time)
}
