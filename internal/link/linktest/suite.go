// Package linktest is the one suite that every implementation of links has to
// pass: the same profiles, measured on the hosts, within the same tolerances.
package linktest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// aCase is a profile and how it is measured.
type aCase struct {
	Name    string
	Profile string // as JSON
	link.Verification
}

// cases are the profiles of the suite. Each has few packets, since the hosts
// may be slow.
var cases = []aCase{
	{"delay", `{"rtt":"20ms"}`, link.Verification{Packets: 100, Interval: slow}},
	{"asymmetric delay", `{"forward":{"delay":"4ms"},"reverse":{"delay":"16ms"}}`, link.Verification{Packets: 100, Interval: slow}},
	{"jitter", `{"rtt":"40ms","jitter":"3ms","distribution":"normal"}`, link.Verification{Packets: 200, Interval: slow}},
	{"uniform jitter in one direction", `{"delay":"10ms","forward":{"jitter":"5ms"}}`, link.Verification{Packets: 200, Interval: slow}},
	{"loss", `{"delay":"2ms","forward":{"loss":{"random":{"percent":20}}},"reverse":{"loss":{"random":{"percent":5}}}}`, link.Verification{Packets: 400, Interval: slow}},
	{"bursts of loss", `{"delay":"2ms","loss":{"gemodel":{"p":5,"r":30}}}`, link.Verification{Packets: 400, Interval: slow}},
	{"states of loss", `{"forward":{"loss":{"state":{"p13":10,"p31":40}}}}`, link.Verification{Packets: 400, Interval: slow}},
	{"duplicates", `{"delay":"1ms","forward":{"duplicate":30}}`, link.Verification{Packets: 300, Interval: slow}},
	{"corruption", `{"delay":"1ms","reverse":{"corrupt":20}}`, link.Verification{Packets: 300, Interval: slow}},
	// Who skips the delay overtakes exactly one other.
	{"reordering", `{"delay":"15ms","forward":{"reorder":20,"gap":3}}`, link.Verification{Packets: 300, Interval: slow}},
	{"rate", `{"delay":"5ms","rate":"8mbit","reverse":{"rate":"2mbit"}}`, link.Verification{Packets: 100, Interval: slow, Rate: true}},
	{"nothing", `{}`, link.Verification{Packets: 100, Interval: slow}},
}

// slow is the time between packets, which emulated machines keep up with.
const slow = 10 * time.Millisecond

// Run runs the suite on a link that spec describes; its profile does not
// matter. Measurements are printed, and the link is removed in the end.
func Run(t *testing.T, links link.Links, spec link.Spec) {
	t.Helper()
	ctx := t.Context()
	defer func() {
		if err := links.Remove(ctx, spec.Link); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			profile, err := netem.Parse([]byte(c.Profile))
			if err != nil {
				t.Fatal(err)
			}
			spec.Profile = profile
			if err := links.Apply(ctx, spec); err != nil {
				t.Fatal(err)
			}
			observed, err := links.Observe(ctx, spec.Link)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := observed.Profile.JSON(), profile.JSON(); got != want {
				t.Errorf("read back %s, want %s", got, want)
			}
			m, err := links.Verify(ctx, spec.Link, profile, c.Verification)
			if err != nil {
				t.Error(err)
			}
			t.Log(describe(m))
			for _, miss := range checkOrder(profile, m) {
				t.Error(miss)
			}
		})
	}
}

// checkOrder says what is wrong with copies and order of the packets.
func checkOrder(p netem.Profile, m link.Measurement) (misses []string) {
	for _, way := range []struct {
		name             string
		d                netem.Direction
		packets          int
		twice, overtaken int
	}{
		{"forward", p.Forward, m.Flow.Arrived, m.Flow.Twice, m.Flow.Overtaken},
		{"reverse", p.Reverse, m.Flow.Returned, m.Flow.TwiceReturned, m.Flow.OvertakenReturned},
	} {
		check := func(what string, got int, want float64) {
			share := float64(got) / float64(max(1, way.packets))
			tolerance := 4*math.Sqrt(want*(1-want)/float64(max(1, way.packets))) + 2/float64(max(1, way.packets))
			if math.Abs(share-want) > tolerance {
				misses = append(misses, fmt.Sprintf("%s: %.1f %% of %d packets were %s, wanted %.1f %% within %.1f %%", way.name, share*100, way.packets, what, want*100, tolerance*100))
			}
		}
		check("there twice", way.twice, way.d.Duplicate/100)
		// Who comes back does so in the order of coming there.
		if p.Forward.Jitter+p.Reverse.Jitter == 0 && (way.name == "forward" || p.Forward.Reorder == 0) {
			check("overtaken", way.overtaken, skipping(way.d))
		}
	}
	return misses
}

// skipping is the share of packets that skip the delay: after one did, gap-1
// may not, and then each may.
func skipping(d netem.Direction) float64 {
	if d.Reorder == 0 {
		return 0
	}
	return 1 / (float64(max(1, d.Gap)-1) + 100/d.Reorder)
}

// describe is one line of what was measured.
func describe(m link.Measurement) string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.3f ms", d.Seconds()*1000) }
	parts := []string{fmt.Sprintf("RTT %s of a path of %s, wanted %s more", ms(m.RTTMedian), ms(m.BaseRTT), ms(m.WantedRTT))}
	parts = append(parts, fmt.Sprintf("loss %.2f %% and %.2f %%, wanted %.2f %% and %.2f %%", m.ForwardLoss*100, m.ReverseLoss*100, m.WantedForward*100, m.WantedReverse*100))
	if m.ForwardRate > 0 || m.ReverseRate > 0 {
		parts = append(parts, fmt.Sprintf("rates %.2f and %.2f Mbit/s", float64(m.ForwardRate)/1e6, float64(m.ReverseRate)/1e6))
	}
	parts = append(parts, fmt.Sprintf("twice %d and %d, overtaken %d and %d", m.Flow.Twice, m.Flow.TwiceReturned, m.Flow.Overtaken, m.Flow.OvertakenReturned))
	return strings.Join(parts, "; ")
}
