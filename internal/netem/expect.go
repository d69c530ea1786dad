package netem

import (
	"math"
	"slices"
	"time"
)

// Expectation is what a lone packet that goes there and back meets.
type Expectation struct {
	RTT          time.Duration // median that the profile adds
	RTTDeviation time.Duration // standard deviation
	ForwardLoss  float64       // share of packets, from 0 to 1
	ReverseLoss  float64
}

// Expect works out what echo packets of size bytes should measure. The delays
// are drawn like real ones rather than computed, since the sum of two cut and
// correlated laws has no simple form; the draws are always the same.
func (p Profile) Expect(size int) Expectation {
	e := Expectation{ForwardLoss: p.Forward.missing(), ReverseLoss: p.Reverse.missing()}
	draws := 1
	if p.Forward.Jitter+p.Reverse.Jitter > 0 || p.Forward.Reorder+p.Reverse.Reorder > 0 {
		draws = 1 << 15
	}
	forward := p.Forward.withoutLoss()
	reverse := p.Reverse.withoutLoss()
	there := NewImpairment(forward, 1, "a", "b", size)
	back := NewImpairment(reverse, 1, "b", "a", size)
	sums := make([]float64, draws)
	for i := range sums {
		sums[i] = there.alone(size) + back.alone(size)
	}
	mean := 0.0
	for _, s := range sums {
		mean += s / float64(draws)
	}
	variance := 0.0
	for _, s := range sums {
		variance += (s - mean) * (s - mean) / float64(draws)
	}
	slices.Sort(sums)
	e.RTT = time.Duration(sums[draws/2])
	e.RTTDeviation = time.Duration(math.Sqrt(variance))
	return e
}

// missing is the share of packets of which no intact copy arrives: corruption
// is found by checksums, and a duplicate can save a lost packet.
func (d Direction) missing() float64 {
	lost, corrupt, twice := d.Loss.Ratio(), ratio(d.Corrupt, d.CorruptCorrelation), ratio(d.Duplicate, d.DuplicateCorrelation)
	one := (1-twice)*(1-lost) + twice*lost + twice*(1-lost)*lost
	two := twice * (1 - lost) * (1 - lost)
	return max(0, 1-one*(1-corrupt)-two*(1-corrupt*corrupt))
}

// alone is the delay of a packet that meets an empty queue, in nanoseconds.
func (m *Impairment) alone(size int) float64 {
	m.last, m.waiting = 0, 0
	return float64(m.Decide(size, 0).Copies[0].Due)
}

func (d Direction) withoutLoss() Direction {
	d.Loss, d.Duplicate, d.DuplicateCorrelation = Loss{}, 0, 0
	return d
}
