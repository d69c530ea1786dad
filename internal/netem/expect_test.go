package netem

import (
	"math"
	"testing"
	"time"
)

func TestExpect(t *testing.T) {
	for _, test := range []struct {
		profile          string
		rtt              time.Duration
		forward, reverse float64
	}{
		{`{}`, 0, 0, 0},
		{`{"rtt":"10ms","loss":{"random":{"percent":1}}}`, 10 * time.Millisecond, 0.01, 0.01},
		{`{"delay":"1ms","reverse":{"delay":"9ms","corrupt":2}}`, 10 * time.Millisecond, 0, 0.02},
		// 1000 bytes take a millisecond each way.
		{`{"delay":"4ms","rate":"8mbit"}`, 10 * time.Millisecond, 0, 0},
		// Half of the packets skip the delay of one way.
		{`{"forward":{"delay":"10ms","reorder":60}}`, 0, 0, 0},
		// A duplicate saves nine in ten of the lost; the same of the corrupted.
		{`{"loss":{"random":{"percent":10}},"duplicate":90}`, 0, 0.1 * 0.1, 0.1 * 0.1},
	} {
		p, err := Parse([]byte(test.profile))
		if err != nil {
			t.Fatal(err)
		}
		e := p.Expect(1000)
		if e.RTT != test.rtt || math.Abs(e.ForwardLoss-test.forward) > 1e-9 || math.Abs(e.ReverseLoss-test.reverse) > 1e-9 {
			t.Errorf("%s: got %+v", test.profile, e)
		}
	}
	// The sum of two normal jitters of 1 ms.
	p, err := Parse([]byte(`{"rtt":"20ms","jitter":"1ms","distribution":"normal"}`))
	if err != nil {
		t.Fatal(err)
	}
	e := p.Expect(1000)
	if off := e.RTT - 20*time.Millisecond; off.Abs() > 50*time.Microsecond {
		t.Errorf("median %v, want 20 ms", e.RTT)
	}
	if off := e.RTTDeviation.Seconds()*1000 - math.Sqrt2; math.Abs(off) > 0.03 {
		t.Errorf("standard deviation %v, want 1.41 ms", e.RTTDeviation)
	}
}

func TestLossDeviation(t *testing.T) {
	if got, want := (Loss{Random: &RandomLoss{Percent: 10}}).Deviation(900), 0.01; math.Abs(got-want) > 1e-12 {
		t.Errorf("of lone losses %v, want %v", got, want)
	}
	// The state of a chain is remembered with the factor 1-p-r, which blows the
	// variance up by (1+f)/(1-f).
	loss := Loss{GEModel: &GEModelLoss{P: 1, R: 9, H1: 100}}
	want := math.Sqrt(0.1 * 0.9 / 10_000 * 1.9 / 0.1)
	if got := loss.Deviation(10_000); math.Abs(got-want) > 0.2*want {
		t.Errorf("of bursts %v, want %v", got, want)
	}
}
