package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/cleanup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// TestMain lets the test program play a provider that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_CREATE_IN"); dir != "" {
		fmt.Println("go")
		if _, err := local.NewOpener(dir).Create(context.Background(), local.Spec{Name: "edge"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestCreateTwice(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	before := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	newHost(t, opener, "edge")
	if _, err := opener.Create(t.Context(), local.Spec{Name: "edge"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create again: %v", err)
	}
	if err := opener.Remove(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
	if _, err := opener.Open(t.Context(), "local://edge"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open removed host: %v", err)
	}
	if err := opener.Remove(t.Context(), "edge"); err != nil {
		t.Errorf("remove again: %v", err)
	}
	before.CompareAfter(t)
}

// TestKilledCreator kills the process that makes a host after different times.
// Making the host again always succeeds, and removing it leaves nothing,
// whether it was made again or not.
func TestKilledCreator(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	empty := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	newHost(t, opener, "other") // it is not disturbed, and keeps the agent installed
	before := hosttest.Snapshot(t, dir)

	var whole, half int
	for delay := time.Duration(0); delay < 150*time.Millisecond; delay += 5 * time.Millisecond {
		killedCreator(t, dir, delay)
		_, err := opener.Create(t.Context(), local.Spec{Name: "edge"})
		switch {
		case errors.Is(err, fs.ErrExist):
			whole++
		case err != nil:
			t.Fatalf("create after a kill at %v: %v", delay, err)
		default:
			half++
		}
		h, err := opener.Open(t.Context(), "local://edge")
		if err != nil {
			t.Fatalf("open after a kill at %v: %v", delay, err)
		}
		if name := shell(t, h, "hostname"); name != "edge" {
			t.Errorf("host name after a kill at %v: %s", delay, name)
		}
		if err := opener.Remove(t.Context(), "edge"); err != nil {
			t.Fatal(err)
		}
		before.CompareAfter(t)

		killedCreator(t, dir, delay)
		if err := opener.Remove(t.Context(), "edge"); err != nil {
			t.Fatalf("remove after a kill at %v: %v", delay, err)
		}
		before.CompareAfter(t)
	}
	t.Logf("%d creators were killed before the host was whole, %d after", half, whole)
	if half == 0 {
		t.Error("no creator was killed in time")
	}
	killedCreator(t, dir, 40*time.Millisecond)
	if err := cleanup.Remove(t.Context(), datadir.Dir(dir), new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	empty.CompareAfter(t)
}

// killedCreator begins to make the host "edge" in a process that is killed
// after a while.
func killedCreator(t *testing.T, dir string, delay time.Duration) {
	t.Helper()
	creator := exec.Command("/proc/self/exe")
	creator.Env = append(os.Environ(), "TEST_CREATE_IN="+dir)
	output, err := creator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := creator.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(delay) // the point at which it is killed
	_ = creator.Process.Kill()
	_ = creator.Wait()
}

func TestKilledInit(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	before := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	h := newHost(t, opener, "edge")
	// Everything of the host ends with its init.
	if _, err := h.Run(t.Context(), command("sh", "-c", "setsid sleep 6161 & kill -TERM 1; sleep 6161")); err == nil {
		t.Error("a command outlived its host")
	}
	waitFor(t, "the end of the host", func() bool {
		_, err := opener.Observe(t.Context(), "edge")
		return errors.Is(err, fs.ErrNotExist)
	})
	if _, err := h.Read(t.Context(), "/etc/hostname"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read from an ended host: %v", err)
	}
	newHost(t, opener, "edge")
	if err := opener.Remove(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
	before.CompareAfter(t)
}

// TestCleanup removes a testbed whose files somebody has removed already.
func TestCleanup(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	before := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	newHost(t, opener, "edge")
	newHost(t, opener, "cloud")
	if err := os.RemoveAll(filepath.Join(dir, "hosts", "cloud")); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(filepath.Join(dir, "agent", "*", "testbed-agent"))
	if err != nil || len(programs) != 1 {
		t.Fatalf("installed agents: %v, %v", programs, err)
	}
	report, err := exec.Command(programs[0], "cleanup", dir).CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"removed host edge\n", "removed cgroup testbed/"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("%q is not in the report:\n%s", want, report)
		}
	}
	before.CompareAfter(t)
	var again bytes.Buffer
	if err := cleanup.Remove(t.Context(), datadir.Dir(dir), &again); err != nil || !strings.HasPrefix(again.String(), "there is nothing") {
		t.Errorf("clean up again: %v, %s", err, again.String())
	}
}

// TestParallel makes and removes hosts at the same time, as Terraform does.
func TestParallel(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	before := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	var hosts sync.WaitGroup
	for i := range 6 {
		hosts.Go(func() {
			name := fmt.Sprintf("host%d", i)
			for range 3 {
				if _, err := opener.Create(t.Context(), local.Spec{Name: name}); err != nil {
					t.Error(err)
				}
				if err := opener.Remove(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	hosts.Wait()
	before.CompareAfter(t)
}

func TestRemoveWithoutFolder(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	before := hosttest.Snapshot(t, dir)
	opener := local.NewOpener(dir)
	newHost(t, opener, "edge")
	if err := os.RemoveAll(filepath.Join(dir, "hosts", "edge")); err != nil {
		t.Fatal(err)
	}
	if err := opener.Remove(t.Context(), "edge"); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	before.CompareAfter(t)
}

// BenchmarkLife makes and removes a host.
func BenchmarkLife(b *testing.B) {
	if err := local.Check(); err != nil {
		b.Skip(err)
	}
	opener := local.NewOpener(b.TempDir())
	keep := "keep" // so that the agent stays installed
	if _, err := opener.Apply(b.Context(), local.Spec{Name: keep}); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := opener.Remove(context.Background(), keep); err != nil {
			b.Error(err)
		}
	}()
	var making, removing time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := opener.Create(b.Context(), local.Spec{Name: "edge"}); err != nil {
			b.Fatal(err)
		}
		made := time.Now()
		if err := opener.Remove(b.Context(), "edge"); err != nil {
			b.Fatal(err)
		}
		making += made.Sub(start)
		removing += time.Since(made)
	}
	b.ReportMetric(float64(making.Milliseconds())/float64(b.N), "create-ms")
	b.ReportMetric(float64(removing.Milliseconds())/float64(b.N), "remove-ms")
	if binary, err := agent.For("amd64"); err == nil {
		b.ReportMetric(float64(len(binary.Content))/(1<<20), "agent-MiB")
	}
}

// BenchmarkRun runs the shortest command.
func BenchmarkRun(b *testing.B) {
	if err := local.Check(); err != nil {
		b.Skip(err)
	}
	opener := local.NewOpener(b.TempDir())
	if _, err := opener.Apply(b.Context(), local.Spec{Name: "edge"}); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := opener.Remove(context.Background(), "edge"); err != nil {
			b.Error(err)
		}
	}()
	h, err := opener.Open(b.Context(), "local://edge")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := h.Run(b.Context(), command("true")); err != nil {
			b.Fatal(err)
		}
	}
}
