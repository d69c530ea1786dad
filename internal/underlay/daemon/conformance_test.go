package daemon

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// These tests look at a link from its hosts only: whatever emulates links has
// to pass them.

func TestRoundTrip(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	for _, wanted := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		l.link("a", "b", fmt.Sprintf(`{"rtt":%q}`, wanted))
		times := l.ping("a", "198.18.7.2", 50, 10*time.Millisecond)
		if len(times) != 50 {
			t.Fatalf("%v: %d of 50 came back", wanted, len(times))
		}
		slices.Sort(times)
		t.Logf("wanted %v, median %v, least %v", wanted, times[25], times[0])
		// The lower bound is exact: nothing may arrive early. ping prints two
		// or three digits only. The upper bound is a loose one, for busy machines.
		if times[0] < wanted-wanted/500 || times[0] > wanted+2*time.Millisecond {
			t.Errorf("wanted %v, the shortest of 50 is %v", wanted, times[0])
		}
	}
}

func TestAsymmetricDelay(t *testing.T) {
	l := newLab(t, testSpec, "a", "b", "c")
	l.link("a", "b", `{"delay":"20ms","reverse":{"delay":"5ms"}}`)
	for _, way := range []struct {
		from, to string
		wanted   time.Duration
	}{{"a", "198.18.7.2", 25 * time.Millisecond}, {"b", "198.18.7.1", 25 * time.Millisecond}, {"a", "198.18.7.3", 0}, {"c", "198.18.7.2", 0}} {
		times := l.ping(way.from, way.to, 10, 10*time.Millisecond)
		slices.Sort(times)
		if len(times) != 10 || times[0] < way.wanted || times[0] > way.wanted+2*time.Millisecond {
			t.Errorf("from %s to %s: wanted %v, got %v", way.from, way.to, way.wanted, times)
		}
	}
}

func TestPacketSizes(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	for _, profile := range []string{`{}`, `{"delay":"1ms"}`} {
		l.link("a", "b", profile)
		l.run("a", "ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", "1472", "198.18.7.2")
		l.run("a", "ping", "-n", "-c", "1", "-W", "2", "-s", "60000", "198.18.7.2") // in fragments
		if output, err := l.try("a", "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "1473", "198.18.7.2"); err == nil {
			t.Errorf("a packet above the MTU passed:\n%s", output)
		}
	}
}

// TestTransfer sends data through links that do everything to its packets and
// compares what arrives. The kernel must not have seen a wrong checksum.
func TestTransfer(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	for _, profile := range []string{
		`{}`,
		`{"loss":{"random":{"percent":0.5}}}`,
		`{"delay":"1ms","jitter":"1ms","loss":{"random":{"percent":0.1}},"duplicate":1,"reorder":1}`,
		`{"delay":"1ms","rate":"500mbit"}`,
	} {
		l.link("a", "b", profile)
		if sent, received := l.transfer("a", "b", "198.18.7.2", "tcp", 20<<20); sent != received {
			t.Errorf("%s: sent %s, received %s", profile, sent, received)
		}
	}
	for _, host := range []string{"a", "b"} {
		for _, protocol := range []string{"Tcp", "Udp", "Icmp"} {
			if wrong := l.kernelCounter(host, protocol, "InCsumErrors"); wrong > 0 {
				t.Errorf("%s saw %d wrong %s checksums", host, wrong, protocol)
			}
		}
	}
}

// TestDatagrams sends datagrams in super-packets and one by one.
func TestDatagrams(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	for _, profile := range []string{`{}`, `{"delay":"2ms","rate":"200mbit"}`} {
		l.link("a", "b", profile)
		if sent, received := l.transfer("a", "b", "198.18.7.2", "udp", 1<<20); sent != received {
			t.Errorf("%s: sent %s, received %s", profile, sent, received)
		}
	}
	if wrong := l.kernelCounter("b", "Udp", "InCsumErrors"); wrong > 0 {
		t.Errorf("b saw %d wrong checksums", wrong)
	}
}

func TestCorruption(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"forward":{"corrupt":100}}`)
	if times := l.ping("a", "198.18.7.2", 200, 2*time.Millisecond); len(times) > 0 {
		t.Errorf("%d corrupted requests were answered", len(times))
	}
	wrong := l.kernelCounter("b", "Icmp", "InCsumErrors") + l.kernelCounter("b", "Ip", "InHdrErrors") + l.kernelCounter("b", "Ip", "InAddrErrors")
	if wrong < 150 {
		t.Errorf("b found %d of 200 packets wrong", wrong)
	}
	if c := l.counters("a", "b"); c.Corrupted != 200 {
		t.Errorf("%d were corrupted", c.Corrupted)
	}
}

func TestLossOnTheWire(t *testing.T) {
	const packets = 3000
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"forward":{"loss":{"random":{"percent":10}}}}`)
	returned := len(l.ping("a", "198.18.7.2", packets, time.Millisecond))
	share := 1 - float64(returned)/packets
	if se := math.Sqrt(0.1 * 0.9 / packets); math.Abs(share-0.1) > 3*se {
		t.Errorf("%.4f were lost, want 0.1 within %.4f", share, 3*se)
	}
	if c := l.counters("a", "b"); c.Received != packets || c.Lost != uint64(packets-returned) || c.Delivered != uint64(returned) {
		t.Errorf("%d of %d came back, the counters say %+v", returned, packets, c)
	}
}

// TestSameFatesOnTheWire loses the same packets after the same start.
func TestSameFatesOnTheWire(t *testing.T) {
	var first []string
	for run := range 2 {
		l := newLab(t, testSpec, "a", "b")
		l.link("a", "b", `{"seed":42,"forward":{"loss":{"random":{"percent":30}}}}`)
		output, _ := l.try("a", "ping", "-n", "-c", "200", "-i", "0.002", "-W", "1", "198.18.7.2")
		numbers := regexp.MustCompile(`icmp_seq=\d+`).FindAllString(output, -1)
		if run == 0 {
			first = numbers
		} else if !slices.Equal(first, numbers) {
			t.Errorf("first %v\nthen %v", first, numbers)
		}
		l.close()
	}
}

// TestRateAndQueue overloads a line: what passes is its rate, and a packet
// waits as long as the queue is.
func TestRateAndQueue(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"forward":{"rate":"20mbit","limit":50}}`)
	loaded := make(chan []time.Duration)
	go func() {
		time.Sleep(500 * time.Millisecond) // into the overload
		loaded <- l.ping("a", "198.18.7.2", 50, 20*time.Millisecond)
	}()
	received := l.iperf("a", "b", "198.18.7.2", "--udp", "--bitrate", "30M", "--length", "1472", "--time", "3")
	times := <-loaded
	t.Logf("%.2f Mbit/s of payload, round trips %v", received/1e6, times)
	// 1472 of 1500 bytes are payload. A busy machine may leave the line idle at
	// times, but nothing makes it faster.
	if want := 20e6 * 1472 / 1500; received > 1.02*want || received < 0.8*want {
		t.Errorf("%.2f Mbit/s passed, want %.2f", received/1e6, want/1e6)
	}
	// 50 packets of 1500 bytes take 30 ms.
	if len(times) == 0 {
		t.Fatal("no echo request found room")
	}
	slices.Sort(times)
	if median := times[len(times)/2]; median < 27*time.Millisecond || median > 33*time.Millisecond {
		t.Errorf("the median round trip under load is %v, want about 30 ms", median)
	}
	if c := l.counters("a", "b"); c.Dropped == 0 || c.Waiting != 0 {
		t.Errorf("the counters say %+v", c)
	}
}

// TestChangeUnderLoad changes a link many times. Nothing gets lost: not
// elsewhere, not on the link itself, and what is on its way keeps its time.
func TestChangeUnderLoad(t *testing.T) {
	l := newLab(t, testSpec, "a", "b", "c", "d")
	bystander, changed := make(chan int), make(chan int)
	go func() { bystander <- len(l.ping("c", "198.18.7.4", 1000, 2*time.Millisecond)) }()
	go func() { changed <- len(l.ping("a", "198.18.7.2", 1000, 2*time.Millisecond)) }()
	for i := range 100 {
		l.link("a", "b", fmt.Sprintf(`{"delay":"%dms"}`, i%7*5))
		time.Sleep(10 * time.Millisecond)
	}
	if n := <-bystander; n != 1000 {
		t.Errorf("%d of 1000 came back between hosts that were not changed", n)
	}
	if n := <-changed; n != 1000 {
		t.Errorf("%d of 1000 came back over the changed link", n)
	}
	l.link("a", "b", `{"forward":{"delay":"300ms"}}`)
	slow := make(chan []time.Duration)
	go func() { slow <- l.ping("a", "198.18.7.2", 1, time.Second) }()
	for l.counters("a", "b").Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	l.link("a", "b", `{}`)
	if times := <-slow; len(times) != 1 || times[0] < 300*time.Millisecond || times[0] > 320*time.Millisecond {
		t.Errorf("a packet on its way arrived after %v, want 300 ms", times)
	}
}

func TestUnknownAddress(t *testing.T) {
	l := newLab(t, testSpec)
	l.addHost("a")
	port := l.port("a", netip.MustParseAddr("198.18.7.1"))
	port.DefaultRoute = true
	if err := l.client.Attach(t.Context(), port); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"198.18.7.99", "198.19.0.1"} {
		output, err := l.try("a", "ping", "-n", "-c", "1", "-W", "2", address)
		if err == nil || !strings.Contains(output, "Destination Host Unreachable") {
			t.Errorf("%s: got %v:\n%s", address, err, output)
		}
	}
}

func TestIPv6(t *testing.T) {
	spec := testSpec
	spec.CIDR = netip.MustParsePrefix("2001:db8:7::/64")
	l := newLab(t, spec, "a", "b")
	l.link("a", "b", `{"rtt":"10ms","loss":{"random":{"percent":0.1}}}`)
	l.run("a", "ping", "-n", "-c", "1", "-W", "2", "-s", "1452", "2001:db8:7::2")
	if sent, received := l.transfer("a", "b", "2001:db8:7::2", "tcp", 5<<20); sent != received {
		t.Errorf("sent %s, received %s", sent, received)
	}
	output, err := l.try("a", "ping", "-n", "-c", "1", "-W", "2", "2001:db8:7::99")
	if err == nil || !strings.Contains(output, "Address unreachable") {
		t.Errorf("got %v:\n%s", err, output)
	}
}

// kernelCounter reads a counter that the host's kernel keeps.
func (l *lab) kernelCounter(host, protocol, name string) int {
	l.tb.Helper()
	lines := strings.Split(l.run(host, "cat", "/proc/self/net/snmp"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if at := slices.Index(names, name); at > 0 && names[0] == protocol+":" {
			value, err := strconv.Atoi(values[at])
			if err != nil {
				l.tb.Fatal(err)
			}
			return value
		}
	}
	l.tb.Fatalf("no counter %s of %s", name, protocol)
	return 0
}

// TestLargerPackets changes the packet size of a network that carries them.
func TestLargerPackets(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"delay":"1ms"}`)
	spec := testSpec
	spec.MTU = 9000
	if err := underlay.Apply(t.Context(), l.data, "", spec); err != nil {
		t.Fatal(err)
	}
	l.run("a", "ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", "8972", "198.18.7.2")
	if output, err := l.try("a", "ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", "8973", "198.18.7.2"); err == nil {
		t.Errorf("a packet above the MTU passed:\n%s", output)
	}
	if sent, received := l.transfer("a", "b", "198.18.7.2", "tcp", 5<<20); sent != received {
		t.Errorf("sent %s, received %s", sent, received)
	}
}
