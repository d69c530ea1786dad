package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link/linktest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// namespaces are hosts that are nothing but a network namespace, which is all
// that a link needs of them.
type namespaces struct {
	program string
	pids    map[string]int
}

func (n namespaces) Open(_ context.Context, url string) (host.Host, error) {
	pid, ok := n.pids[strings.TrimPrefix(url, "local://")]
	if !ok {
		return nil, fmt.Errorf("open %s: %w", url, host.ErrNotExist)
	}
	return namespace{url: url, program: n.program, pid: pid}, nil
}

type namespace struct {
	host.Host
	url     string
	program string
	pid     int
}

func (n namespace) URL() string { return n.url }

func (n namespace) Agent(context.Context) (string, error) { return n.program, nil }

func (n namespace) Run(ctx context.Context, c host.Command) (host.Output, error) {
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", n.pid), fmt.Sprintf("--mount=/proc/%d/ns/mnt", n.pid)}, c.Argv...)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if c.Stdout != nil {
		command.Stdout = c.Stdout
	}
	if c.Stdin != nil {
		input, err := command.StdinPipe()
		if err != nil {
			return host.Output{}, err
		}
		go func() { // not awaited: the input may have no end before the program has
			_, _ = io.Copy(input, c.Stdin)
			input.Close()
		}()
	}
	if err := command.Run(); err != nil {
		return host.Output{}, fmt.Errorf("%s: %w: %s", host.Quote(c.Argv), err, stderr.String())
	}
	return host.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}, nil
}

var wan = link.Link{Network: "wan", A: "edge", B: "cloud"}

// newTestbed starts a network with the hosts of wan.
func newTestbed(t *testing.T) link.Links {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network needs root")
	}
	data := datadir.Dir(t.TempDir())
	program, err := agent.Install(data)
	if err != nil {
		t.Skipf("a network needs the agent: %v", err)
	}
	spec := underlay.Spec{Name: wan.Network, CIDR: netip.MustParsePrefix("198.18.9.0/24"), MTU: 1500}
	if err := underlay.Apply(t.Context(), data, program, spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := underlay.Remove(context.Background(), data, spec.Name); err != nil {
			t.Error(err)
		}
	})
	client, err := underlay.Open(data, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	hosts := namespaces{program: program, pids: map[string]int{}}
	for i, name := range []string{wan.A, wan.B} {
		process := exec.Command("cat") // it ends with the test, which holds its input
		process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if _, err := process.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait()
		})
		hosts.pids[name] = process.Process.Pid
		err := client.Attach(t.Context(), underlay.Port{
			Host:      name,
			Namespace: fmt.Sprintf("/proc/%d/ns/net", process.Process.Pid),
			Device:    "eth0",
			Address:   netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 9, byte(i + 1)}), 24),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return link.Links{Data: data, Hosts: hosts}
}

func parse(t *testing.T, text string) netem.Profile {
	t.Helper()
	profile, err := netem.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// TestConformance runs the suite of all links on a network. The same runs on
// kernels in virtual machines.
func TestConformance(t *testing.T) {
	linktest.Run(t, newTestbed(t), link.Spec{Link: wan})
}

func TestLink(t *testing.T) {
	links := newTestbed(t)
	ctx := t.Context()
	if _, err := links.Observe(ctx, wan); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is applied: %v", err)
	}
	for _, test := range []struct {
		name, profile string
		verification  link.Verification
	}{
		{"nothing", `{}`, link.Verification{}},
		{"edge", `{"rtt":"10ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":0.08}}}`, link.Verification{Packets: 200, Interval: 5 * time.Millisecond}},
		{"lossy one way", `{"delay":"2ms","forward":{"loss":{"gemodel":{"p":5,"r":30}}}}`, link.Verification{Packets: 500, Interval: time.Millisecond}},
		{"rate", `{"delay":"1ms","rate":"50mbit","reverse":{"rate":"5mbit"}}`, link.Verification{Rate: true}},
		{"duplicates and corruption", `{"delay":"1ms","duplicate":10,"corrupt":5}`, link.Verification{Packets: 500, Interval: time.Millisecond}},
	} {
		t.Run(test.name, func(t *testing.T) {
			profile := parse(t, test.profile)
			if err := links.Apply(ctx, link.Spec{Link: wan, Profile: profile}); err != nil {
				t.Fatal(err)
			}
			observed, err := links.Observe(ctx, wan)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := observed.Profile.JSON(), profile.JSON(); got != want {
				t.Errorf("observed %s, want %s", got, want)
			}
			measured, err := links.Verify(ctx, wan, profile, test.verification)
			if err != nil {
				t.Error(err)
			}
			t.Logf("%+v", measured)
		})
	}
	t.Run("miss", func(t *testing.T) {
		if err := links.Apply(ctx, link.Spec{Link: wan, Profile: parse(t, `{"rtt":"20ms"}`)}); err != nil {
			t.Fatal(err)
		}
		wanted := parse(t, `{"rtt":"10ms","loss":{"random":{"percent":50}}}`)
		measured, err := links.Verify(ctx, wan, wanted, link.Verification{Packets: 50})
		var miss *link.MissError
		if !errors.As(err, &miss) || len(miss.Misses) != 3 {
			t.Errorf("got %v, want the RTT and both losses to miss", err)
		}
		if measured.RTTMedian < 19*time.Millisecond {
			t.Errorf("measured %v beside the miss, want about 20 ms", measured.RTTMedian)
		}
	})
	for range 2 {
		if err := links.Remove(ctx, wan); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := links.Observe(ctx, wan); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it is removed: %v", err)
	}
	stranger := link.Link{Network: "wan", A: "edge", B: "moon"}
	if err := links.Apply(ctx, link.Spec{Link: stranger}); err == nil || !strings.Contains(err.Error(), `"moon" is not attached`) {
		t.Errorf("a link to a host that is not there: %v", err)
	}
}
