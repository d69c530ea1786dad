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
	open    bool // the requests were those of an open loop
	planned int  // requests of a cell in all blocks
	blocks  int
	counted Times             // requests that are part of the summary
	first   Times             // requests that set up their cell's session
	lags    map[Cell][]uint32 // client's own part in the times that count, nanoseconds
	ends    map[Cell]*ends
	cold    map[Cell][]ColdParts // of cold starts that count; nil for other requests

	// The times of the cell and block that the last request was of, which are
	// not in counted yet: most requests follow one of their own.
	cell  Cell
	block int
	times []float64
	late  []uint32
	of    *ends
}

// ends is how the measured requests of a cell ended, good ones and failed ones.
type ends struct {
	failed   []float64     // times of the failed ones in milliseconds
	failure  string        // what became of the last failed one
	statuses map[int]int   // by HTTP status, 0 for those without an answer
	spent    time.Duration // from the first request to the last answer, summed over the blocks

	from, to time.Time // in the block at hand
}

// NewTally returns an empty tally for the samples of a plan.
func NewTally(plan Plan) *Tally {
	t := &Tally{open: plan.Load.Open(), planned: plan.Requests, blocks: max(plan.Blocks, 1), lags: map[Cell][]uint32{}, counted: Times{}, first: Times{}, ends: map[Cell]*ends{}}
	if plan.Load.Cold() {
		t.cold = map[Cell][]ColdParts{}
	}
	return t
}

// Add takes a sample in, of which nothing is kept but numbers and names.
func (t *Tally) Add(s *Sample) {
	if s.first() && t.cold == nil { // no cold start sets up what later ones use
		t.first.add(s.Cell, s.Block, milliseconds(s.Total))
	}
	failed := s.failed()
	if !failed && !s.counts(t.open) {
		return
	}
	if t.of == nil || s.Block != t.block || s.Cell != t.cell {
		t.settle()
		t.turnTo(s.Cell, s.Block)
	}
	t.of.add(s)
	if failed {
		t.of.failed, t.of.failure = append(t.of.failed, milliseconds(s.Total)), describeFailure(s.Record)
		return
	}
	t.times = append(t.times, milliseconds(s.Total))
	if t.cold != nil {
		if parts, seen := s.coldParts(); seen {
			t.cold[s.Cell] = append(t.cold[s.Cell], parts)
		}
	}
	t.late = append(t.late, uint32(min(max(s.Lag, 0), math.MaxUint32)))
}

func (e *ends) add(s *Sample) {
	e.statuses[s.Status]++
	due := s.Due
	if due.IsZero() {
		due = s.Sent
	}
	if e.from.IsZero() || due.Before(e.from) {
		e.from = due
	}
	if answered := due.Add(s.Total); answered.After(e.to) {
		e.to = answered
	}
}

func (t *Tally) turnTo(cell Cell, block int) {
	t.cell, t.block = cell, block
	t.times, t.late = room(t.counted[cell][block], t.planned/t.blocks+1), room(t.lags[cell], t.planned)
	if t.of = t.ends[cell]; t.of == nil {
		t.of = &ends{statuses: map[int]int{}}
		t.ends[cell] = t.of
	}
}

// room returns values with room for as many as are to come, so that they do not
// have to move. What says how many may be wrong.
func room[T any](values []T, planned int) []T {
	const most = 1 << 20
	return slices.Grow(values, min(max(planned-len(values), 0), most))
}

// settle puts the times of the last cell and block where the others are. Until
// more samples come, doing so again changes nothing.
func (t *Tally) settle() {
	if t.of == nil {
		return
	}
	if len(t.times) > 0 {
		t.counted.blocks(t.cell)[t.block] = t.times
		t.lags[t.cell] = t.late
	}
	t.of.spent += t.of.to.Sub(t.of.from)
	t.of.from, t.of.to = time.Time{}, time.Time{}
	t.of, t.times, t.late = nil, nil, nil
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
func (t *Tally) Failed(cell Cell) int { return len(t.endsOf(cell).failed) }

// endsOf returns how the requests of a cell ended, nothing when there are none.
func (t *Tally) endsOf(cell Cell) *ends {
	t.settle()
	if found := t.ends[cell]; found != nil {
		return found
	}
	return &ends{}
}

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
