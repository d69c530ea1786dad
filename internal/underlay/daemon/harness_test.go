package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// lab is a network whose hosts are network namespaces of the test's own.
type lab struct {
	tb     testing.TB
	data   datadir.Dir
	dir    string
	client *underlay.Client
	hosts  map[string]*exec.Cmd
	end    func()
}

var testSpec = underlay.Spec{Name: "lab", CIDR: netip.MustParsePrefix("198.18.7.0/24"), MTU: 1500, Seed: 1}

// newLab runs a daemon inside the test and attaches hosts a, b ... at the
// addresses .1, .2 ...
func newLab(tb testing.TB, spec underlay.Spec, hosts ...string) *lab {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("network namespaces need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		tb.Skip("TUN devices need /dev/net/tun: " + err.Error())
	}
	data := datadir.Dir(tb.TempDir())
	unlock, err := data.Make(tb.Context(), data.Network(spec.Name))
	if err != nil {
		tb.Fatal(err)
	}
	unlock()
	l := &lab{tb: tb, data: data, dir: data.Network(spec.Name), hosts: map[string]*exec.Cmd{}}
	if err := underlay.WriteState(l.dir, underlay.State{Spec: spec}); err != nil {
		tb.Fatal(err)
	}
	if l.client, err = underlay.Open(data, spec.Name); err != nil {
		tb.Fatal(err)
	}
	l.start()
	tb.Cleanup(func() { l.end() })
	address := spec.CIDR.Addr()
	for _, host := range hosts {
		l.addHost(host)
		address = address.Next()
		l.attach(host, address)
	}
	return l
}

// start runs the daemon until end is called.
func (l *lab) start() {
	l.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(ctx, l.dir, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		l.tb.Fatal(err)
	}
	l.end = func() {
		cancel()
		if err := <-ended; err != nil {
			l.tb.Error(err)
		}
		ended <- nil
	}
}

// addHost starts the process that a host's network namespace lives by.
func (l *lab) addHost(name string) {
	l.tb.Helper()
	process := exec.Command("cat") // it ends with the test, which holds its input
	process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if _, err := process.StdinPipe(); err != nil {
		l.tb.Fatal(err)
	}
	if err := process.Start(); err != nil {
		l.tb.Fatal(err)
	}
	l.hosts[name] = process
	l.tb.Cleanup(func() { l.kill(name) })
	l.run(name, "ip", "link", "set", "lo", "up")
}

// close ends everything before the test does.
func (l *lab) close() {
	l.end()
	for name := range l.hosts {
		l.kill(name)
	}
}

func (l *lab) kill(name string) {
	_ = l.hosts[name].Process.Kill()
	_ = l.hosts[name].Wait()
}

func (l *lab) port(name string, address netip.Addr) underlay.Port {
	bits := 24
	if address.Is6() {
		bits = 64
	}
	return underlay.Port{Host: name, Namespace: l.namespace(name), Device: "eth0", Address: netip.PrefixFrom(address, bits)}
}

func (l *lab) namespace(name string) string {
	return fmt.Sprintf("/proc/%d/ns/net", l.hosts[name].Process.Pid)
}

func (l *lab) attach(name string, address netip.Addr) {
	l.tb.Helper()
	if err := l.client.Attach(l.tb.Context(), l.port(name, address)); err != nil {
		l.tb.Fatal(err)
	}
}

// link sets both directions between two hosts.
func (l *lab) link(a, b, profile string) {
	l.tb.Helper()
	p, err := netem.Parse([]byte(profile))
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, err := range []error{l.client.SetLink(l.tb.Context(), a, b, &p.Forward), l.client.SetLink(l.tb.Context(), b, a, &p.Reverse)} {
		if err != nil {
			l.tb.Fatal(err)
		}
	}
}

// command is a program that runs on a host.
func (l *lab) command(host string, argv ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=" + l.namespace(host)}, argv...)...)
}

func (l *lab) try(host string, argv ...string) (string, error) {
	command := l.command(host, argv...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	return output.String(), err
}

func (l *lab) run(host string, argv ...string) string {
	l.tb.Helper()
	output, err := l.try(host, argv...)
	if err != nil {
		l.tb.Fatalf("on %s: %s: %v\n%s", host, strings.Join(argv, " "), err, output)
	}
	return output
}

// counters returns those of one ordered pair.
func (l *lab) counters(from, to string) underlay.Counters {
	l.tb.Helper()
	all, err := l.client.Counters(l.tb.Context())
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, c := range all {
		if c.From == from && c.To == to {
			return c
		}
	}
	l.tb.Fatalf("no counters from %s to %s in %v", from, to, all)
	return underlay.Counters{}
}

var roundTrip = regexp.MustCompile(`time=([0-9.]+) ms`)

// ping returns the round-trip times of echo requests, in order of arrival.
func (l *lab) ping(from, to string, count int, interval time.Duration, args ...string) []time.Duration {
	l.tb.Helper()
	argv := append([]string{"ping", "-n", "-c", strconv.Itoa(count), "-i", fmt.Sprint(interval.Seconds()), "-W", "2"}, args...)
	output, _ := l.try(from, append(argv, to)...) // fails when none comes back
	var times []time.Duration
	for _, match := range roundTrip.FindAllStringSubmatch(output, -1) {
		ms, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			l.tb.Fatal(err)
		}
		times = append(times, time.Duration(ms*float64(time.Millisecond)))
	}
	return times
}

// iperf runs one iperf3 test and returns the received bits per second.
func (l *lab) iperf(client, server, address string, args ...string) float64 {
	l.tb.Helper()
	listen := l.command(server, "iperf3", "--server", "--one-off", "--forceflush")
	out, err := listen.StdoutPipe()
	if err != nil {
		l.tb.Fatal(err)
	}
	if err := listen.Start(); err != nil {
		l.tb.Fatal(err)
	}
	defer func() {
		_ = listen.Process.Kill() // it ends after one client
		_ = listen.Wait()
	}()
	banner := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, "listening"); {
		n, err := out.Read(banner)
		if err != nil {
			l.tb.Fatalf("iperf3 server: %v after %q", err, seen)
		}
		seen += string(banner[:n])
	}
	go func() { _, _ = bytes.NewBuffer(nil).ReadFrom(out) }()
	text, err := l.command(client, append([]string{"iperf3", "--client", address, "--json"}, args...)...).Output()
	if err != nil {
		l.tb.Fatalf("iperf3: %v: %s", err, text)
	}
	var result struct {
		End struct {
			SumReceived struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Sum struct {
				BitsPerSecond float64 `json:"bits_per_second"`
				LostPercent   float64 `json:"lost_percent"`
			} `json:"sum"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		l.tb.Fatal(err)
	}
	if result.End.SumReceived.BitsPerSecond == 0 {
		return result.End.Sum.BitsPerSecond * (1 - result.End.Sum.LostPercent/100)
	}
	return result.End.SumReceived.BitsPerSecond
}
