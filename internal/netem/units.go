package netem

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that reads and prints as Go durations do, for
// example "10ms".
type Duration time.Duration

// MarshalText prints the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration with its unit.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDuration(string(text))
	return err
}

// String prints the duration in the largest unit that it reaches, so that Go
// and tc read the same from it.
func (d Duration) String() string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", 1}} {
		if time.Duration(d) >= unit.size {
			return strconv.FormatFloat(float64(d)/float64(unit.size), 'f', -1, 64) + unit.name
		}
	}
	return "0s"
}

// ParseDuration reads a duration of at least zero with its unit.
func ParseDuration(text string) (Duration, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit; write for example \"%sms\"", text, text)
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write a number with its unit, for example \"10ms\"", text)
	case d < 0:
		return 0, fmt.Errorf("%q is negative; a packet cannot arrive before it is sent, so write zero or more", text)
	}
	return Duration(d), nil
}

// Rate is a bandwidth in bits per second.
type Rate uint64

// rateUnits are tc's units with powers of 1000, the largest first.
var rateUnits = []struct {
	name string
	size Rate
}{{"tbit", 1e12}, {"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// MarshalText prints the rate as tc does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rate with its unit.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// String prints the rate in the largest unit that keeps it whole, for example
// "100mbit".
func (r Rate) String() string {
	for _, unit := range rateUnits {
		if r >= unit.size && r%unit.size == 0 {
			return strconv.FormatUint(uint64(r/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatUint(uint64(r), 10) + "bit"
}

// ParseRate reads a rate above zero with one of tc's bit units, for example
// "100mbit" or "2.5gbit".
func ParseRate(text string) (Rate, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	if _, err := strconv.ParseFloat(lower, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit; write for example \"%smbit\" (bit, kbit, mbit, gbit or tbit per second)", text, text)
	}
	for _, unit := range rateUnits {
		number, ok := strings.CutSuffix(lower, unit.name)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			break
		}
		bits := math.Round(value * float64(unit.size))
		if !(bits >= 1 && bits < 1e16) {
			return 0, fmt.Errorf("%q is out of range; a rate is at least 1bit", text)
		}
		return Rate(bits), nil
	}
	return 0, fmt.Errorf("%q is not a rate; write a number with bit, kbit, mbit, gbit or tbit (per second), for example \"100mbit\"", text)
}

// Serialize is how long a packet of size bytes occupies a line of this rate.
func (r Rate) Serialize(size int) time.Duration {
	return time.Duration(uint64(size) * 8 * uint64(time.Second) / uint64(r))
}
