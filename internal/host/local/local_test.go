package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// newHost makes a host that goes with the test.
func newHost(t *testing.T, opener *local.Opener, name string) host.Host {
	t.Helper()
	if _, err := opener.Apply(t.Context(), local.Spec{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opener.Remove(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	h, err := opener.Open(t.Context(), local.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func needRoot(t *testing.T) {
	t.Helper()
	if err := local.Check(); err != nil {
		t.Skip(err)
	}
}

// shell runs a script and returns what it prints.
func shell(t *testing.T, h host.Host, script string) string {
	t.Helper()
	output, err := h.Run(t.Context(), host.Command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output.Stdout))
}

// TestHidesTheTestbed looks from a host for the testbed's keys, wherever on the
// machine's file system its folder is, and whichever way leads there.
func TestHidesTheTestbed(t *testing.T) {
	needRoot(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	base, err := os.MkdirTemp(home, ".testbed-test-") //nolint:usetesting // hosts have a /tmp of their own anyway
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	folder, link := filepath.Join(base, "folder"), filepath.Join(base, "link")
	key := filepath.Join(folder, "keys", "lab.key")
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for i, dir := range []string{folder, link} {
		h := newHost(t, local.NewOpener(dir), fmt.Sprintf("edge%d", i))
		if got := shell(t, h, "ls -A "+base); got != "folder\nlink" {
			t.Errorf("the host sees another machine: %q", got)
		}
		for _, path := range []string{folder, link + "/"} {
			if got := shell(t, h, "ls -A "+path); got != "" {
				t.Errorf("a host of %s sees %s: %s", dir, path, got)
			}
		}
		if got := shell(t, h, "find "+base+" -name lab.key || true"); got != "" {
			t.Errorf("a host of %s finds %s", dir, got)
		}
	}
}

func TestIsMachineOfItsOwn(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	h := newHost(t, local.NewOpener(dir), "edge")
	for script, want := range map[string]string{
		"hostname":                                           "edge",
		"cat /etc/hostname":                                  "edge",
		"ls /sys/class/net":                                  "lo",
		"cat /sys/class/net/lo/operstate":                    "unknown",
		"ls /var/lib /tmp":                                   "/tmp:\n\n/var/lib:",
		"readlink /proc/1/exe | xargs basename":              "testbed-agent",
		"ls -A " + dir + " 2>&1 | grep -v 'No such' || true": "",
		"cat /proc/1/cgroup | grep -v '/init$' || true":      "",
		"sysctl -n -w net.ipv4.ip_forward=1":                 "1",
		"sysctl -n -w kernel.panic=7":                        "7",
		"echo $container$HOME":                               "testbed/root",
		"findmnt -n -o PROPAGATION /":                        "shared",
		"touch /dev/shm/x && test -c /dev/null && test -c /dev/net/tun && echo ok": "ok",
	} {
		if got := shell(t, h, script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	panicked, err := os.ReadFile("/proc/sys/kernel/panic")
	if err != nil || strings.TrimSpace(string(panicked)) == "7" {
		t.Errorf("kernel.panic of the machine is %s, %v", panicked, err)
	}
	facts, err := h.Facts(t.Context())
	if err != nil || facts.Hostname != "edge" || facts.CPUs < 1 || facts.Memory < 1<<20 || facts.Kernel == "" || facts.OS == "" {
		t.Errorf("facts: %+v, %v", facts, err)
	}
}

// TestHidesTestbed puts the testbed where the host would see it, under a name
// that would upset mount options.
func TestHidesTestbed(t *testing.T) {
	needRoot(t)
	t.Setenv("TMPDIR", "/var/tmp")
	dir := filepath.Join(t.TempDir(), "test,bed:a b")
	h := newHost(t, local.NewOpener(dir), "edge")
	if content := shell(t, h, "ls -A '"+dir+"'"); content != "" {
		t.Errorf("the host sees of the testbed: %s", content)
	}
	agent, err := h.Agent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), command("test", "-x", agent)); err != nil {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	needRoot(t)
	h := newHost(t, local.NewOpener(t.TempDir()), "edge")
	ctx := t.Context()

	_, err := h.Run(ctx, host.Command{Argv: []string{"sh", "-c", "echo out; echo broken >&2; exit 7"}})
	var exit *host.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || exit.Stderr != "broken\n" {
		t.Errorf("exit code: got %v", err)
	}
	_, err = h.Run(ctx, host.Command{Argv: []string{"sh", "-c", "kill -9 $$"}})
	if !errors.As(err, &exit) || exit.Code != 137 {
		t.Errorf("killed: got %v", err)
	}
	if _, err = h.Run(ctx, host.Command{Argv: []string{"no-such-program"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent program: got %v", err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	output, err := h.Run(ctx, host.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(big)})
	if err != nil || !bytes.Equal(output.Stdout, big) {
		t.Errorf("cat of %d bytes: got %d bytes, %v", len(big), len(output.Stdout), err)
	}
	if _, err = h.Run(ctx, host.Command{Argv: []string{"true"}, Stdin: bytes.NewReader(big)}); err != nil {
		t.Errorf("a command that does not read its input: %v", err)
	}
	output, err = h.Run(ctx, host.Command{Argv: []string{"sh", "-c", "pwd; echo $A"}, Dir: "/etc", Env: []string{"A=b"}})
	if err != nil || string(output.Stdout) != "/etc\nb\n" {
		t.Errorf("dir and env: %q, %v", output.Stdout, err)
	}
	if _, err = h.Run(ctx, host.Command{Argv: []string{"sh", "-c", "sleep 1000 &"}}); err != nil {
		t.Errorf("a command that leaves a process behind: %v", err)
	}

	ended, cancel := context.WithCancel(ctx)
	started := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if _, err = h.Run(ended, host.Command{Argv: []string{"sh", "-c", "echo x; sleep 4711 | sleep 4711"}, Stdout: started}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	waitFor(t, "the end of the cancelled command", func() bool {
		return shell(t, h, "pgrep -f 'sleep 471[1]' | wc -l") == "0"
	})
}

func TestFiles(t *testing.T) {
	needRoot(t)
	h := newHost(t, local.NewOpener(t.TempDir()), "edge")
	ctx := t.Context()
	if err := h.Write(ctx, "/srv/a b/c?d", 0o640, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, h, "stat -c '%a %s' '/srv/a b/c?d'; ls -A '/srv/a b'"); got != "640 1\nc?d" {
		t.Errorf("written: %q", got)
	}
	if content, err := h.Read(ctx, "/srv/a b/c?d"); err != nil || string(content) != "x" {
		t.Errorf("read: %q, %v", content, err)
	}
	if _, err := os.Stat("/srv/a b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is on the machine too: %v", err)
	}
	for range 2 {
		if err := h.Remove(ctx, "/srv/a b"); err != nil {
			t.Error(err)
		}
	}
	if _, err := h.Read(ctx, "/srv/a b/c?d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read removed file: %v", err)
	}
	if _, err := h.Read(ctx, "/etc"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read folder: %v", err)
	}
}

func TestDial(t *testing.T) {
	needRoot(t)
	h := newHost(t, local.NewOpener(t.TempDir()), "edge")
	ctx := t.Context()
	if _, err := h.Dial(ctx, "tcp", "127.0.0.1:4242"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
	agent, err := h.Agent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if shell(t, h, "test -x "+agent+" && echo yes") != "yes" {
		t.Errorf("there is no agent at %s", agent)
	}
	// The control socket itself is a server inside the host.
	conn, err := h.Dial(ctx, "unix", "/run/testbed/init.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /facts HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(answer), `"hostname":"edge"`) {
		t.Errorf("answer: %q, %v", answer, err)
	}
}

func TestServices(t *testing.T) {
	needRoot(t)
	h := newHost(t, local.NewOpener(t.TempDir()), "edge")
	ctx := t.Context()
	service := host.Service{Name: "counter", Argv: []string{"sh", "-c", "trap 'echo hup' HUP; echo up $WHO; setsid sleep 5151 & while :; do sleep 0.1; done"}, Env: []string{"WHO=me"}}
	if err := h.StartService(ctx, service); err != nil {
		t.Fatal(err)
	}
	status := func() host.ServiceStatus {
		t.Helper()
		status, err := h.Service(ctx, "counter")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	first := status()
	if !first.Running || first.PID == 0 || first.Restarts != 0 {
		t.Errorf("started: %+v", first)
	}
	if err := h.StartService(ctx, service); err != nil || status().PID != first.PID {
		t.Errorf("starting an equal service again: %v, %+v", err, status())
	}
	waitFor(t, "the first line", func() bool { log, _ := h.ServiceLog(ctx, "counter", 5); return string(log) == "up me\n" })
	waitFor(t, "the child", func() bool { return shell(t, h, "pgrep -fx 'sleep 5151' | wc -l") == "1" })
	if err := h.SignalService(ctx, "counter", syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	waitFor(t, "the signal", func() bool { log, _ := h.ServiceLog(ctx, "counter", 1); return string(log) == "hup\n" })
	if err := h.SignalService(ctx, "counter", syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	waitFor(t, "the restart", func() bool { return status().Restarts == 1 })
	if again := status(); again.Exit != "signal killed" || again.PID == first.PID || !again.Running {
		t.Errorf("restarted: %+v", again)
	}
	service.Env = []string{"WHO=you"}
	if err := h.StartService(ctx, service); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the changed service", func() bool { log, _ := h.ServiceLog(ctx, "counter", 1); return string(log) == "up you\n" })
	before := status()
	if err := h.RestartService(ctx, "counter"); err != nil || status().PID == before.PID {
		t.Errorf("restart: %v, %+v", err, status())
	}
	for range 2 {
		if err := h.StopService(ctx, "counter"); err != nil {
			t.Error(err)
		}
	}
	if left := shell(t, h, "pgrep -fxa 'sleep 5151' || true"); left != "" {
		t.Errorf("left after the stop: %s", left)
	}
	if _, err := h.Service(ctx, "counter"); !errors.Is(err, host.ErrNotExist) {
		t.Errorf("stopped service: %v", err)
	}
	stubborn := host.Service{Name: "stubborn", Argv: []string{"sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"}}
	if err := h.StartService(ctx, stubborn); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the stubborn service", func() bool { log, _ := h.ServiceLog(ctx, "stubborn", 1); return string(log) == "up\n" })
	stopped := make(chan error)
	go func() { stopped <- h.StopService(ctx, "stubborn") }()
	if err := h.StartService(ctx, service); err != nil {
		t.Error(err)
	}
	select {
	case err := <-stopped:
		t.Errorf("a service that ignores SIGTERM held up another, or was given no time: %v", err)
	default:
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if left := shell(t, h, "pgrep -fa 'trap .. TER[M]' || true"); left != "" {
		t.Errorf("left after the stop: %s", left)
	}
	if err := h.StartService(ctx, host.Service{Name: "bad", Argv: []string{"/no/such"}}); err == nil {
		t.Error("a service without a program was started")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func command(argv ...string) host.Command { return host.Command{Argv: argv} }
