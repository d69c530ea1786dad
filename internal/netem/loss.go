package netem

import "math"

// The states of the two Markov chains. The Gilbert-Elliott model is good when
// it receives in a gap and bad when it receives in a burst.
const (
	receivesInGap = iota
	receivesInBurst
	losesInBurst
	losesInGap
)

// loses draws whether the next packet is lost.
func (m *Impairment) loses() bool {
	loss := &m.direction.Loss
	switch {
	case loss.Random != nil:
		return m.loss.hits(loss.Random.Percent, m)
	case loss.State != nil:
		return m.losesByState(loss.State)
	case loss.GEModel != nil:
		return m.losesByGEModel(loss.GEModel)
	}
	return false
}

// losesByState moves to the next state and tells whether it is one that loses.
func (m *Impairment) losesByState(p *StateLoss) bool {
	draw := m.percent()
	switch m.lossState {
	case receivesInGap:
		if draw < p.P14 {
			m.lossState = losesInGap
		} else if draw < p.P14+p.P13 {
			m.lossState = losesInBurst
		}
	case receivesInBurst:
		if draw < p.P23 {
			m.lossState = losesInBurst
		}
	case losesInBurst:
		if draw < p.P32 {
			m.lossState = receivesInBurst
		} else if draw < p.P32+p.P31 {
			m.lossState = receivesInGap
		}
	case losesInGap:
		m.lossState = receivesInGap
	}
	return m.lossState >= losesInBurst
}

// losesByGEModel moves to the next state and draws the loss of the state that
// it leaves.
func (m *Impairment) losesByGEModel(p *GEModelLoss) bool {
	if m.lossState == receivesInGap {
		if m.percent() < p.P {
			m.lossState = receivesInBurst
		}
		return m.percent() < p.K1
	}
	if m.percent() < p.R {
		m.lossState = receivesInGap
	}
	return m.percent() < p.H1
}

// percent draws a percentage below 100.
func (m *Impairment) percent() float64 { return float64(m.uint32()) * 100 / (1 << 32) }

// Ratio is the share of packets that the model loses in the long run, from 0
// to 1.
func (l Loss) Ratio() float64 {
	switch {
	case l.Random != nil:
		return ratio(l.Random.Percent, l.Random.Correlation)
	case l.State != nil:
		return l.State.ratio()
	case l.GEModel != nil:
		g := l.GEModel
		bad := 0.0
		if g.P+g.R > 0 {
			bad = g.P / (g.P + g.R)
		}
		return (bad*g.H1 + (1-bad)*g.K1) / 100
	}
	return 0
}

// ratio is how often an event of a percentage happens: as the percentage says
// without correlation. With it the draws are not uniform any more, and their
// law has no simple form: a million draws tell.
func ratio(percent, correlation float64) float64 {
	if correlation == 0 || percent == 0 {
		return percent / 100
	}
	const draws = 1 << 20
	m := NewImpairment(Direction{}, 1, "", "", 1500)
	draw := correlated{rho: scale(correlation), last: m.uint32()}
	hits := 0
	for range draws {
		hits += boolInt(draw.hits(percent, m))
	}
	return float64(hits) / draws
}

// ratio solves the chain's balance, each state's share relative to the first's.
func (s *StateLoss) ratio() float64 {
	gap := s.P14 / 100 // state 4 is left at once
	if s.P13 == 0 {
		return gap / (1 + gap)
	}
	if s.P31 == 0 { // once in a burst, for ever in a burst
		if s.P32 == 0 {
			return 1
		}
		return s.P23 / (s.P23 + s.P32)
	}
	lossBurst := s.P13 / s.P31
	receiveBurst := 0.0
	if s.P32 > 0 {
		if s.P23 == 0 {
			return 0 // once received in a burst, for ever
		}
		receiveBurst = lossBurst * s.P32 / s.P23
	}
	return (lossBurst + gap) / (1 + lossBurst + receiveBurst + gap)
}

// Deviation is the standard deviation of the share of lost packets among a
// number of packets. Losses that come in bursts vary more than lone ones; it is
// found by trial.
func (l Loss) Deviation(packets int) float64 {
	if l == (Loss{}) {
		return 0
	}
	if l.Random != nil && l.Random.Correlation == 0 {
		p := l.Ratio()
		return math.Sqrt(p * (1 - p) / float64(packets))
	}
	const trials = 200
	m := NewImpairment(Direction{Loss: l}, 1, "", "", 1500)
	var sum, squares float64
	for range trials {
		lost := 0
		for range packets {
			lost += boolInt(m.loses())
		}
		share := float64(lost) / float64(packets)
		sum += share
		squares += share * share
	}
	mean := sum / trials
	return math.Sqrt(max(0, squares/trials-mean*mean))
}
