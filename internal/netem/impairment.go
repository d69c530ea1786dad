package netem

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Impairment draws the fates of the packets of one ordered pair of hosts. Fates
// depend on the direction's settings, the seed and the number of packets
// before; time and the queue only decide when a packet leaves and whether it
// finds room. It is for one goroutine.
type Impairment struct {
	direction Direction
	isZero    bool
	limit     int
	random    *rand.PCG
	table     []int16 // of the distribution; nil for uniform

	delay, loss, duplicate, corrupt, reorder correlated

	lossState int // of the Markov chains
	sinceGap  int // packets since the last one that overtook
	waiting   int
	last      time.Duration // when the last packet so far leaves
}

// Verdict is the fate of one packet. Times are readings of the clock that
// Decide was given.
type Verdict struct {
	// Copies are what goes on, N of them: 0 for a packet that is gone, 2 for
	// one that is duplicated.
	Copies [2]Copy
	N      int

	Lost       int // by the loss model
	Dropped    int // because Limit packets were waiting
	Duplicated bool
}

// Copy is one packet that goes on.
type Copy struct {
	Due       time.Duration // when it leaves; never before now
	Bit       int           // to be flipped, counted from the packet's first; -1 for none
	Reordered bool          // it skipped the delay
}

// NewImpairment returns the impairment of the packets from one host to another
// on a network whose packets have up to mtu bytes. The direction's own seed
// goes before the given one.
func NewImpairment(d Direction, seed uint64, from, to string, mtu int) *Impairment {
	if d.Seed != 0 {
		seed = d.Seed
	}
	pair := fnv.New64a()
	pair.Write([]byte(from + "\x00" + to))
	m := &Impairment{
		direction: d,
		isZero:    d.IsZero(),
		limit:     d.EffectiveLimit(mtu),
		random:    rand.NewPCG(seed, pair.Sum64()),
		table:     d.Distribution.table(),
		delay:     correlated{rho: scale(d.DelayCorrelation)},
		duplicate: correlated{rho: scale(d.DuplicateCorrelation)},
		corrupt:   correlated{rho: scale(d.CorruptCorrelation)},
		reorder:   correlated{rho: scale(d.ReorderCorrelation)},
		lossState: receivesInGap,
	}
	if random := d.Loss.Random; random != nil {
		m.loss.rho = scale(random.Correlation)
	}
	for _, c := range []*correlated{&m.delay, &m.loss, &m.duplicate, &m.corrupt, &m.reorder} {
		c.last = m.uint32()
	}
	return m
}

// Direction returns what the impairment carries out.
func (m *Impairment) Direction() Direction { return m.direction }

// IsZero tells whether every packet passes at once and untouched.
func (m *Impairment) IsZero() bool { return m.isZero }

// Delays tells whether packets may have to wait.
func (m *Impairment) Delays() bool { return m.direction.Delay > 0 || m.direction.Rate > 0 }

// Waiting is the number of packets that were given a later time to leave and
// have not been reported by Leave.
func (m *Impairment) Waiting() int { return m.waiting }

// Leave reports that packets which waited have left.
func (m *Impairment) Leave(packets int) { m.waiting -= packets }

// Decide draws the fate of the next packet, of size bytes, at the time now.
//
// As in netem, the draws for duplication and loss are made one after the other
// and cancel out when both hit, and a duplicate goes through all of it again
// except duplication.
func (m *Impairment) Decide(size int, now time.Duration) (v Verdict) {
	duplicated := m.duplicate.hits(m.direction.Duplicate, m)
	lost := m.loses()
	switch {
	case lost && !duplicated:
		v.Lost++
		return v
	case duplicated && !lost:
		v.Duplicated = true
		if m.loses() {
			v.Lost++
		} else {
			m.pass(&v, size, now)
		}
	}
	m.pass(&v, size, now)
	return v
}

// pass gives one copy its time to leave, if it finds room.
func (m *Impairment) pass(v *Verdict, size int, now time.Duration) {
	d := &m.direction
	c := Copy{Due: now, Bit: -1}
	if m.corrupt.hits(d.Corrupt, m) {
		c.Bit = int(uint64(m.uint32()) * uint64(size*8) >> 32)
	}
	if d.Reorder > 0 && m.sinceGap >= d.Gap-1 && m.reorder.hits(d.Reorder, m) {
		m.sinceGap = 0
		c.Reordered = true
	} else {
		m.sinceGap++
		c.Due = now + m.drawDelay()
		if d.KeepOrder {
			c.Due = max(c.Due, m.last)
		}
		if d.Rate > 0 {
			c.Due = max(c.Due, m.last) + d.Rate.Serialize(size)
		}
	}
	if c.Due > now {
		if m.waiting >= m.limit {
			v.Dropped++
			return
		}
		m.waiting++
		m.last = max(m.last, c.Due)
	}
	v.Copies[v.N] = c
	v.N++
}

// drawDelay returns the delay of the next packet, at least zero.
func (m *Impairment) drawDelay() time.Duration {
	d := &m.direction
	if d.Jitter == 0 {
		return time.Duration(d.Delay)
	}
	draw := uint64(m.delay.draw(m))
	// The kernel takes the draw modulo the range, which washes its correlation
	// out; the draw's high bits keep it.
	offset := int64(draw*uint64(2*d.Jitter)>>32) - int64(d.Jitter)
	if m.table != nil {
		offset = int64(float64(d.Jitter) * float64(m.table[draw*uint64(len(m.table))>>32]) / tableScale)
	}
	return max(0, time.Duration(d.Delay)+time.Duration(offset))
}

func (m *Impairment) uint32() uint32 { return uint32(m.random.Uint64() >> 32) }

// correlated is netem's generator: a draw in which the last one lives on with
// the weight rho. Its values crowd around the middle as rho grows, so a rare
// event gets rarer, as it does in netem.
type correlated struct {
	rho  uint32 // of 2^32
	last uint32
}

func (c *correlated) draw(m *Impairment) uint32 {
	value := m.uint32()
	if c.rho == 0 {
		return value
	}
	rho := uint64(c.rho) + 1
	c.last = uint32((uint64(value)*(1<<32-rho) + uint64(c.last)*rho) >> 32)
	return c.last
}

// hits draws whether an event of the given percentage happens. It draws
// nothing for an event that never does.
func (c *correlated) hits(percent float64, m *Impairment) bool {
	return percent > 0 && scale(percent) >= c.draw(m)
}

// scale maps 0 to 100 percent to the whole range of a draw.
func scale(percent float64) uint32 {
	return uint32(math.Round(percent / 100 * math.MaxUint32))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
