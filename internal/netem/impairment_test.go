package netem

import (
	"math"
	"slices"
	"testing"
	"time"
)

const (
	packets = 200_000
	mtu     = 1500
)

// fates decides about packets that are far enough apart to meet no queue, and
// returns the verdicts with times relative to each packet's own.
func fates(t *testing.T, profile string, seed uint64, count int) []Verdict {
	t.Helper()
	p, err := Parse([]byte(profile))
	if err != nil {
		t.Fatal(err)
	}
	m := NewImpairment(p.Forward, seed, "a", "b", mtu)
	verdicts := make([]Verdict, count)
	for i := range verdicts {
		now := time.Duration(i) * time.Second
		v := m.Decide(1000, now)
		for c := range v.N {
			v.Copies[c].Due -= now
		}
		m.Leave(m.Waiting())
		verdicts[i] = v
	}
	return verdicts
}

// within checks a share of independent events against its probability.
func within(t *testing.T, what string, events, of int, want float64) {
	t.Helper()
	got := float64(events) / float64(of)
	if se := math.Sqrt(want * (1 - want) / float64(of)); math.Abs(got-want) > 3*se {
		t.Errorf("%s: %.5f, want %.5f within %.5f", what, got, want, 3*se)
	}
}

func TestRandomLoss(t *testing.T) {
	lost := 0
	for _, v := range fates(t, `{"loss":{"random":{"percent":2}}}`, 1, packets) {
		lost += v.Lost
	}
	within(t, "loss", lost, packets, 0.02)
}

// TestCorrelatedLoss compares with the law of netem's generator, followed here
// with real numbers instead of 32-bit ones.
func TestCorrelatedLoss(t *testing.T) {
	const percent, correlation = 30, 50.0
	verdicts := fates(t, `{"loss":{"random":{"percent":30,"correlation":50}}}`, 1, packets)
	// A draw is y = rho x + (1-rho) u, of the last draw x and a uniform u. Its
	// law settles when this is repeated.
	const cells, rho = 500, correlation / 100
	law := make([]float64, cells) // share of draws in each cell
	law[0] = 1
	for range 60 {
		below := make([]float64, cells+1)
		for i := range below {
			for j, share := range law {
				y, x := float64(i)/cells, (float64(j)+0.5)/cells
				below[i] += share * min(max((y-rho*x)/(1-rho), 0), 1)
			}
		}
		for i := range law {
			law[i] = below[i+1] - below[i]
		}
	}
	want := 0.0
	for _, share := range law[:cells*percent/100] {
		want += share
	}
	checkBatches(t, "loss", verdicts, want)
	if got := (Loss{Random: &RandomLoss{Percent: percent, Correlation: correlation}}).Ratio(); math.Abs(got-want) > 0.005 {
		t.Errorf("Ratio is %.4f, want %.4f", got, want)
	}
	// A loss makes the next one likelier.
	both, lost := 0, 0
	for i := 1; i < len(verdicts); i++ {
		lost += verdicts[i-1].Lost
		both += verdicts[i-1].Lost * verdicts[i].Lost
	}
	if float64(both)/float64(lost) < 1.3*want {
		t.Errorf("after a loss %.3f are lost, of all %.3f", float64(both)/float64(lost), want)
	}
}

// checkBatches checks the share of losses that depend on each other: its
// standard error comes from batches far longer than their memory.
func checkBatches(t *testing.T, what string, verdicts []Verdict, want float64) {
	t.Helper()
	const batches = 100
	size := len(verdicts) / batches
	var sum, squares float64
	for b := range batches {
		lost := 0
		for _, v := range verdicts[b*size : (b+1)*size] {
			lost += v.Lost
		}
		share := float64(lost) / float64(size)
		sum += share
		squares += share * share
	}
	mean := sum / batches
	se := math.Sqrt((squares/batches - mean*mean) / batches)
	if math.Abs(mean-want) > 3*se {
		t.Errorf("%s: %.5f, want %.5f within %.5f", what, mean, want, 3*se)
	}
}

func TestStateLoss(t *testing.T) {
	for _, test := range []struct {
		profile                 string
		p13, p31, p32, p23, p14 float64
	}{
		{`{"loss":{"state":{"p13":2,"p31":30}}}`, 2, 30, 0, 100, 0},
		{`{"loss":{"state":{"p13":1,"p31":20,"p32":30,"p23":40,"p14":0.5}}}`, 1, 20, 30, 40, 0.5},
	} {
		// Let the chain run until its states have their shares.
		states := [4]float64{1, 0, 0, 0}
		for range 10_000 {
			gap, receive, lose, single := states[0], states[1], states[2], states[3]
			states = [4]float64{
				gap*(100-test.p13-test.p14)/100 + lose*test.p31/100 + single,
				receive*(100-test.p23)/100 + lose*test.p32/100,
				gap*test.p13/100 + receive*test.p23/100 + lose*(100-test.p31-test.p32)/100,
				gap * test.p14 / 100,
			}
		}
		want := states[2] + states[3]
		checkBatches(t, test.profile, fates(t, test.profile, 2, packets), want)
		p, _ := Parse([]byte(test.profile))
		if got := p.Forward.Loss.Ratio(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: Ratio is %v, want %v", test.profile, got, want)
		}
	}
}

func TestGEModelLoss(t *testing.T) {
	const profile = `{"loss":{"gemodel":{"p":1,"r":10,"one_minus_h":70,"one_minus_k":0.1}}}`
	want := 1.0/11*0.7 + 10.0/11*0.001
	verdicts := fates(t, profile, 3, packets)
	checkBatches(t, "gemodel", verdicts, want)
	p, _ := Parse([]byte(profile))
	if got := p.Forward.Loss.Ratio(); math.Abs(got-want) > 1e-9 {
		t.Errorf("Ratio is %v, want %v", got, want)
	}
}

func TestDuplicate(t *testing.T) {
	verdicts := fates(t, `{"duplicate":10,"loss":{"random":{"percent":20}}}`, 4, packets)
	gone, twice := 0, 0
	for _, v := range verdicts {
		switch v.N {
		case 0:
			gone++
		case 2:
			twice++
		}
	}
	// As in netem, a duplicated loss is one packet, and a duplicate can be lost.
	within(t, "gone", gone, packets, 0.2*0.9)
	within(t, "twice", twice, packets, 0.1*0.8*0.8)
}

func TestCorrupt(t *testing.T) {
	corrupted, low := 0, 0
	for _, v := range fates(t, `{"corrupt":5}`, 5, packets) {
		if bit := v.Copies[0].Bit; bit >= 0 {
			corrupted++
			if bit < 4000 {
				low++
			}
			if bit >= 8000 {
				t.Fatalf("bit %d of 8000", bit)
			}
		}
	}
	within(t, "corrupted", corrupted, packets, 0.05)
	within(t, "in the first half", low, corrupted, 0.5)
}

func TestReorder(t *testing.T) {
	reordered := 0
	for _, v := range fates(t, `{"delay":"10ms","reorder":25}`, 6, packets) {
		if want := 10 * time.Millisecond; v.Copies[0].Reordered {
			reordered++
			if v.Copies[0].Due != 0 {
				t.Fatalf("a packet that overtakes leaves after %v", v.Copies[0].Due)
			}
		} else if v.Copies[0].Due != want {
			t.Fatalf("a packet leaves after %v, want %v", v.Copies[0].Due, want)
		}
	}
	within(t, "reordered", reordered, packets, 0.25)
}

func TestReorderGap(t *testing.T) {
	for i, v := range fates(t, `{"delay":"10ms","reorder":100,"gap":5}`, 6, 1000) {
		if want := i%5 == 4; v.Copies[0].Reordered != want {
			t.Fatalf("packet %d: overtakes: %v, want %v", i, v.Copies[0].Reordered, want)
		}
	}
	// With less than 100 % the wait for the next one starts anew after each.
	reordered, last := 0, -5
	for i, v := range fates(t, `{"delay":"10ms","reorder":50,"gap":5}`, 6, packets) {
		if v.Copies[0].Reordered {
			reordered++
			if i-last < 5 {
				t.Fatalf("packets %d and %d overtake", last, i)
			}
			last = i
		}
	}
	// The distance is 5 and then geometric: 5 + (1-p)/p = 6 packets on average,
	// with a variance of (1-p)/p^2 = 2.
	want := packets / 6.0
	if se := math.Sqrt(packets * 2 / (6 * 6 * 6)); math.Abs(float64(reordered)-want) > 3*se {
		t.Errorf("%d packets overtake, want %.0f within %.0f", reordered, want, 3*se)
	}
}

// TestDistributions compares with the laws' own formulas. The quantiles are
// compared by the share of packets below them.
func TestDistributions(t *testing.T) {
	normal := func(share float64) float64 { return math.Sqrt2 * math.Erfinv(2*share-1) }
	pareto := func(share float64) float64 { return (1/math.Cbrt(1-share) - 1.5) * 4 / 3 }
	laws := map[Distribution]func(share float64) float64{
		"uniform":      func(share float64) float64 { return 2*share - 1 },
		"normal":       normal,
		"pareto":       pareto,
		"paretonormal": func(share float64) float64 { return normal(share)/4 + pareto(share)*3/4 },
	}
	for _, name := range Distributions {
		t.Run(string(name), func(t *testing.T) {
			law := laws[name]
			profile := `{"delay":"100ms","jitter":"10ms","distribution":"` + string(name) + `"}`
			values := make([]float64, packets)
			for i, v := range fates(t, profile, 7, packets) {
				values[i] = (v.Copies[0].Due - 100*time.Millisecond).Seconds() / 0.01
			}
			for _, share := range []float64{0.0625, 0.25, 0.5, 0.75, 0.9375} {
				below := 0
				for _, value := range values {
					if value < law(share) {
						below++
					}
				}
				within(t, "below the quantile", below, packets, share)
			}
			// Moments of the law, which ends at four jitters as netem's does.
			const steps = 1 << 20
			var mean, square, fourth float64
			for i := range steps {
				mean += min(4, law((float64(i)+0.5)/steps)) / steps
			}
			for i := range steps {
				d := min(4, law((float64(i)+0.5)/steps)) - mean
				square += d * d / steps
				fourth += d * d * d * d / steps
			}
			var gotMean, gotSquare float64
			for _, value := range values {
				gotMean += value / packets
			}
			for _, value := range values {
				gotSquare += (value - gotMean) * (value - gotMean) / packets
			}
			if se := math.Sqrt(square / packets); math.Abs(gotMean-mean) > 3*se {
				t.Errorf("mean %.4f, want %.4f within %.4f", gotMean, mean, 3*se)
			}
			if se := math.Sqrt((fourth - square*square) / packets); math.Abs(gotSquare-square) > 3*se {
				t.Errorf("variance %.4f, want %.4f within %.4f", gotSquare, square, 3*se)
			}
			t.Logf("mean %.4f (%.4f), standard deviation %.4f (%.4f) in jitters", gotMean, mean, math.Sqrt(gotSquare), math.Sqrt(square))
		})
	}
}

// TestDelayCorrelation checks the correlation of neighbours, which is the
// configured one for netem's generator.
func TestDelayCorrelation(t *testing.T) {
	values := make([]float64, packets)
	mean := 0.0
	for i, v := range fates(t, `{"delay":"10ms","jitter":"5ms","delay_correlation":40}`, 8, packets) {
		values[i] = v.Copies[0].Due.Seconds()
		mean += values[i] / packets
	}
	var covariance, variance float64
	for i := 1; i < packets; i++ {
		covariance += (values[i] - mean) * (values[i-1] - mean)
		variance += (values[i] - mean) * (values[i] - mean)
	}
	if got, se := covariance/variance, math.Sqrt((1-0.4*0.4)/packets); math.Abs(got-0.4) > 3*se {
		t.Errorf("correlation %.4f, want 0.4 within %.4f", got, 3*se)
	}
}

func TestSeed(t *testing.T) {
	const profile = `{"delay":"10ms","jitter":"5ms","loss":{"random":{"percent":5}},"duplicate":5,"corrupt":5,"reorder":5}`
	first := fates(t, profile, 1, 10_000)
	if !slices.Equal(first, fates(t, profile, 1, 10_000)) {
		t.Error("the same seed gives other fates")
	}
	if slices.Equal(first, fates(t, profile, 2, 10_000)) {
		t.Error("another seed gives the same fates")
	}
	p, _ := Parse([]byte(profile))
	back := NewImpairment(p.Forward, 1, "b", "a", mtu)
	for i := range first {
		if v := back.Decide(1000, 0); v.N != first[i].N {
			return
		}
	}
	t.Error("both directions have the same fates")
}

// TestRate sends a burst into a queue: each packet leaves when the line is
// free, and those that find no room are gone.
func TestRate(t *testing.T) {
	p, err := Parse([]byte(`{"delay":"5ms","rate":"8mbit","limit":10}`))
	if err != nil {
		t.Fatal(err)
	}
	m := NewImpairment(p.Forward, 1, "a", "b", mtu)
	dropped := 0
	for i := range 25 {
		v := m.Decide(1000, 0)
		dropped += v.Dropped
		if v.N == 1 && v.Copies[0].Due != time.Duration(6+i)*time.Millisecond {
			t.Errorf("packet %d leaves at %v", i, v.Copies[0].Due)
		}
	}
	if dropped != 15 || m.Waiting() != 10 {
		t.Errorf("%d dropped and %d waiting, want 15 and 10", dropped, m.Waiting())
	}
	m.Leave(10)
	// The line is idle again, so a packet meets the delay and its own length.
	if v := m.Decide(500, time.Second); v.Copies[0].Due != time.Second+5*time.Millisecond+500*time.Microsecond {
		t.Errorf("a lone packet leaves at %v", v.Copies[0].Due)
	}
}

func TestKeepOrder(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p, err := Parse([]byte(`{"delay":"10ms","jitter":"10ms"}`))
		if err != nil {
			t.Fatal(err)
		}
		p.Forward.KeepOrder = keep
		m := NewImpairment(p.Forward, 1, "a", "b", mtu)
		overtakes := false
		last := time.Duration(0)
		for i := range 1000 {
			v := m.Decide(1000, time.Duration(i)*time.Microsecond)
			overtakes = overtakes || v.Copies[0].Due < last
			last = v.Copies[0].Due
		}
		if overtakes == keep {
			t.Errorf("keep_order %v: packets overtake: %v", keep, overtakes)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, profile := range map[string]string{"delay": `{"delay":"5ms"}`, "all": `{"delay":"5ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":1}},"duplicate":1,"corrupt":1,"reorder":1,"rate":"1gbit"}`} {
		b.Run(name, func(b *testing.B) {
			p, err := Parse([]byte(profile))
			if err != nil {
				b.Fatal(err)
			}
			m := NewImpairment(p.Forward, 1, "a", "b", mtu)
			for b.Loop() {
				m.Leave(m.Decide(1500, 0).N)
			}
		})
	}
}
