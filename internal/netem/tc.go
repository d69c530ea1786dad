package netem

import (
	"fmt"
	"strings"
)

// Tc returns the tc command that this direction stands for on a device that
// sends packets of up to mtu bytes. Keeping the order has no word in tc.
func (d Direction) Tc(device string, mtu int) string {
	line := fmt.Sprintf("tc qdisc replace dev %s root netem limit %d", device, d.EffectiveLimit(mtu))
	add := func(word string, values ...string) {
		line += " " + word
		for _, value := range values {
			if value != "" {
				line += " " + value
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
		add("loss random", percent(d.Loss.Random.Percent), percent(d.Loss.Random.Correlation))
	case d.Loss.State != nil:
		s := d.Loss.State
		add("loss state", positional(s.P13, s.P31, s.P32, s.P23, s.P14))
	case d.Loss.GEModel != nil:
		g := d.Loss.GEModel
		add("loss gemodel", positional(g.P, g.R, g.H1, g.K1))
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
		add("gap", fmt.Sprint(d.Gap))
	}
	if d.Rate > 0 {
		add("rate", d.Rate.String())
	}
	if d.Seed > 0 {
		add("seed", fmt.Sprint(d.Seed))
	}
	return line
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
func positional(values ...float64) string {
	words := make([]string, len(values))
	for i, value := range values {
		words[i] = fmt.Sprintf("%g%%", value)
	}
	return strings.Join(words, " ")
}
