package vmtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// RunTests runs tests of the package in this folder on the machine itself, as
// root and with variables in their environment ("KEY=value"). They fail or pass
// with the test that they are run for.
func (m *Machine) RunTests(t *testing.T, pattern string, environment ...string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tests")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the machine's libraries are others
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the tests: %v\n%s", err, output)
	}
	if err := m.Upload(t.Context(), program, "/root/tests/tests", 0o755); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, variable := range environment {
		fmt.Fprintf(&b, "export '%s'\n", variable)
	}
	fmt.Fprintf(&b, "cd /root/tests && ./tests -test.v -test.timeout 30m -test.run '%s' 2>&1\n", pattern)
	output, err := m.Shell(t.Context(), b.String())
	t.Logf("on %s:\n%s", m.Name, output)
	if err != nil {
		t.Error("tests on the machine failed")
	}
	if strings.Contains(output, "no tests to run") || strings.Contains(output, "--- SKIP") {
		t.Error("tests on the machine were not run")
	}
}
