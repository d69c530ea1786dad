package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test program play the daemon.
func TestMain(m *testing.M) {
	switch os.Getenv("TEST_DAEMON") {
	case "":
		os.Exit(m.Run())
	case "ready":
		if err := Await(); err != nil {
			os.Exit(1)
		}
		Report(nil)
		// A program that waits for nothing at all is ended by the Go runtime.
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, unix.SIGTERM)
		<-stop
	case "broken":
		if err := Await(); err != nil {
			os.Exit(1)
		}
		Report(errors.New("no tea"))
	case "starter":
		// It dies before it has recorded the daemon.
		_, _ = daemon("ready", os.Getenv("TEST_LOG")).Start(context.Background(), func(id ID) error {
			fmt.Println(id.PID)
			os.Exit(0)
			return nil
		})
	}
}

func daemon(role, log string) Daemon {
	return Daemon{Argv: []string{"/proc/self/exe"}, Env: []string{"TEST_DAEMON=" + role}, Log: log}
}

func TestDaemon(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var recorded ID
	id, err := daemon("ready", log).Start(t.Context(), func(id ID) error { recorded = id; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if id != recorded || !id.Alive() {
		said, _ := os.ReadFile(log)
		t.Errorf("started %v, recorded %v, alive: %v, log: %s", id, recorded, id.Alive(), said)
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", id.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		if target != os.DevNull && target != log && !strings.HasPrefix(target, "/sys/fs/cgroup/") /* the Go runtime reads its limit there */ && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "pipe:") {
			t.Errorf("the daemon holds %s open", target)
		}
	}
	other := id
	other.Start++
	if err := other.Kill(t.Context()); err != nil || !id.Alive() {
		t.Errorf("killing an earlier process of the same number: %v, alive: %v", err, id.Alive())
	}
	if err := id.Kill(t.Context()); err != nil || id.Alive() {
		t.Errorf("kill: %v, alive: %v", err, id.Alive())
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", id.PID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the process was not reaped: %v", err)
	}
	if err := id.Kill(t.Context()); err != nil {
		t.Errorf("kill again: %v", err)
	}
}

func TestDaemonFails(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if _, err := daemon("broken", log).Start(t.Context(), func(ID) error { return nil }); err == nil || err.Error() != "no tea" {
		t.Errorf("got error %v, want the daemon's", err)
	}
	if _, err := daemon("ready", log).Start(t.Context(), func(ID) error { return errors.New("disk full") }); err == nil || err.Error() != "disk full" {
		t.Errorf("got error %v, want the recorder's", err)
	}
}

func TestDaemonOfDeadStarterEnds(t *testing.T) {
	starter := exec.Command("/proc/self/exe")
	starter.Env = []string{"TEST_DAEMON=starter", "TEST_LOG=" + filepath.Join(t.TempDir(), "log")}
	output, err := starter.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(output), &pid); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := Of(pid); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on unrecorded", pid)
		}
	}
}
