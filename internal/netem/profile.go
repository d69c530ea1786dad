// Package netem models what a link does to packets, in the terms and with the
// semantics of Linux's netem queueing discipline: delay, jitter, loss,
// duplication, corruption, reordering and rate.
//
// A Profile is plain data with one canonical JSON text, so two profiles do the
// same if and only if their texts are equal. An Impairment carries one
// direction of a profile out: it draws the fate of each packet, and the same
// seed draws the same fates.
package netem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Profile is what a link does to packets, one Direction each way.
type Profile struct {
	Forward, Reverse Direction
}

// Direction is what happens to packets on their way in one direction. The zero
// value does nothing. Percentages are from 0 to 100.
type Direction struct {
	Delay            Duration     `json:"delay,omitzero"`
	Jitter           Duration     `json:"jitter,omitzero"`
	DelayCorrelation float64      `json:"delay_correlation,omitzero"`
	Distribution     Distribution `json:"distribution,omitzero"`

	Loss Loss `json:"loss,omitzero"`

	Duplicate            float64 `json:"duplicate,omitzero"`
	DuplicateCorrelation float64 `json:"duplicate_correlation,omitzero"`
	Corrupt              float64 `json:"corrupt,omitzero"`
	CorruptCorrelation   float64 `json:"corrupt_correlation,omitzero"`

	// Reorder is the share of packets that skip the delay. With a Gap of N
	// only each N-th packet may skip it.
	Reorder            float64 `json:"reorder,omitzero"`
	ReorderCorrelation float64 `json:"reorder_correlation,omitzero"`
	Gap                int     `json:"gap,omitzero"`

	Rate Rate `json:"rate,omitzero"`

	// Limit is the number of packets that may wait; 0 derives it, see
	// EffectiveLimit.
	Limit int `json:"limit,omitzero"`

	// Seed chooses the sequence of fates; 0 leaves the choice to the network.
	Seed uint64 `json:"seed,omitzero"`

	// KeepOrder lets no packet overtake another. Without it jitter reorders,
	// as it does in netem.
	KeepOrder bool `json:"keep_order,omitzero"`
}

// Distribution is the law of the jitter. The zero value is uniform.
type Distribution string

// Distributions lists the laws that netem has.
var Distributions = []Distribution{"uniform", "normal", "pareto", "paretonormal"}

// Loss is one model of loss, or none when all are nil.
type Loss struct {
	Random  *RandomLoss  `json:"random,omitempty"`
	State   *StateLoss   `json:"state,omitempty"`
	GEModel *GEModelLoss `json:"gemodel,omitempty"`
}

// RandomLoss loses each packet with one probability. Correlation is how much
// of the last packet's draw goes into the next one's.
type RandomLoss struct {
	Percent     float64 `json:"percent"`
	Correlation float64 `json:"correlation,omitzero"`
}

// StateLoss is netem's Markov chain of four states: 1 receives in a gap, 2
// receives in a burst, 3 loses in a burst, 4 loses in a gap. The fields are the
// transition probabilities in percent.
type StateLoss struct {
	P13 float64 `json:"p13"`
	P31 float64 `json:"p31"`
	P32 float64 `json:"p32"`
	P23 float64 `json:"p23"`
	P14 float64 `json:"p14"`
}

// GEModelLoss is the Gilbert-Elliott model: P leaves the good state, R the bad
// one, H1 is the loss in the bad state (1-h) and K1 in the good one (1-k), all
// in percent.
type GEModelLoss struct {
	P  float64 `json:"p"`
	R  float64 `json:"r"`
	H1 float64 `json:"one_minus_h"`
	K1 float64 `json:"one_minus_k"`
}

// IsZero tells whether the profile does nothing.
func (p Profile) IsZero() bool { return p.Forward.IsZero() && p.Reverse.IsZero() }

// IsZero tells whether the direction does nothing to any packet.
func (d Direction) IsZero() bool {
	d.Seed, d.KeepOrder, d.Limit = 0, false, 0
	return d == Direction{}
}

// JSON returns the canonical text: one object for both directions when they
// are the same, else one for each under "forward" and "reverse".
func (p Profile) JSON() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("netem: a profile is plain data: " + err.Error())
	}
	return string(text)
}

// MarshalJSON prints the canonical text.
func (p Profile) MarshalJSON() ([]byte, error) {
	if p.Equal(Profile{p.Forward, p.Forward}) {
		return json.Marshal(p.Forward)
	}
	return json.Marshal(struct {
		Forward Direction `json:"forward"`
		Reverse Direction `json:"reverse"`
	}{p.Forward, p.Reverse})
}

// UnmarshalJSON reads what Parse reads.
func (p *Profile) UnmarshalJSON(text []byte) (err error) {
	*p, err = Parse(text)
	return err
}

// Equal tells whether both profiles do the same.
func (p Profile) Equal(q Profile) bool {
	return p.Forward.Equal(q.Forward) && p.Reverse.Equal(q.Reverse)
}

// Equal tells whether both directions do the same.
func (d Direction) Equal(e Direction) bool {
	a, _ := json.Marshal(d)
	b, _ := json.Marshal(e)
	return bytes.Equal(a, b)
}

// Parse reads a profile: the canonical text, or any Settings as JSON.
func Parse(text []byte) (Profile, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var settings Settings
	if err := decoder.Decode(&settings); err != nil {
		return Profile{}, fmt.Errorf("read the profile: %s; use the json attribute of a testbed_netem_profile", strings.TrimPrefix(err.Error(), "json: "))
	}
	return settings.Profile()
}

// The assumptions of EffectiveLimit.
const (
	// AssumedRate stands in for the rate of a direction that has none.
	AssumedRate Rate = 10e9
	// DefaultLimit is netem's own default and the least that is derived.
	DefaultLimit = 1000
)

// EffectiveLimit is the number of packets that may wait in this direction:
// Limit when it is set, else one and a half times what fits into the delay at
// the rate in packets of mtu bytes, and at least DefaultLimit. Netem's fixed
// default of 1000 packets would drop what a long fast path holds.
func (d Direction) EffectiveLimit(mtu int) int {
	if d.Limit > 0 {
		return d.Limit
	}
	rate := d.Rate
	if rate == 0 {
		rate = AssumedRate
	}
	inFlight := float64(rate) / 8 * time.Duration(d.Delay+d.Jitter).Seconds()
	return max(DefaultLimit, int(inFlight*1.5/float64(mtu)))
}
