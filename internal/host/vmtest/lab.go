package vmtest

import (
	"context"
	"os"
	"testing"
	"time"
)

// Lab returns the first count machines of the lab that runs, as they were
// after their first boot. It skips the test when none runs: "make testvm" is
// what starts one. Tests that use it are not parallel, and packages are tested
// one after the other.
func Lab(t *testing.T, count int) []*Machine {
	t.Helper()
	dir := os.Getenv(Variable)
	if dir == "" {
		t.Skip("no VM lab runs; \"make testvm\" starts one")
	}
	machines, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(machines) < count {
		t.Skipf("the VM lab has %d machines, and this test needs %d", len(machines), count)
	}
	for _, m := range machines[:count] {
		if err := m.restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				m.explain(t)
			}
		})
	}
	return machines[:count]
}

// explain logs what the machine says of a test that failed.
func (m *Machine) explain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute) // the test's own has ended
	defer cancel()
	output, err := m.Shell(ctx, "systemctl --failed; journalctl --no-pager --lines 40; ip address; tc qdisc show")
	if err != nil {
		console, _ := os.ReadFile(m.ConsoleFile())
		t.Logf("%v; the end of its console:\n%s", err, console[max(0, len(console)-4096):])
		return
	}
	t.Logf("%s:\n%s", m.Name, output)
}
