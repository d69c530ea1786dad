package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Verification says how to measure a link and how far it may be off. Zero
// fields stand for the defaults.
type Verification struct {
	Packets  int           // in each direction; 100 by default
	Interval time.Duration // between them; 10 ms by default

	// RTTTolerance is how far the median may be off, besides what jitter
	// explains. By default it is the larger of 0.3 ms and 3 %, and of 0.5 ms
	// and 5 % where kernels carry the link out.
	RTTTolerance time.Duration

	// LossTolerance is how far the share of lost packets may be off, from 0 to
	// 1, when that is more than three standard errors and one packet.
	LossTolerance float64

	// Rate also floods each direction that has a rate for about a second, and
	// wants what arrives within 5 % of it.
	Rate bool
}

// attempts is how often a link is measured before it has missed. A busy
// machine makes a link look worse than it is, never better.
const attempts = 3

// Measurement is what packets met. Losses are shares from 0 to 1; rates are 0
// where they were not asked for.
type Measurement struct {
	Packets                      int
	WantedRTT                    time.Duration // median, beyond BaseRTT
	BaseRTT                      time.Duration // before the link was made; 0 on a network
	RTTMedian, RTTMin, RTTMax    time.Duration
	WantedForward, WantedReverse float64
	ForwardLoss, ReverseLoss     float64
	ForwardRate, ReverseRate     netem.Rate
	Flow                         Flow
}

// MissError says which of the wanted values a measurement missed.
type MissError struct {
	Link   Link
	Misses []string
}

func (e *MissError) Error() string {
	return fmt.Sprintf("verify link %s: %s", e.Link, strings.Join(e.Misses, "; "))
}

// Echoes is what the probe "echo" prints: the round-trip times of the ICMP
// echo requests that were answered.
type Echoes struct {
	Sent int             `json:"sent"`
	RTT  []time.Duration `json:"rtt"` // nanoseconds
}

// Flow is what the probe "flow" prints: how many of the numbered datagrams
// reached the other host, and how many of those came back. Twice counts those
// that came again, Overtaken those that came after a later one.
type Flow struct {
	Sent      int `json:"sent"`
	Arrived   int `json:"arrived"`
	Twice     int `json:"twice"`
	Overtaken int `json:"overtaken"`

	Returned          int `json:"returned"`
	TwiceReturned     int `json:"twice_returned"`
	OvertakenReturned int `json:"overtaken_returned"`
}

// Flood is what the probe "flood" prints: IP bytes that arrived after the first
// packet, and within which time.
type Flood struct {
	Bytes int64         `json:"bytes"`
	Time  time.Duration `json:"time"` // nanoseconds
}

// Verify measures the link between the running hosts and compares it with the
// profile. A miss is a *MissError, with the last measurement beside it.
func (s Links) Verify(ctx context.Context, l Link, profile netem.Profile, v Verification) (Measurement, error) {
	if v.Packets == 0 {
		v.Packets = 100
	}
	if v.Interval == 0 {
		v.Interval = 10 * time.Millisecond
	}
	p, err := s.newProber(ctx, l, profile, v)
	if err != nil {
		return Measurement{}, fmt.Errorf("verify link %s: %w", l, err)
	}
	var measured Measurement
	for range attempts {
		var misses []string
		if measured, misses, err = p.measure(ctx); err != nil {
			return Measurement{}, fmt.Errorf("verify link %s: %w", l, err)
		}
		if len(misses) == 0 {
			return measured, nil
		}
		err = &MissError{Link: l, Misses: misses}
	}
	return measured, err
}

// prober runs probes on both ends of a link.
type prober struct {
	a, b    end
	profile netem.Profile
	want    netem.Expectation
	v       Verification

	base    time.Duration // RTT of the path without the link
	least   time.Duration // that the RTT may always be off
	percent time.Duration // of the wanted RTT that it may be off
}

// end is one host of a link, and how to reach it from the other.
type end struct {
	host    host.Host
	agent   string
	address string
}

func (s Links) newProber(ctx context.Context, l Link, profile netem.Profile, v Verification) (*prober, error) {
	p := &prober{profile: profile, want: profile.Expect(probeSize), v: v, least: 300 * time.Microsecond, percent: 3}
	addresses, err := s.addresses(ctx, l, p)
	if err != nil {
		return nil, err
	}
	a, b := l.Hosts()
	for i, side := range []struct {
		end *end
		url string
	}{{&p.a, a}, {&p.b, b}} {
		h, err := s.Hosts.Open(ctx, side.url)
		if err != nil {
			return nil, err
		}
		agent, err := h.Agent(ctx)
		if err != nil {
			return nil, err
		}
		*side.end = end{host: h, agent: agent, address: addresses[i]}
	}
	return p, nil
}

// addresses returns those of both hosts, and notes what else is known of the
// path.
func (s Links) addresses(ctx context.Context, l Link, p *prober) (addresses [2]string, err error) {
	if l.ByKernel() {
		status, err := s.Observe(ctx, l)
		if err != nil {
			return addresses, err
		}
		for i, of := range status.Shaping.Addresses {
			if len(of) == 0 {
				return addresses, fmt.Errorf("the hosts know no address of host %d of the link", i+1)
			}
			addresses[i] = of[0].String()
		}
		p.base = status.baseRTT()
		p.least, p.percent = 500*time.Microsecond, 5
		return addresses, nil
	}
	client, err := underlay.Open(s.Data, l.Network)
	if err != nil {
		return addresses, err
	}
	a, b, err := ends(ctx, client, l)
	return [2]string{a.Address.Addr().String(), b.Address.Addr().String()}, err
}

// probeSize is about the size of an echo or flow probe as an IP packet.
const probeSize = 84

// measure takes one measurement and names what it missed.
func (p *prober) measure(ctx context.Context) (Measurement, []string, error) {
	m := Measurement{Packets: p.v.Packets, WantedRTT: p.want.RTT, BaseRTT: p.base, WantedForward: p.want.ForwardLoss, WantedReverse: p.want.ReverseLoss}
	echoes, flow, err := p.sample(ctx)
	if err != nil {
		return m, nil, err
	}
	m.Flow = flow
	var misses []string
	miss := func(format string, args ...any) { misses = append(misses, fmt.Sprintf(format, args...)) }

	if len(echoes.RTT) == 0 {
		miss("none of %d echo requests came back", echoes.Sent)
	} else {
		slices.Sort(echoes.RTT)
		m.RTTMin, m.RTTMedian, m.RTTMax = echoes.RTT[0], echoes.RTT[len(echoes.RTT)/2], echoes.RTT[len(echoes.RTT)-1]
		tolerance := p.rttTolerance(len(echoes.RTT))
		if off := m.RTTMedian - m.BaseRTT - m.WantedRTT; off.Abs() > tolerance {
			wanted := ms(m.WantedRTT)
			if m.BaseRTT > 0 {
				wanted += " beyond the " + ms(m.BaseRTT) + " of the path itself,"
			}
			miss("measured an RTT of %s (median of %d), wanted %s within %s", ms(m.RTTMedian), len(echoes.RTT), wanted, ms(tolerance))
		}
	}
	m.ForwardLoss = share(flow.Sent-flow.Arrived, flow.Sent)
	m.ReverseLoss = share(flow.Arrived-flow.Returned, flow.Arrived)
	for _, direction := range []struct {
		name             string
		loss             netem.Loss
		measured, wanted float64
		packets          int
	}{{"forward", p.profile.Forward.Loss, m.ForwardLoss, m.WantedForward, flow.Sent}, {"reverse", p.profile.Reverse.Loss, m.ReverseLoss, m.WantedReverse, flow.Arrived}} {
		tolerance := p.lossTolerance(direction.loss, direction.wanted, direction.packets)
		if math.Abs(direction.measured-direction.wanted) > tolerance {
			miss("measured a %s loss of %.2f %% (of %d packets), wanted %.2f %% within %.2f %%", direction.name, direction.measured*100, direction.packets, direction.wanted*100, tolerance*100)
		}
	}
	if !p.v.Rate {
		return m, misses, nil
	}
	for _, direction := range []struct {
		name     string
		from, to *end
		wanted   netem.Direction
		measured *netem.Rate
	}{{"forward", &p.a, &p.b, p.profile.Forward, &m.ForwardRate}, {"reverse", &p.b, &p.a, p.profile.Reverse, &m.ReverseRate}} {
		if direction.wanted.Rate == 0 {
			continue
		}
		var flood Flood
		err := direction.to.answering(ctx, func(address string) error {
			return direction.from.probe(ctx, &flood, "flood", address, direction.wanted.Rate.String())
		})
		if err != nil {
			return m, nil, err
		}
		if flood.Time > 0 {
			*direction.measured = netem.Rate(float64(flood.Bytes) * 8 / flood.Time.Seconds())
		}
		if wanted := float64(direction.wanted.Rate); math.Abs(float64(*direction.measured)-wanted) > 0.05*wanted {
			miss("measured a %s rate of %.3g Mbit/s, wanted %s within 5 %%", direction.name, float64(*direction.measured)/1e6, direction.wanted.Rate)
		}
	}
	return m, misses, nil
}

// sample runs the echo and the flow probe at the same time.
func (p *prober) sample(ctx context.Context) (echoes Echoes, flow Flow, err error) {
	echoed := make(chan error, 1)
	go func() { echoed <- p.a.probe(ctx, &echoes, p.pace("echo", p.b.address)...) }()
	err = p.b.answering(ctx, func(address string) error {
		return p.a.probe(ctx, &flow, p.pace("flow", address)...)
	})
	return echoes, flow, errors.Join(<-echoed, err)
}

// rttTolerance is how far the median of some round-trip times may be off.
func (p *prober) rttTolerance(samples int) time.Duration {
	tolerance := max(p.least, time.Duration(float64(p.want.RTT)*float64(p.percent)/100))
	if p.v.RTTTolerance > 0 {
		tolerance = p.v.RTTTolerance
	}
	// The standard error of a median, as of a normal law, three times.
	sampling := 3 * 1.2533 * float64(p.want.RTTDeviation) / math.Sqrt(float64(samples))
	return tolerance + time.Duration(sampling)
}

func (p *prober) lossTolerance(loss netem.Loss, wanted float64, packets int) float64 {
	packets = max(1, packets)
	deviation := math.Sqrt(wanted * (1 - wanted) / float64(packets))
	deviation = max(deviation, loss.Deviation(packets))
	return max(p.v.LossTolerance, 3*deviation+1/float64(packets))
}

// pace is the argv of a paced probe. It waits for late packets as long as the
// profile may hold them.
func (p *prober) pace(kind, address string) []string {
	interval := p.v.Interval
	wait := 200 * time.Millisecond
	for _, d := range []netem.Direction{p.profile.Forward, p.profile.Reverse} {
		wait += time.Duration(d.Delay) + 4*time.Duration(d.Jitter)
		if d.Rate > 0 {
			interval = max(interval, 4*d.Rate.Serialize(probeSize)) // or the probes fill the queue
			wait += 2 * d.Rate.Serialize(probeSize)
		}
	}
	return []string{kind, address, strconv.Itoa(p.v.Packets), interval.String(), wait.String()}
}

// probe runs one probe and reads what it prints.
func (e *end) probe(ctx context.Context, result any, args ...string) error {
	output, err := e.host.Run(ctx, host.Command{Argv: append([]string{e.agent, "probe"}, args...)})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(output.Stdout, result); err != nil {
		return fmt.Errorf("read what probe %s printed: %w", args[0], err)
	}
	return nil
}

// answering runs work while the host answers probes at the address that work
// is given.
func (e *end) answering(ctx context.Context, work func(address string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	address := make(chan string, 1)
	ended := make(chan error, 1)
	var probe sync.WaitGroup
	probe.Go(func() {
		_, err := e.host.Run(ctx, host.Command{Argv: []string{e.agent, "probe", "answer", e.address}, Stdout: &firstLine{line: address}})
		ended <- err
	})
	defer probe.Wait()
	defer cancel()
	select {
	case a := <-address:
		return work(a)
	case err := <-ended:
		return fmt.Errorf("answer probes at %s: %w", e.address, err)
	}
}

// firstLine sends the first line that is written to it.
type firstLine struct {
	line chan<- string
	text string
	sent bool
}

func (w *firstLine) Write(text []byte) (int, error) {
	w.text += string(text)
	if line, _, ok := strings.Cut(w.text, "\n"); ok && !w.sent {
		w.sent = true
		w.line <- line
	}
	return len(text), nil
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// ms prints a time in milliseconds with a resolution that matters.
func ms(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds()*1000, 'f', 3, 64) + " ms"
}
