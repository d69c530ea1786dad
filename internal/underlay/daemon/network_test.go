package daemon

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

func TestAttachRefuses(t *testing.T) {
	l := newLab(t, testSpec, "a")
	l.addHost("b")
	good := l.port("b", netip.MustParseAddr("198.18.7.2"))
	for _, test := range []struct {
		name   string
		change func(*underlay.Port)
		want   []string // in the error
	}{
		{"address outside", func(p *underlay.Port) { p.Address = netip.MustParsePrefix("198.18.8.2/24") }, []string{`"b"`, "198.18.8.2", "198.18.7.0/24"}},
		{"other prefix length", func(p *underlay.Port) { p.Address = netip.MustParsePrefix("198.18.7.2/16") }, []string{`"b"`, "/24"}},
		{"network address", func(p *underlay.Port) { p.Address = netip.MustParsePrefix("198.18.7.0/24") }, []string{`"b"`, "198.18.7.0"}},
		{"broadcast address", func(p *underlay.Port) { p.Address = netip.MustParsePrefix("198.18.7.255/24") }, []string{`"b"`, "198.18.7.255"}},
		{"address taken", func(p *underlay.Port) { p.Address = netip.MustParsePrefix("198.18.7.1/24") }, []string{`"b"`, `"a"`, "198.18.7.1"}},
		{"host taken", func(p *underlay.Port) { p.Host = "a" }, []string{`"a"`, "198.18.7.1", "198.18.7.2"}},
		{"no namespace", func(p *underlay.Port) { p.Namespace = "/run/netns/b" }, []string{`"b"`, "/proc/PID/ns/net"}},
		{"no process", func(p *underlay.Port) { p.Namespace = "/proc/4000000/ns/net" }, []string{`"b"`, "4000000"}},
		{"no device name", func(p *underlay.Port) { p.Device = strings.Repeat("x", 16) }, []string{`"b"`, "1 to 15 bytes"}},
		{"device taken", func(p *underlay.Port) { p.Device = "lo" }, []string{`"b"`, `"lo"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			port := good
			test.change(&port)
			err := l.client.Attach(t.Context(), port)
			if err == nil {
				t.Fatal("it is attached")
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in the error %q", text, err)
				}
			}
		})
	}
	for range 2 { // the same again is fine
		if err := l.client.Attach(t.Context(), good); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := l.client.Detach(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	}
	if output, err := l.try("b", "ip", "link", "show", "eth0"); err == nil {
		t.Errorf("a detached host still has its device:\n%s", output)
	}
}

// TestHostDies takes a host off whose process ends, and lets another one with
// the same name and address in at once. The link between the names stays.
func TestHostDies(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"delay":"5ms"}`)
	links, err := l.client.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.kill("b")
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		ports, err := l.client.Ports(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(ports) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a dead host is still attached: %v", ports)
		}
	}
	l.addHost("b")
	l.attach("b", netip.MustParseAddr("198.18.7.2"))
	again, err := l.client.Links(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(links, again); diff != "" {
		t.Errorf("links changed: %s", diff)
	}
	if times := l.ping("a", "198.18.7.2", 3, 10*time.Millisecond); len(times) != 3 || times[0] < 10*time.Millisecond {
		t.Errorf("round trips %v, want 10 ms", times)
	}
}

// TestRestart restores hosts and links with a new daemon.
func TestRestart(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"delay":"5ms"}`)
	before, err := l.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.end()
	l.start()
	after, err := l.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(before.Ports, after.Ports, equal); diff != "" {
		t.Errorf("ports: %s", diff)
	}
	if diff := cmp.Diff(before.Links, after.Links); diff != "" {
		t.Errorf("links: %s", diff)
	}
	if times := l.ping("a", "198.18.7.2", 3, 10*time.Millisecond); len(times) != 3 || times[0] < 10*time.Millisecond {
		t.Errorf("round trips %v, want 10 ms", times)
	}
}

// TestIdle measures what an idle network and a waiting packet cost.
func TestIdle(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	l.link("a", "b", `{"delay":"1s"}`)
	const span = 2 * time.Second
	before := cpuTime(t)
	time.Sleep(span)
	used := cpuTime(t) - before
	t.Logf("%v of processor time in %v", used, span)
	if used > span/20 {
		t.Errorf("an idle network used %v of processor time in %v", used, span)
	}
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
