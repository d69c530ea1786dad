package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
)

// open opens a host with a configuration, until the end of the test.
func open(t *testing.T, config ssh.Config, url string) host.Host {
	t.Helper()
	opener := ssh.NewOpener(config)
	t.Cleanup(func() {
		if err := opener.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := opener.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func command(argv ...string) host.Command { return host.Command{Argv: argv} }

// shell runs a script and returns what it prints.
func shell(t *testing.T, h host.Host, script string) string {
	t.Helper()
	output, err := h.Run(t.Context(), command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output.Stdout))
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// TestHost does on a host what a host is for.
func TestHost(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	h := open(t, ssh.Config{
		PrivateKey: key.PEM, SkipHostKeys: true, Dial: sshtest.Dialer(server), Keepalive: time.Second,
	}, "ssh://root@edge")
	ctx := t.Context()

	t.Run("run", func(t *testing.T) {
		_, err := h.Run(ctx, command("sh", "-c", "echo out; echo broken >&2; exit 7"))
		var exit *host.ExitError
		if !errors.As(err, &exit) || exit.Code != 7 || exit.Stderr != "broken\n" {
			t.Errorf("exit code: got %v", err)
		}
		if _, err = h.Run(ctx, command("no-such-program")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("absent program: got %v", err)
		}
		argument := "a b 'c' \"d\" $HOME `id` \\ \n ; * é"
		output, err := h.Run(ctx, command("printf", "%s", argument))
		if err != nil || string(output.Stdout) != argument {
			t.Errorf("arguments: got %q, %v", output.Stdout, err)
		}
		big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		output, err = h.Run(ctx, host.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(big)})
		if err != nil || !bytes.Equal(output.Stdout, big) {
			t.Errorf("cat of %d bytes: got %d bytes, %v", len(big), len(output.Stdout), err)
		}
		if got := shell(t, h, "echo ${container-none} $(id -u)"); got != "none 0" {
			t.Errorf("environment: %s", got)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		started := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		if _, err := h.Run(ended, host.Command{Argv: []string{"sh", "-c", "echo x; sleep 4711 | sleep 4711"}, Stdout: started}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: got %v", err)
		}
		waitFor(t, "the end of the cancelled command", func() bool { return shell(t, h, "pgrep -f 'sleep 471[1]' | wc -l") == "0" })
	})
	t.Run("files", func(t *testing.T) {
		if err := h.Write(ctx, "/srv/a b/c?d", 0o640, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if got := server.Run(t, "stat", "-c", "%a %s", "/srv/a b/c?d"); got != "640 1" {
			t.Errorf("written: %q", got)
		}
		if content, err := h.Read(ctx, "/srv/a b/c?d"); err != nil || string(content) != "x" {
			t.Errorf("read: %q, %v", content, err)
		}
		if err := h.Remove(ctx, "/srv/a b"); err != nil {
			t.Error(err)
		}
		if _, err := h.Read(ctx, "/srv/a b/c?d"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read removed file: %v", err)
		}
	})
	t.Run("dial", func(t *testing.T) {
		if _, err := h.Dial(ctx, "tcp", "127.0.0.1:4242"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refused: %v", err)
		}
		conn, err := h.Dial(ctx, "tcp", "127.0.0.1:22")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		banner := make([]byte, 8)
		if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "SSH-2.0-" {
			t.Errorf("got %q, %v", banner, err)
		}
	})
	t.Run("agent", func(t *testing.T) {
		path, err := h.Agent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Run(ctx, command("test", "-x", path)); err != nil {
			t.Error(err)
		}
		if left := server.Run(t, "sh", "-c", "ls -A /root/.testbed* /tmp/.testbed* 2>/dev/null; ls "+path+"/.."+" 2>/dev/null || true"); left != "" {
			t.Errorf("the upload leaves %s", left)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
