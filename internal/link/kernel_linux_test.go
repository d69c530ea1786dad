package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// wire are two hosts of namespaces with one wire between them.
type wire struct {
	link.Links
	spec link.Spec
	t    *testing.T
}

// newWire starts the hosts "a" and "b" with the device eth0 on each.
func newWire(t *testing.T) wire {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	program, err := agent.Install(datadir.Dir(t.TempDir()))
	if err != nil {
		t.Skipf("a host needs the agent: %v", err)
	}
	hosts := namespaces{program: program, pids: map[string]int{}}
	for _, name := range []string{"a", "b"} {
		// A host has a /run of its own.
		process := exec.Command("sh", "-c", "mount -t tmpfs tmpfs /run && echo && exec cat")
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
		if _, err := process.StdinPipe(); err != nil { // it ends with the test, which holds its input
			t.Fatal(err)
		}
		ready, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
		if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		hosts.pids[name] = process.Process.Pid
	}
	w := wire{t: t, Links: link.Links{Hosts: hosts}, spec: link.Spec{
		Link: link.Link{Place: link.Underlay, A: "local://a", B: "local://b"},
		Shaping: link.Shaping{Addresses: [2][]netip.Addr{
			{netip.MustParseAddr("198.18.7.1"), netip.MustParseAddr("fd00:7::1")},
			{netip.MustParseAddr("198.18.7.2"), netip.MustParseAddr("fd00:7::2")},
		}},
	}}
	w.on("a", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(hosts.pids["b"]))
	for i, name := range []string{"a", "b"} {
		w.on(name, "ip", "address", "add", fmt.Sprintf("198.18.7.%d/24", i+1), "dev", "eth0")
		w.on(name, "ip", "address", "add", fmt.Sprintf("fd00:7::%d/64", i+1), "dev", "eth0", "nodad")
		w.on(name, "ip", "link", "set", "lo", "up")
		w.on(name, "ip", "link", "set", "eth0", "up")
	}
	return w
}

// on runs a command on a host as a person would.
func (w wire) on(name string, argv ...string) string {
	w.t.Helper()
	h, err := w.Hosts.Open(w.t.Context(), "local://"+name)
	if err != nil {
		w.t.Fatal(err)
	}
	output, err := h.Run(w.t.Context(), host.Command{Argv: argv})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(output.Stdout)
}

// directPackets is a counter among what tc shows.
var directPackets = regexp.MustCompile(` direct_packets_stat \d+`)

// state is all that links may change on a host.
func (w wire) state(name string) string {
	w.t.Helper()
	return strings.Join([]string{
		directPackets.ReplaceAllString(w.on(name, "tc", "qdisc", "show"), ""),
		w.on(name, "tc", "class", "show", "dev", "eth0"),
		w.on(name, "tc", "filter", "show", "dev", "eth0"),
		w.on(name, "tc", "filter", "show", "dev", "eth0", "ingress"),
		w.on(name, "ip", "-brief", "link", "show", "type", "ifb"),
		w.on(name, "sh", "-c", "ls -A /run"),
	}, "\n")
}

// TestKernelLink has kernels carry out a link that does nothing, for which
// they need no netem.
func TestKernelLink(t *testing.T) {
	w := newWire(t)
	ctx := t.Context()
	before := [2]string{w.state("a"), w.state("b")}
	if _, err := w.Observe(ctx, w.spec.Link); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	if err := w.Create(ctx, w.spec); err != nil {
		t.Fatal(err)
	}
	observed, err := w.Observe(ctx, w.spec.Link)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.spec.Shaping, observed.Shaping, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, h := range observed.Hosts {
		if h.Device != "eth0" || h.MTU != 1500 || h.BaseRTT <= 0 || strings.Join(h.OffloadsOff, " ") != "tso gso" {
			t.Errorf("%+v", h)
		}
	}
	// Only what goes to the other host is in the class, and SSH is not.
	for _, test := range []struct {
		name, send string
		caught     bool
	}{
		{"IPv4", "echo x > /dev/udp/198.18.7.2/9", true},
		{"IPv6", "echo x > /dev/udp/fd00:7::2/9", true},
		{"another address", "echo x > /dev/udp/198.18.7.3/9", false},
		{"SSH", "echo x > /dev/tcp/198.18.7.2/22", false},
		{"SSH over IPv6", "echo x > /dev/tcp/fd00:7::2/22", false},
		{"TCP", "echo x > /dev/tcp/198.18.7.2/23", true},
	} {
		was := w.caught("a")
		w.on("a", "bash", "-c", test.send+" || true")
		if got := w.caught("a") > was; got != test.caught {
			t.Errorf("%s: in the class: %v, want %v", test.name, got, test.caught)
		}
	}
	measured, err := w.Verify(ctx, w.spec.Link, w.spec.Profile, link.Verification{RTTTolerance: time.Second})
	if err != nil || measured.BaseRTT <= 0 {
		t.Errorf("%+v, %v", measured, err)
	}
	once := w.state("a")
	if err := w.Change(ctx, w.spec.Link, w.spec.Profile); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(once, w.state("a")); diff != "" {
		t.Errorf("the same again changed (-once +twice):\n%s", diff)
	}
	for range 2 {
		if err := w.Remove(ctx, w.spec.Link); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, [2]string{w.state("a"), w.state("b")}); diff != "" {
		t.Errorf("the link left something (-before +after):\n%s", diff)
	}
	// They could not be turned off again if they had not been turned on.
	if err := w.Create(ctx, w.spec); err != nil {
		t.Fatal(err)
	}
	observed, err = w.Observe(ctx, w.spec.Link)
	if err != nil || strings.Join(observed.Hosts[0].OffloadsOff, " ") != "tso gso" {
		t.Errorf("offloads were not turned on again: %+v, %v", observed.Hosts, err)
	}
	// Without anybody who knows of the link.
	for _, name := range []string{"a", "b"} {
		hosts, _ := w.Hosts.(namespaces)
		if got, want := w.on(name, hosts.program, "shape", "clear"), "removed link underlay/local://a/local://b\n"; got != want {
			t.Errorf("clear said %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff(before, [2]string{w.state("a"), w.state("b")}); diff != "" {
		t.Errorf("something was not cleared (-before +after):\n%s", diff)
	}
}

// caught is the number of bytes that a host's class has sent.
func (w wire) caught(name string) int {
	w.t.Helper()
	var bytes int
	text := w.on(name, "tc", "-s", "class", "show", "dev", "eth0")
	if _, after, ok := strings.Cut(text, "Sent "); ok {
		if _, err := fmt.Sscan(after, &bytes); err != nil {
			w.t.Fatal(err)
		}
	}
	return bytes
}

// TestKernelLinkRepair changes by hand what a link consists of.
func TestKernelLinkRepair(t *testing.T) {
	w := newWire(t)
	ctx := t.Context()
	for _, test := range []struct {
		name string
		argv []string
		gone bool // in that direction
	}{
		{"filter removed", []string{"tc", "filter", "del", "dev", "eth0", "parent", "7bed:", "pref", "10"}, true},
		{"class changed", []string{"tc", "class", "change", "dev", "eth0", "parent", "7bed:", "classid", "7bed:1", "htb", "rate", "1mbit"}, true},
		{"root removed", []string{"tc", "qdisc", "del", "dev", "eth0", "root"}, true},
		{"leaf replaced", []string{"tc", "qdisc", "replace", "dev", "eth0", "parent", "7bed:1", "handle", "5:", "bfifo", "limit", "1000"}, true},
		{"record removed", []string{"rm", "/run/testbed/links.json"}, true},
		{"foreign class added", []string{"tc", "class", "add", "dev", "eth0", "parent", "7bed:", "classid", "7bed:777", "htb", "rate", "1mbit"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := w.Apply(ctx, w.spec); err != nil {
				t.Fatal(err)
			}
			w.on("b", test.argv...)
			observed, err := w.Observe(ctx, w.spec.Link)
			if err != nil {
				t.Fatal(err)
			}
			if gone := len(observed.Hosts) == 1; gone != test.gone {
				t.Errorf("gone: %v, want %v", gone, test.gone)
			}
			if err := w.Apply(ctx, w.spec); err != nil {
				t.Fatal(err)
			}
			if observed, err = w.Observe(ctx, w.spec.Link); err != nil || len(observed.Hosts) != 2 {
				t.Errorf("after the repair: %+v, %v", observed, err)
			}
		})
	}
	// A device that was made again has nothing of the link.
	w.on("a", "ip", "link", "del", "eth0")
	if _, err := w.Observe(ctx, w.spec.Link); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the device: %v", err)
	}
	if err := w.Remove(ctx, w.spec.Link); err != nil {
		t.Errorf("without the device: %v", err)
	}
}

// TestKernelLinkForeign puts links on a device at whose root somebody else has
// something.
func TestKernelLinkForeign(t *testing.T) {
	for _, test := range []struct {
		name     string
		commands []string
		kept     bool // it can be put back
	}{
		{"tbf", []string{"qdisc add dev eth0 root handle 5: tbf rate 100mbit burst 32kb latency 50ms"}, true},
		{"htb", []string{
			"qdisc add dev eth0 root handle 5: htb default 10", "class add dev eth0 parent 5: classid 5:1 htb rate 50mbit",
			"class add dev eth0 parent 5:1 classid 5:10 htb rate 10mbit ceil 20mbit", "qdisc add dev eth0 parent 5:10 handle 6: pfifo limit 77",
		}, true},
		{"with filters", []string{
			"qdisc add dev eth0 root handle 5: htb default 10", "class add dev eth0 parent 5: classid 5:10 htb rate 10mbit",
			"filter add dev eth0 parent 5: protocol ip u32 match ip dst 198.18.7.9/32 flowid 5:10",
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t)
			ctx := t.Context()
			for _, command := range test.commands {
				w.on("a", append([]string{"tc"}, strings.Fields(command)...)...)
			}
			before := [2]string{w.state("a"), w.state("b")}
			err := w.Create(ctx, w.spec)
			if err == nil || !strings.Contains(err.Error(), "set replace_existing = true") {
				t.Errorf("made over a foreign root: %v", err)
			}
			if diff := cmp.Diff(before, [2]string{w.state("a"), w.state("b")}); diff != "" {
				t.Errorf("the failure changed something (-before +after):\n%s", diff)
			}
			w.spec.Shaping.ReplaceExisting = true
			err = w.Create(ctx, w.spec)
			if !test.kept {
				if err == nil || !strings.Contains(err.Error(), "could not be put back as it is") {
					t.Errorf("replaced what cannot be put back: %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else if observed, err := w.Observe(ctx, w.spec.Link); err != nil || observed.Hosts[0].Replaced == "" || observed.Hosts[1].Replaced != "" {
				t.Errorf("replaced %+v, %v", observed.Hosts, err)
			}
			if err := w.Remove(ctx, w.spec.Link); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, [2]string{w.state("a"), w.state("b")}); diff != "" {
				t.Errorf("the foreign root is another (-before +after):\n%s", diff)
			}
		})
	}
}

// TestKernelLinkIngress has one host shape both directions.
func TestKernelLinkIngress(t *testing.T) {
	w := newWire(t)
	ctx := t.Context()
	before := [2]string{w.state("a"), w.state("b")}
	w.spec.Shaping.On = w.spec.B
	if err := w.Create(ctx, w.spec); err != nil {
		t.Fatal(err)
	}
	observed, err := w.Observe(ctx, w.spec.Link)
	if err != nil || observed.Shaping.On != w.spec.B || len(observed.Hosts) != 1 || observed.Hosts[0].Ingress == nil {
		t.Errorf("%+v, %v", observed, err)
	}
	if diff := cmp.Diff(before[0], w.state("a")); diff != "" {
		t.Errorf("the other host was changed (-before +after):\n%s", diff)
	}
	if _, err := w.Verify(ctx, w.spec.Link, w.spec.Profile, link.Verification{RTTTolerance: time.Second}); err != nil {
		t.Error(err)
	}
	if ifb := w.on("b", "sh", "-c", "tc -s class show dev $(ip -brief link show type ifb | cut -d' ' -f1)"); !strings.Contains(ifb, "Sent ") || strings.Contains(ifb, "Sent 0 bytes") {
		t.Errorf("nothing went through the ifb device:\n%s", ifb)
	}
	// The other host shapes for itself from now on.
	w.spec.Shaping.On = ""
	if err := w.Apply(ctx, w.spec); err != nil {
		t.Fatal(err)
	}
	if observed, err := w.Observe(ctx, w.spec.Link); err != nil || observed.Shaping.On != "" || len(observed.Hosts) != 2 {
		t.Errorf("%+v, %v", observed, err)
	}
	if err := w.Remove(ctx, w.spec.Link); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, [2]string{w.state("a"), w.state("b")}); diff != "" {
		t.Errorf("the link left something (-before +after):\n%s", diff)
	}
}

// TestKernelLinkTakenBack makes changes that nobody keeps.
func TestKernelLinkTakenBack(t *testing.T) {
	w := newWire(t)
	before := w.state("a")
	part, err := json.Marshal(link.Part{Link: w.spec.String(), Place: link.Underlay, Peers: w.spec.Shaping.Addresses[1], Egress: &w.spec.Profile.Forward})
	if err != nil {
		t.Fatal(err)
	}
	hosts, _ := w.Hosts.(namespaces)
	start := func(patience string) (*exec.Cmd, io.WriteCloser) {
		command := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", hosts.pids["a"]), fmt.Sprintf("--mount=/proc/%d/ns/mnt", hosts.pids["a"]), hosts.program, "shape", "set", patience)
		input, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		output, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := input.Write(append(part, '\n')); err != nil {
			t.Fatal(err)
		}
		if _, err := output.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if w.state("a") == before {
			t.Fatal("nothing was changed")
		}
		return command, input
	}
	awaitBefore := func() {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); w.state("a") != before; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the change is still there (-before +after):\n%s", cmp.Diff(before, w.state("a")))
			}
		}
	}
	t.Run("silence", func(t *testing.T) {
		command, _ := start("1s")
		if err := command.Wait(); err == nil {
			t.Error("a change that nobody keeps succeeds")
		}
		awaitBefore()
	})
	t.Run("end of input", func(t *testing.T) {
		command, input := start("1h")
		input.Close()
		if err := command.Wait(); err == nil {
			t.Error("a change that nobody keeps succeeds")
		}
		awaitBefore()
	})
	t.Run("killed", func(t *testing.T) {
		command, _ := start("1h")
		_ = command.Process.Kill()
		_ = command.Wait()
		awaitBefore()
	})
	t.Run("killed in the middle", func(t *testing.T) {
		for i := range 8 {
			command := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", hosts.pids["a"]), fmt.Sprintf("--mount=/proc/%d/ns/mnt", hosts.pids["a"]), hosts.program, "shape", "set", "1h")
			command.Stdin = bytes.NewReader(append(part, '\n'))
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i) * 15 * time.Millisecond) // wherever it is then
			_ = command.Process.Kill()
			_ = command.Wait()
			awaitBefore()
		}
	})
	t.Run("kept", func(t *testing.T) {
		command, input := start("1h")
		if _, err := io.WriteString(input, link.Keep+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
		if w.state("a") == before {
			t.Error("a change that was kept is gone")
		}
	})
}

// TestKernelLinkLacks runs on whatever kernel this is.
func TestKernelLinkLacks(t *testing.T) {
	w := newWire(t)
	ctx := t.Context()
	before := w.state("a")
	if err := w.Lacks(ctx, w.spec); err != nil {
		t.Errorf("a link that does nothing: %v", err)
	}
	w.spec.Profile = parse(t, `{"delay":"1ms"}`)
	w.spec.Shaping.On = w.spec.A
	err := w.Lacks(ctx, w.spec)
	if hasNetem(w) {
		if err != nil {
			t.Errorf("with sch_netem: %v", err)
		}
	} else {
		var lacks *link.LackError
		if !errors.As(err, &lacks) || len(lacks.Lacks) != 1 || !strings.Contains(err.Error(), "on local://a, the kernel does not have the netem queueing discipline, sch_netem (Error: Specified qdisc kind is unknown.); to mend it: modprobe sch_netem") {
			t.Errorf("without sch_netem: %v", err)
		}
		if err := w.Create(ctx, w.spec); !errors.As(err, &lacks) {
			t.Errorf("making it without sch_netem: %v", err)
		}
	}
	w.spec.Profile.Forward.Jitter, w.spec.Profile.Forward.KeepOrder = 1, true
	if err := w.Lacks(ctx, w.spec); err == nil || !strings.Contains(err.Error(), "remove keep_order") {
		t.Errorf("keeping the order: %v", err)
	}
	if diff := cmp.Diff(before, w.state("a")); diff != "" {
		t.Errorf("looking changed something (-before +after):\n%s", diff)
	}
}

func hasNetem(w wire) bool {
	h, err := w.Hosts.Open(w.t.Context(), "local://a")
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = h.Run(w.t.Context(), host.Command{Argv: []string{"unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"}})
	return err == nil
}

// TestKernelLinkErrors names what is wrong with a link.
func TestKernelLinkErrors(t *testing.T) {
	w := newWire(t)
	ctx := context.Background()
	if err := w.Create(ctx, w.spec); err != nil {
		t.Fatal(err)
	}
	again := w.spec
	again.Place = link.Overlay
	for _, test := range []struct {
		name string
		spec func(*link.Spec)
		text string
	}{
		{"no answer", func(s *link.Spec) { s.Shaping.Addresses[1] = []netip.Addr{netip.MustParseAddr("198.18.7.77")} }, "does not answer echo requests of local://a at 198.18.7.77"},
		{"own address", func(s *link.Spec) { s.Shaping.Addresses[1] = s.Shaping.Addresses[0] }, "is an address of this host itself"},
		{"no overlay", func(*link.Spec) {}, "no overlay's"},
		{"no route", func(s *link.Spec) { s.Shaping.Addresses[1] = []netip.Addr{netip.MustParseAddr("198.19.0.1")} }, "find the route to 198.19.0.1"},
		{"no address", func(s *link.Spec) { s.Shaping.Addresses[1] = nil }, "no address of local://b is known"},
		{"no host", func(s *link.Spec) { s.B = "local://c" }, "open local://c"},
		{"twice", func(s *link.Spec) {
			s.A, s.B = s.B, s.A
			s.Place = link.Underlay
			a := s.Shaping.Addresses
			s.Shaping.Addresses = [2][]netip.Addr{a[1], a[0]}
		}, "are shaped on device eth0 already, by link underlay/local://a/local://b"},
	} {
		spec := again
		test.spec(&spec)
		if err := w.Create(ctx, spec); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if observed, err := w.Observe(ctx, w.spec.Link); err != nil || len(observed.Hosts) != 2 {
		t.Errorf("the failures changed the link: %+v, %v", observed, err)
	}
}

func TestParse(t *testing.T) {
	for id, want := range map[string]link.Link{
		"wan/edge/cloud": {Network: "wan", A: "edge", B: "cloud"},
		"underlay/ssh://pi@192.0.2.1:2222/local://x": {Place: link.Underlay, A: "ssh://pi@192.0.2.1:2222", B: "local://x"},
		"overlay/ssh://[2001:db8::1]/ssh://b":        {Place: link.Overlay, A: "ssh://[2001:db8::1]", B: "ssh://b"},
	} {
		got, err := link.Parse(id)
		if err != nil || got != want || got.String() != id {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	for _, id := range []string{"", "wan/edge", "wan//cloud", "a/b/c/d", "lan/ssh://a/ssh://b", "underlay/ssh://a"} {
		if _, err := link.Parse(id); err == nil {
			t.Errorf("%q was read", id)
		}
	}
}

// TestKernelLinkOverlay tells an overlay's device from a network card.
func TestKernelLinkOverlay(t *testing.T) {
	w := newWire(t)
	w.on("a", "ip", "tuntap", "add", "dev", "nebula1", "mode", "tun")
	w.on("a", "ip", "address", "add", "198.18.8.1/24", "dev", "nebula1")
	w.on("a", "ip", "link", "set", "nebula1", "up")
	hosts, _ := w.Hosts.(namespaces)
	set := func(place link.Place, peer string) string {
		t.Helper()
		part, err := json.Marshal(link.Part{Link: "x", Place: place, Peers: []netip.Addr{netip.MustParseAddr(peer)}, Egress: &w.spec.Profile.Forward, SSHPorts: []uint16{22}})
		if err != nil {
			t.Fatal(err)
		}
		return w.on("a", "sh", "-c", fmt.Sprintf("(echo '%s'; echo %s) | %s shape set 1m 2>&1 || true", part, link.Keep, hosts.program))
	}
	if got := set(link.Underlay, "198.18.8.2"); !strings.Contains(got, `leave by device nebula1, which is an overlay's`) {
		t.Errorf("an overlay's address on the underlay: %s", got)
	}
	if got := set(link.Overlay, "198.18.7.2"); !strings.Contains(got, `leave by device eth0, which is no overlay's`) {
		t.Errorf("a card's address on the overlay: %s", got)
	}
	if got := set(link.Overlay, "198.18.8.2"); !strings.Contains(got, `"device":"nebula1"`) {
		t.Errorf("an overlay's address on the overlay: %s", got)
	}
	if got := w.on("a", "tc", "qdisc", "show", "dev", "nebula1"); !strings.Contains(got, "htb 7bed:") {
		t.Errorf("the overlay's device has %s", got)
	}
}
