package netem

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Tc returns the tc command that this direction stands for on a device that
// sends packets of up to mtu bytes. Keeping the order has no word in tc.
func (d Direction) Tc(device string, mtu int) string {
	return "tc qdisc replace dev " + device + " root " + strings.Join(d.TcArgs(mtu), " ")
}

// TcArgs returns the arguments of tc that describe the direction, from the word
// "netem" on, for a device that sends packets of up to mtu bytes. What is zero
// is left out, which newer versions of tc insist on.
func (d Direction) TcArgs(mtu int) []string {
	args := []string{"netem", "limit", strconv.Itoa(d.EffectiveLimit(mtu))}
	add := func(values ...string) {
		for _, value := range values {
			if value != "" {
				args = append(args, value)
			}
		}
	}
	if d.Delay > 0 {
		add("delay", d.Delay.String())
	}
	if d.Jitter > 0 {
		add(d.Jitter.String(), percent(d.DelayCorrelation))
		if d.Distribution != "" {
			add("distribution", string(d.Distribution))
		}
	}
	switch {
	case d.Loss.Random != nil:
		add("loss", "random", percent(d.Loss.Random.Percent), percent(d.Loss.Random.Correlation))
	case d.Loss.State != nil:
		s := d.Loss.State
		add("loss", "state")
		add(positional(s.P13, s.P31, s.P32, s.P23, s.P14)...)
	case d.Loss.GEModel != nil:
		g := d.Loss.GEModel
		add("loss", "gemodel")
		add(positional(g.P, g.R, g.H1, g.K1)...)
	}
	if d.Duplicate > 0 {
		add("duplicate", percent(d.Duplicate), percent(d.DuplicateCorrelation))
	}
	if d.Corrupt > 0 {
		add("corrupt", percent(d.Corrupt), percent(d.CorruptCorrelation))
	}
	if d.Reorder > 0 {
		add("reorder", percent(d.Reorder), percent(d.ReorderCorrelation))
	}
	if d.Gap > 0 {
		add("gap", strconv.Itoa(d.Gap))
	}
	if d.Rate > 0 {
		add("rate", d.Rate.String())
	}
	if d.Seed > 0 {
		add("seed", strconv.FormatUint(d.Seed, 10))
	}
	return args
}

// percent prints a percentage, and nothing for zero, which newer versions of
// tc reject as an argument.
func percent(value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf("%g%%", value)
}

// positional prints the percentages of a loss model, zeros included.
func positional(values ...float64) []string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = strconv.FormatFloat(value, 'g', -1, 64) + "%"
	}
	return words
}

// tcOptions are the options of a netem queueing discipline as "tc -j qdisc
// show" prints them: seconds, shares from 0 to 1, bytes per second.
type tcOptions struct {
	Limit int `json:"limit"`
	Delay struct {
		Delay       float64 `json:"delay"`
		Jitter      float64 `json:"jitter"`
		Correlation float64 `json:"correlation"`
	} `json:"delay"`
	LossRandom *struct {
		Loss        float64 `json:"loss"`
		Correlation float64 `json:"correlation"`
	} `json:"loss-random"`
	LossState *struct {
		P13 float64 `json:"p13"`
		P31 float64 `json:"p31"`
		P32 float64 `json:"p32"`
		P23 float64 `json:"p23"`
		P14 float64 `json:"p14"`
	} `json:"loss-state"`
	LossGEModel *struct {
		P  float64 `json:"p"`
		R  float64 `json:"r"`
		H1 float64 `json:"1-h"`
		K1 float64 `json:"1-k"`
	} `json:"loss-gemodel"`
	Duplicate struct {
		Duplicate   float64 `json:"duplicate"`
		Correlation float64 `json:"correlation"`
	} `json:"duplicate"`
	Reorder struct {
		Reorder     float64 `json:"reorder"`
		Correlation float64 `json:"correlation"`
	} `json:"reorder"`
	Corrupt struct {
		Corrupt     float64 `json:"corrupt"`
		Correlation float64 `json:"correlation"`
	} `json:"corrupt"`
	Rate struct {
		Rate uint64 `json:"rate"`
	} `json:"rate"`
	Gap  int    `json:"gap"`
	Seed uint64 `json:"seed"`
}

// ReadTc reads the "options" of a netem queueing discipline as "tc -j qdisc
// show" prints them, on a device that sends packets of up to mtu bytes.
//
// When they are what d's own command makes of them, it returns d. Otherwise it
// returns what they are, with d's distribution and order, which the kernel does
// not tell, and with d's seed where this tc does not tell it either.
func (d Direction) ReadTc(options []byte, mtu int) (Direction, error) {
	var o tcOptions
	if err := json.Unmarshal(options, &o); err != nil {
		return Direction{}, fmt.Errorf("read the options of netem %s: %w", options, err)
	}
	read := o.direction()
	if read.Gap == 1 && d.Gap == 0 && d.Reorder > 0 {
		read.Gap = 0 // which tc fills in
	}
	read.Distribution, read.KeepOrder = d.Distribution, d.KeepOrder
	if read.Jitter == 0 {
		read.Distribution = ""
	}
	if o.Seed == 0 || d.Seed == 0 { // the kernel draws one where none was asked for
		read.Seed = d.Seed
	}
	if read.isAbout(d, mtu) {
		return d, nil
	}
	if d.Limit == 0 && read.Limit == d.EffectiveLimit(mtu) {
		read.Limit = 0
	}
	return read, nil
}

func (o tcOptions) direction() Direction {
	d := Direction{
		Delay: seconds(o.Delay.Delay), Jitter: seconds(o.Delay.Jitter), DelayCorrelation: o.Delay.Correlation * 100,
		Duplicate: o.Duplicate.Duplicate * 100, DuplicateCorrelation: o.Duplicate.Correlation * 100,
		Corrupt: o.Corrupt.Corrupt * 100, CorruptCorrelation: o.Corrupt.Correlation * 100,
		Reorder: o.Reorder.Reorder * 100, ReorderCorrelation: o.Reorder.Correlation * 100,
		Gap: o.Gap, Rate: Rate(o.Rate.Rate * 8), Limit: o.Limit, Seed: o.Seed,
	}
	switch {
	case o.LossRandom != nil && o.LossRandom.Loss > 0:
		d.Loss.Random = &RandomLoss{Percent: o.LossRandom.Loss * 100, Correlation: o.LossRandom.Correlation * 100}
	case o.LossState != nil:
		l := o.LossState
		d.Loss.State = &StateLoss{P13: l.P13 * 100, P31: l.P31 * 100, P32: l.P32 * 100, P23: l.P23 * 100, P14: l.P14 * 100}
	case o.LossGEModel != nil:
		l := o.LossGEModel
		d.Loss.GEModel = &GEModelLoss{P: l.P * 100, R: l.R * 100, H1: l.H1 * 100, K1: l.K1 * 100}
	}
	return d
}

// seconds is rounded to what six digits of a float, which tc prints, can tell.
func seconds(s float64) Duration { return Duration(math.Round(s*1e8) * 10) }

// isAbout tells whether the kernel's values are those that the command of d
// sets: tc prints six digits, and the kernel counts bytes per second.
func (d Direction) isAbout(wanted Direction, mtu int) bool {
	if d.Limit != wanted.EffectiveLimit(mtu) || d.Gap != wanted.Gap || d.Seed != wanted.Seed ||
		d.Rate/8 != wanted.Rate/8 || d.Distribution != wanted.Distribution {
		return false
	}
	for _, pair := range append(d.Loss.numbers(wanted.Loss),
		[2]float64{float64(d.Delay), float64(wanted.Delay)},
		[2]float64{float64(d.Jitter), float64(wanted.Jitter)},
		[2]float64{d.DelayCorrelation, wanted.DelayCorrelation},
		[2]float64{d.Duplicate, wanted.Duplicate},
		[2]float64{d.DuplicateCorrelation, wanted.DuplicateCorrelation},
		[2]float64{d.Corrupt, wanted.Corrupt},
		[2]float64{d.CorruptCorrelation, wanted.CorruptCorrelation},
		[2]float64{d.Reorder, wanted.Reorder},
		[2]float64{d.ReorderCorrelation, wanted.ReorderCorrelation},
	) {
		if math.Abs(pair[0]-pair[1]) > 1e-5*max(pair[0], pair[1])+1e-7 {
			return false
		}
	}
	return true
}

// numbers pairs the numbers of two losses, which differ in one pair at least
// when their models do.
func (l Loss) numbers(m Loss) [][2]float64 {
	different := [][2]float64{{0, 1}}
	switch {
	case l.Random != nil && m.Random != nil:
		return [][2]float64{{l.Random.Percent, m.Random.Percent}, {l.Random.Correlation, m.Random.Correlation}}
	case l.State != nil && m.State != nil:
		a, b := l.State, m.State
		return [][2]float64{{a.P13, b.P13}, {a.P31, b.P31}, {a.P32, b.P32}, {a.P23, b.P23}, {a.P14, b.P14}}
	case l.GEModel != nil && m.GEModel != nil:
		a, b := l.GEModel, m.GEModel
		return [][2]float64{{a.P, b.P}, {a.R, b.R}, {a.H1, b.H1}, {a.K1, b.K1}}
	case l != Loss{} || m != Loss{}:
		return different
	}
	return nil
}

// Sticks tells whether a running netem discipline with d keeps something of d
// when tc changes it to next: the kernel leaves alone what a change does not
// name. It has to be replaced by a new one then.
func (d Direction) Sticks(next Direction) bool {
	correlates := func(d Direction) bool {
		return d.DelayCorrelation > 0 || d.DuplicateCorrelation > 0 || d.Loss.Random != nil && d.Loss.Random.Correlation > 0
	}
	return correlates(d) && !correlates(next) ||
		d.Corrupt > 0 && next.Corrupt == 0 ||
		d.Reorder > 0 && next.Reorder == 0 ||
		d.Rate > 0 && next.Rate == 0 ||
		d.Distribution != "" && next.Distribution == "" ||
		d.Seed != next.Seed
}
