package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
)

// line is a way to hosts that can be cut.
type line struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	conns  []*lineConn
	budget atomic.Int64 // bytes to the hosts until the line breaks by itself; 0: it does not
	frozen atomic.Bool  // nothing passes, and nobody is told
}

type lineConn struct {
	net.Conn
	line *line
}

func (l *line) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	made := &lineConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, made)
	return made, nil
}

func (c *lineConn) Write(p []byte) (int, error) {
	if c.line.frozen.Load() {
		return len(p), nil
	}
	if c.line.budget.Load() > 0 && c.line.budget.Add(-int64(len(p))) <= 0 {
		c.line.budget.Store(0)
		c.Close()
	}
	return c.Conn.Write(p)
}

// cut ends all connections and returns how many there were.
func (l *line) cut() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		conn.Close()
	}
	count := len(l.conns)
	l.conns = nil
	return count
}

// TestFaults breaks what is between the provider and a host, and the host's
// disk.
func TestFaults(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	server.AddUser(t, "pi", key, "USER ALL=(ALL) NOPASSWD: ALL")
	config := func(l *line) ssh.Config {
		return ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, Dial: l.Dial}
	}
	newLine := func() *line { return &line{dial: sshtest.Dialer(server)} }
	sleeping := func(seconds string) func() bool {
		return func() bool {
			return server.Run(t, "sh", "-c", "pgrep -fc 'sleep ["+seconds[:1]+"]"+seconds[1:]+"' || true") != "0"
		}
	}
	gone := func(seconds string) func() bool { return func() bool { return !sleeping(seconds)() } }
	clean := func(t *testing.T) {
		t.Helper()
		server.Run(t, "rm", "-rf", "/var/lib/testbed-agent")
	}

	t.Run("connection cut in the middle of a command", func(t *testing.T) {
		l := newLine()
		h := open(t, config(l), "ssh://pi@edge")
		ended := make(chan error, 1)
		go func() {
			_, err := h.Run(t.Context(), command("sh", "-c", "sleep 4712 | sleep 4712"))
			ended <- err
		}()
		waitFor(t, "the command", sleeping("4712"))
		l.cut()
		if err := <-ended; !errors.Is(err, host.ErrUnreachable) {
			t.Errorf("the command ended with %v", err)
		}
		waitFor(t, "the end of the command", gone("4712"))
		if got := shell(t, h, "echo again"); got != "again" {
			t.Errorf("after the cut: %q", got)
		}
	})
	t.Run("host that stops answering in the middle of a command", func(t *testing.T) {
		l := newLine()
		quick := config(l)
		quick.Keepalive, quick.Patience = 200*time.Millisecond, 5*time.Second
		h := open(t, quick, "ssh://root@edge")
		ended := make(chan error, 1)
		go func() {
			_, err := h.Run(t.Context(), command("sleep", "4713"))
			ended <- err
		}()
		waitFor(t, "the command", sleeping("4713"))
		l.frozen.Store(true)
		if err := <-ended; !errors.Is(err, host.ErrUnreachable) {
			t.Errorf("the command ended with %v", err)
		}
		// The host was not told, and finds out by itself.
		waitFor(t, "the end of the command", gone("4713"))
		l.frozen.Store(false)
		if got := shell(t, h, "echo again"); got != "again" {
			t.Errorf("afterwards: %q", got)
		}
	})
	t.Run("host restarted between two commands", func(t *testing.T) {
		h := open(t, config(newLine()), "ssh://root@edge")
		shell(t, h, "true")
		server.Run(t, "pkill", "-f", "testbed-agent serve")
		waitFor(t, "a new session", func() bool {
			_, err := h.Run(t.Context(), command("true"))
			if err != nil && !errors.Is(err, host.ErrUnreachable) {
				t.Fatalf("without the agent: %v", err)
			}
			return err == nil
		})
	})
	t.Run("host that goes in the middle of an upload", func(t *testing.T) {
		clean(t)
		l := newLine()
		l.budget.Store(2 << 20)
		h := open(t, config(l), "ssh://pi@edge")
		_, err := h.Run(t.Context(), command("true"))
		check(t, err, "put the agent on the host", "broke during the upload", "begins it anew")
		if found := server.Run(t, "sh", "-c", "ls /var/lib/testbed-agent 2>/dev/null || true"); found != "" {
			t.Errorf("half an agent is installed: %s", found)
		}
		if got := shell(t, h, "echo again"); got != "again" {
			t.Errorf("afterwards: %q", got)
		}
		if left := server.Run(t, "sh", "-c", "ls -A /home/pi /tmp | grep testbed || true"); left != "" {
			t.Errorf("the uploads leave %s", left)
		}
	})
	t.Run("truncated agent", func(t *testing.T) {
		path, err := open(t, config(newLine()), "ssh://root@edge").Agent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		whole := server.Run(t, "sha256sum", path)
		server.Run(t, "sh", "-c", "head -c 1000000 "+path+" > /tmp/half && chmod 755 /tmp/half && mv /tmp/half "+path)
		if err := whoami(t, config(newLine()), "ssh://root@edge"); err != nil {
			t.Error(err)
		}
		if now := server.Run(t, "sha256sum", path); now != whole {
			t.Errorf("the agent is %s, not %s", now, whole)
		}
	})
	t.Run("damaged agent", func(t *testing.T) {
		path, err := open(t, config(newLine()), "ssh://root@edge").Agent(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server.Run(t, "sh", "-c", "tr '\\0' x < "+path+" > /tmp/bad && chmod 755 /tmp/bad && mv /tmp/bad "+path)
		if err := whoami(t, config(newLine()), "ssh://root@edge"); err != nil {
			t.Error(err)
		}
	})
	t.Run("full disk", func(t *testing.T) {
		clean(t)
		server.Run(t, "mkdir", "-p", "/var/lib/testbed-agent")
		server.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/var/lib/testbed-agent")
		defer server.Run(t, "umount", "-l", "/var/lib/testbed-agent")
		err := whoami(t, config(newLine()), "ssh://pi@edge")
		check(t, err, "put the agent on the host", "No space left on device", "df -h")
		if found := server.Run(t, "sh", "-c", "find /var/lib/testbed-agent -type f"); found != "" {
			t.Errorf("left on the full disk: %s", found)
		}
	})
	t.Run("full home", func(t *testing.T) {
		clean(t)
		server.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", "/home/pi")
		defer server.Run(t, "umount", "-l", "/home/pi")
		server.Write(t, "/home/pi/.ssh/authorized_keys", 0o644, key.Line()+"\n")
		server.Run(t, "chown", "-R", "pi:", "/home/pi")
		server.Run(t, "chmod", "700", "/home/pi", "/home/pi/.ssh")
		if err := whoami(t, config(newLine()), "ssh://pi@edge"); err != nil {
			t.Errorf("there is room in /tmp, but: %v", err)
		}
	})
	t.Run("read-only file system", func(t *testing.T) {
		clean(t)
		server.Run(t, "mkdir", "-p", "/var/lib/testbed-agent")
		server.Run(t, "mount", "-t", "tmpfs", "-o", "ro", "tmpfs", "/var/lib/testbed-agent")
		defer server.Run(t, "umount", "-l", "/var/lib/testbed-agent")
		err := whoami(t, config(newLine()), "ssh://root@edge")
		check(t, err, "put the agent on the host", "Read-only file system", "mount")
	})
	t.Run("full disk under a file", func(t *testing.T) {
		h := open(t, config(newLine()), "ssh://root@edge")
		server.Run(t, "mkdir", "-p", "/srv/small")
		server.Run(t, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/srv/small")
		defer server.Run(t, "umount", "-l", "/srv/small")
		if err := h.Write(t.Context(), "/srv/small/file", 0o644, strings.NewReader("old")); err != nil {
			t.Fatal(err)
		}
		err := h.Write(t.Context(), "/srv/small/file", 0o644, strings.NewReader(strings.Repeat("x", 1<<20)))
		if err == nil || !strings.Contains(err.Error(), "no space left on device") || errors.Is(err, host.ErrUnreachable) {
			t.Errorf("write: %v", err)
		}
		if content, err := h.Read(t.Context(), "/srv/small/file"); err != nil || string(content) != "old" {
			t.Errorf("the file holds %q, %v", content, err)
		}
	})
	t.Run("no SFTP", func(t *testing.T) {
		clean(t)
		server.Configure(t, "Subsystem sftp /nowhere/sftp-server")
		defer server.Configure(t)
		check(t, whoami(t, config(newLine()), "ssh://root@edge"), "put the agent on the host", "Subsystem sftp")
	})
	t.Run("two at once", func(t *testing.T) {
		owned := func(id, name string) host.Host {
			c := config(newLine())
			c.Owner = control.Owner{ID: id, Name: name}
			return open(t, c, "ssh://root@edge")
		}
		first, same, other := owned("1", "alice on a laptop"), owned("1", "alice on a laptop"), owned("2", "bob elsewhere")
		write := func(h host.Host) error {
			return h.Write(t.Context(), "/srv/file", 0o644, strings.NewReader("x"))
		}
		if err := write(first); err != nil {
			t.Fatal(err)
		}
		if err := write(same); err != nil {
			t.Errorf("another connection of the same owner: %v", err)
		}
		err := write(other)
		if err == nil || !strings.Contains(err.Error(), "alice on a laptop changes this host since") || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("another owner: %v", err)
		}
		if _, err := other.Read(t.Context(), "/srv/file"); err != nil {
			t.Errorf("another owner who only looks: %v", err)
		}
	})
	t.Run("two, one after the other", func(t *testing.T) {
		for i := range 2 {
			c := config(newLine())
			c.Owner = control.Owner{ID: fmt.Sprint("in turn ", i), Name: "somebody"}
			opener := ssh.NewOpener(c)
			h, err := opener.Open(t.Context(), "ssh://root@edge")
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the lock", func() bool {
				return h.Write(t.Context(), "/srv/file", 0o644, strings.NewReader("x")) == nil
			})
			if err := opener.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestManyAtOnce works on several hosts, with more requests than a connection
// takes at one time, over one connection for each host.
func TestManyAtOnce(t *testing.T) {
	key := sshtest.NewKey(t)
	opener := local.NewOpener(t.TempDir())
	var servers []*sshtest.Server
	for i := range 4 {
		servers = append(servers, sshtest.Start(t, opener, fmt.Sprintf("host%d", i), key))
	}
	l := &line{dial: sshtest.Dialer(servers...)}
	hosts := ssh.NewOpener(ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, Dial: l.Dial})
	defer hosts.Close()
	const requests = 300
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			name := fmt.Sprintf("host%d", i%len(servers))
			h, err := hosts.Open(t.Context(), "ssh://root@"+name)
			if err != nil {
				t.Error(err)
				return
			}
			output, err := h.Run(t.Context(), host.Command{Argv: []string{"cat", "/etc/hostname", "-"}, Stdin: strings.NewReader(fmt.Sprint(i))})
			if want := fmt.Sprintf("%s\n%d", name, i); err != nil || string(output.Stdout) != want {
				t.Errorf("request %d: %q, %v", i, output.Stdout, err)
			}
		})
	}
	all.Wait()
	if got := l.cut(); got != len(servers) {
		t.Errorf("%d connections to %d hosts", got, len(servers))
	}
}
