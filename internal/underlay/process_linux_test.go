package underlay_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

var spec = underlay.Spec{Name: "lab", CIDR: netip.MustParsePrefix("198.18.8.0/24"), MTU: 1500}

// newData returns a testbed's folder, after checking that the machine can run
// a daemon from it, and the agent's path.
func newData(t *testing.T) (data datadir.Dir, program string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a daemon needs root")
	}
	data = datadir.Dir(t.TempDir())
	program, err := agent.Install(data)
	if err != nil {
		t.Skipf("a daemon needs the agent: %v", err)
	}
	t.Cleanup(func() {
		if err := underlay.Remove(context.Background(), data, spec.Name); err != nil {
			t.Error(err)
		}
	})
	return data, program
}

// newHost starts a process with a network namespace of its own.
func newHost(t *testing.T) (namespace string) {
	t.Helper()
	host := exec.Command("cat") // it ends with the test, which holds its input
	host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if _, err := host.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/net", host.Process.Pid)
}

func TestNetworkLifecycle(t *testing.T) {
	ctx := t.Context()
	data, program := newData(t)
	if _, err := underlay.Observe(ctx, data, spec.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before it is applied: %v", err)
	}
	if err := underlay.Apply(ctx, data, program, spec); err != nil {
		t.Fatal(err)
	}
	first, err := underlay.Observe(ctx, data, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := underlay.Open(data, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	port := underlay.Port{Host: "edge", Namespace: newHost(t), Device: "eth0", Address: netip.MustParsePrefix("198.18.8.1/24")}
	if err := client.Attach(ctx, port); err != nil {
		t.Fatal(err)
	}
	direction := netem.Direction{Delay: netem.Duration(1e6)}
	if err := client.SetLink(ctx, "edge", "cloud", &direction); err != nil {
		t.Fatal(err)
	}

	changed := spec
	changed.Seed, changed.MTU = 7, 9000
	if err := underlay.Apply(ctx, data, program, changed); err != nil {
		t.Fatal(err)
	}
	want := underlay.Status{Spec: changed, PID: first.PID, Ports: []underlay.Port{port}, Links: []underlay.Link{{From: "edge", To: "cloud", Direction: direction}}}
	compare := func(when string) {
		t.Helper()
		got, err := underlay.Observe(ctx, data, spec.Name)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		prefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if diff := cmp.Diff(want, got, prefix, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	compare("after a change of the seed and the packet size")

	moved := spec
	moved.CIDR = netip.MustParsePrefix("198.18.9.0/24")
	if err := underlay.Apply(ctx, data, program, moved); err == nil {
		t.Error("the range of a running network changed")
	}

	// A killed daemon leaves nothing running; the next one takes over.
	id, err := process.Of(first.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Ports(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a daemon: %v", err)
	}
	if err := underlay.Apply(ctx, data, program, changed); err != nil {
		t.Fatal(err)
	}
	second, err := underlay.Observe(ctx, data, spec.Name)
	if err != nil {
		t.Fatal(err)
	}
	if want.PID = second.PID; second.PID == first.PID {
		t.Error("the killed daemon still answers")
	}
	compare("after the daemon was killed")

	if err := underlay.Remove(ctx, data, spec.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Of(second.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the daemon outlives its network: %v", err)
	}
	if err := underlay.Remove(ctx, data, spec.Name); err != nil {
		t.Errorf("remove again: %v", err)
	}
}
