package netem

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Settings are a profile as people write it: either RTT or Delay, values with
// their units as text, and overrides for one direction. What is nil is not
// set. Forward and Reverse override single attributes of the whole and have
// neither an RTT nor overrides of their own.
type Settings struct {
	// RTT is the round-trip time that the link adds, half of it each way.
	RTT   *string `json:"rtt,omitempty"`
	Delay *string `json:"delay,omitempty"`

	Jitter               *string       `json:"jitter,omitempty"`
	DelayCorrelation     *float64      `json:"delay_correlation,omitempty"`
	Distribution         *string       `json:"distribution,omitempty"`
	Loss                 *LossSettings `json:"loss,omitempty"`
	Duplicate            *float64      `json:"duplicate,omitempty"`
	DuplicateCorrelation *float64      `json:"duplicate_correlation,omitempty"`
	Corrupt              *float64      `json:"corrupt,omitempty"`
	CorruptCorrelation   *float64      `json:"corrupt_correlation,omitempty"`
	Reorder              *float64      `json:"reorder,omitempty"`
	ReorderCorrelation   *float64      `json:"reorder_correlation,omitempty"`
	Gap                  *int64        `json:"gap,omitempty"`
	Rate                 *string       `json:"rate,omitempty"`
	Limit                *int64        `json:"limit,omitempty"`
	Seed                 *uint64       `json:"seed,omitempty"`
	KeepOrder            *bool         `json:"keep_order,omitempty"`

	Forward *Settings `json:"forward,omitempty"`
	Reverse *Settings `json:"reverse,omitempty"`
}

// LossSettings name exactly one model of loss.
type LossSettings struct {
	Random  *RandomSettings  `json:"random,omitempty"`
	State   *StateSettings   `json:"state,omitempty"`
	GEModel *GEModelSettings `json:"gemodel,omitempty"`
}

// RandomSettings are a RandomLoss; the correlation is 0 when nil.
type RandomSettings struct {
	Percent     *float64 `json:"percent,omitempty"`
	Correlation *float64 `json:"correlation,omitempty"`
}

// StateSettings are a StateLoss with tc's defaults: P31 is 100-P13, P32 0,
// P23 100 and P14 0.
type StateSettings struct {
	P13 *float64 `json:"p13,omitempty"`
	P31 *float64 `json:"p31,omitempty"`
	P32 *float64 `json:"p32,omitempty"`
	P23 *float64 `json:"p23,omitempty"`
	P14 *float64 `json:"p14,omitempty"`
}

// GEModelSettings are a GEModelLoss with tc's defaults: R is 100-P, H1 100 and
// K1 0.
type GEModelSettings struct {
	P  *float64 `json:"p,omitempty"`
	R  *float64 `json:"r,omitempty"`
	H1 *float64 `json:"one_minus_h,omitempty"`
	K1 *float64 `json:"one_minus_k,omitempty"`
}

// Problem is one thing wrong with Settings. Attribute names it with dots, for
// example "forward.loss.random.percent".
type Problem struct {
	Attribute, Text string
}

// Problems is the error for Settings that make no profile.
type Problems []Problem

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Attribute + ": " + problem.Text
	}
	return strings.Join(texts, "; ")
}

// Profile returns the profile that the settings describe. The error is of type
// Problems and holds everything that is wrong.
func (s Settings) Profile() (Profile, error) {
	var problems Problems
	for name, override := range map[string]*Settings{"forward": s.Forward, "reverse": s.Reverse} {
		if override == nil {
			continue
		}
		if override.RTT != nil {
			problems = append(problems, Problem{name + ".rtt", "a round trip has no direction; set delay here"})
		}
		if override.Forward != nil || override.Reverse != nil {
			problems = append(problems, Problem{name, "forward and reverse cannot be nested"})
		}
	}
	if s.RTT != nil && s.Delay != nil {
		problems = append(problems, Problem{"rtt", "rtt and delay are both set; keep rtt for the round trip or delay for one way, not both"})
	}
	forward := reader{base: &s, override: s.Forward, name: "forward"}
	reverse := reader{base: &s, override: s.Reverse, name: "reverse"}
	profile := Profile{Forward: forward.direction(), Reverse: reverse.direction()}
	for _, problem := range slices.Concat(forward.problems, reverse.problems) {
		if !slices.Contains(problems, problem) { // both directions read what they share
			problems = append(problems, problem)
		}
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Attribute, b.Attribute) })
		return Profile{}, problems
	}
	return profile, nil
}

// reader reads one direction out of settings and its override.
type reader struct {
	base, override *Settings
	name           string // of the override
	problems       Problems
}

// pick returns the attribute's value from the override, else from the base,
// and the name to report it by. The value is nil when neither sets it.
func pick[T any](r *reader, attribute string, get func(*Settings) *T) (*T, string) {
	if r.override != nil {
		if value := get(r.override); value != nil {
			return value, r.name + "." + attribute
		}
	}
	return get(r.base), attribute
}

func (r *reader) complain(attribute, format string, args ...any) {
	r.problems = append(r.problems, Problem{attribute, fmt.Sprintf(format, args...)})
}

func (r *reader) duration(attribute string, get func(*Settings) *string) (Duration, string) {
	text, name := pick(r, attribute, get)
	if text == nil {
		return 0, name
	}
	value, err := ParseDuration(*text)
	if err != nil {
		r.complain(name, "%s", err)
	}
	return value, name
}

func (r *reader) percent(attribute string, get func(*Settings) *float64) (float64, string) {
	value, name := pick(r, attribute, get)
	if value == nil {
		return 0, name
	}
	r.checkPercent(name, *value)
	return *value, name
}

func (r *reader) checkPercent(name string, value float64) {
	if !(value >= 0 && value <= 100) {
		r.complain(name, "%g is not a percentage; write a number from 0 to 100", value)
	}
}

// needs reports an attribute that says something about another one that is not
// set, rather than dropping it silently.
func (r *reader) needs(isSet bool, name string, otherIsSet bool, other, next string) {
	if isSet && !otherIsSet {
		r.complain(name, "it has no effect without %s; %s", other, next)
	}
}

// correlation reads a correlation that goes with another percentage.
func (r *reader) correlation(attribute string, get func(*Settings) *float64, other string, otherIsSet bool) float64 {
	value, name := r.percent(attribute, get)
	r.needs(value > 0, name, otherIsSet, other, "set "+other+" or remove it")
	return value
}

func (r *reader) direction() (d Direction) {
	r.readDelay(&d)
	d.Loss = r.loss()
	d.Duplicate, _ = r.percent("duplicate", func(s *Settings) *float64 { return s.Duplicate })
	d.DuplicateCorrelation = r.correlation("duplicate_correlation", func(s *Settings) *float64 { return s.DuplicateCorrelation }, "duplicate", d.Duplicate > 0)
	d.Corrupt, _ = r.percent("corrupt", func(s *Settings) *float64 { return s.Corrupt })
	d.CorruptCorrelation = r.correlation("corrupt_correlation", func(s *Settings) *float64 { return s.CorruptCorrelation }, "corrupt", d.Corrupt > 0)
	r.readReorder(&d)

	if rate, name := pick(r, "rate", func(s *Settings) *string { return s.Rate }); rate != nil {
		var err error
		if d.Rate, err = ParseRate(*rate); err != nil {
			r.complain(name, "%s", err)
		}
	}
	if limit, name := pick(r, "limit", func(s *Settings) *int64 { return s.Limit }); limit != nil {
		if *limit < 1 || *limit > math.MaxInt32 {
			r.complain(name, "%d packets cannot wait; write at least 1, or remove it to derive it from rate and delay", *limit)
		}
		d.Limit = int(*limit)
	}
	if seed, _ := pick(r, "seed", func(s *Settings) *uint64 { return s.Seed }); seed != nil {
		d.Seed = *seed
	}
	if keep, _ := pick(r, "keep_order", func(s *Settings) *bool { return s.KeepOrder }); keep != nil {
		d.KeepOrder = *keep
	}
	return d
}

func (r *reader) readDelay(d *Direction) {
	var name string
	d.Delay, name = r.duration("delay", func(s *Settings) *string { return s.Delay })
	if r.base.RTT != nil && (r.override == nil || r.override.Delay == nil) {
		name = "rtt"
		rtt, err := ParseDuration(*r.base.RTT)
		if err != nil {
			r.complain(name, "%s", err)
		}
		d.Delay = rtt / 2
	}
	jitter, jitterName := r.duration("jitter", func(s *Settings) *string { return s.Jitter })
	d.Jitter = jitter
	if jitter > d.Delay && !slices.ContainsFunc(r.problems, func(p Problem) bool { return p.Attribute == name }) {
		r.complain(jitterName, "a jitter of %s is above the one-way delay of %s, so packets would have to arrive before they are sent; lower the jitter or raise %s", jitter, d.Delay, name)
	}
	d.DelayCorrelation = r.correlation("delay_correlation", func(s *Settings) *float64 { return s.DelayCorrelation }, "jitter", jitter > 0)
	distribution, distributionName := pick(r, "distribution", func(s *Settings) *string { return s.Distribution })
	if distribution == nil {
		return
	}
	if !slices.Contains(Distributions, Distribution(*distribution)) {
		r.complain(distributionName, "%q is not a distribution; write one of %q", *distribution, Distributions)
	}
	r.needs(true, distributionName, jitter > 0, "jitter", "set jitter or remove it")
	if *distribution != "uniform" {
		d.Distribution = Distribution(*distribution)
	}
}

func (r *reader) readReorder(d *Direction) {
	reorder, name := r.percent("reorder", func(s *Settings) *float64 { return s.Reorder })
	d.Reorder = reorder
	r.needs(reorder > 0, name, d.Delay > 0, "a delay", "set delay or rtt, since a packet overtakes by skipping the delay")
	d.ReorderCorrelation = r.correlation("reorder_correlation", func(s *Settings) *float64 { return s.ReorderCorrelation }, "reorder", reorder > 0)
	gap, gapName := pick(r, "gap", func(s *Settings) *int64 { return s.Gap })
	if gap == nil {
		return
	}
	if *gap < 1 || *gap > math.MaxInt32 {
		r.complain(gapName, "%d is not a gap; write the distance in packets, at least 1", *gap)
	}
	r.needs(true, gapName, reorder > 0, "reorder", "set reorder to the share of each gap-th packet that overtakes, 100 for all")
	d.Gap = int(*gap)
}

// loss reads the loss model and fills in tc's defaults. A model that loses
// nothing is no model.
func (r *reader) loss() Loss {
	s, name := pick(r, "loss", func(s *Settings) *LossSettings { return s.Loss })
	if s == nil {
		return Loss{}
	}
	value := func(attribute string, v *float64, byDefault float64) float64 {
		if v == nil {
			return byDefault
		}
		r.checkPercent(name+"."+attribute, *v)
		return *v
	}
	required := func(attribute string, v *float64) float64 {
		if v == nil {
			r.complain(name+"."+attribute, "it is required; write a number from 0 to 100")
		}
		return value(attribute, v, 0)
	}
	models := 0
	var loss Loss
	if m := s.Random; m != nil {
		models++
		loss.Random = &RandomLoss{Percent: required("random.percent", m.Percent), Correlation: value("random.correlation", m.Correlation, 0)}
		r.needs(loss.Random.Correlation > 0, name+".random.correlation", loss.Random.Percent > 0, "a percentage", "set percent above 0 or remove it")
		if loss.Random.Percent == 0 {
			loss.Random = nil
		}
	}
	if m := s.State; m != nil {
		models++
		p13 := required("state.p13", m.P13)
		loss.State = &StateLoss{P13: p13, P31: value("state.p31", m.P31, 100-p13), P32: value("state.p32", m.P32, 0), P23: value("state.p23", m.P23, 100), P14: value("state.p14", m.P14, 0)}
		r.checkSum(name+".state.p14", "p13", loss.State.P13, "p14", loss.State.P14)
		r.checkSum(name+".state.p32", "p31", loss.State.P31, "p32", loss.State.P32)
	}
	if m := s.GEModel; m != nil {
		models++
		p := required("gemodel.p", m.P)
		loss.GEModel = &GEModelLoss{P: p, R: value("gemodel.r", m.R, 100-p), H1: value("gemodel.one_minus_h", m.H1, 100), K1: value("gemodel.one_minus_k", m.K1, 0)}
	}
	if models != 1 {
		r.complain(name, "it names %d models; set exactly one of random, state and gemodel", models)
	}
	return loss
}

// checkSum reports two ways out of one state that are more than certain.
func (r *reader) checkSum(name, a string, x float64, b string, y float64) {
	if x+y > 100 {
		r.complain(name, "%s (%g) and %s (%g) leave the same state and add up to more than 100; lower one", a, x, b, y)
	}
}
