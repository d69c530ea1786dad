package ssh_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
)

// TestLeavesNothing puts files on a host in one session and removes them in
// another, which takes the agent along, and only then.
func TestLeavesNothing(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	server.Write(t, "/etc/own.conf", 0o644, "the machine's")
	session := func(do func(h host.Host)) {
		t.Helper()
		opener := ssh.NewOpener(ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, Dial: sshtest.Dialer(server)})
		h, err := opener.Open(t.Context(), "ssh://root@edge")
		if err != nil {
			t.Fatal(err)
		}
		do(h)
		if err := opener.Close(); err != nil {
			t.Fatal(err)
		}
		// The agent has what is left to do after the connection has ended.
		waitFor(t, "the end of the agent", func() bool {
			return server.Run(t, "sh", "-c", "pgrep -f 'testbed-agent serv[e]' || true") == ""
		})
	}
	write := func(h host.Host, path string) {
		t.Helper()
		if err := h.Write(t.Context(), path, 0o600, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(h host.Host, path string) {
		t.Helper()
		if err := h.Remove(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	there := func() string {
		t.Helper()
		return strings.Join(strings.Fields(server.Run(t, "sh", "-c", "cd / && ls -d var/lib/testbed-agent run/testbed-agent.lock opt/a/b/c opt/a etc/own.conf 2>/dev/null || true")), " ")
	}

	session(func(h host.Host) {
		write(h, "/opt/a/b/c")
		write(h, "/opt/a/d")
		write(h, "/etc/own.conf")
	})
	if got, want := there(), "etc/own.conf opt/a opt/a/b/c var/lib/testbed-agent"; got != want {
		t.Errorf("with files there, the machine has %q, want %q", got, want)
	}
	ledger := server.Run(t, "cat", "/var/lib/testbed-agent/ledger.json")
	for path, want := range map[string]bool{"/opt/a/b/c": true, "/opt/a/b": true, "/etc/own.conf": false} {
		if strings.Contains(ledger, `"`+path+`"`) != want {
			t.Errorf("%s in the ledger: want %t\n%s", path, want, ledger)
		}
	}

	session(func(h host.Host) { remove(h, "/opt/a/b/c") })
	if got, want := there(), "etc/own.conf opt/a var/lib/testbed-agent"; got != want {
		t.Errorf("with one file there, the machine has %q, want %q", got, want)
	}
	session(func(h host.Host) {
		if _, err := h.Facts(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if got, want := there(), "etc/own.conf opt/a var/lib/testbed-agent"; got != want {
		t.Errorf("after a look, the machine has %q, want %q", got, want)
	}
	session(func(h host.Host) { remove(h, "/opt/a/d") })
	if got, want := there(), "etc/own.conf"; got != want {
		t.Errorf("in the end, the machine has %q, want %q", got, want)
	}
}

// TestServicesOfInit starts services on a local host that is logged in to: its
// init keeps them when the session has ended.
func TestServicesOfInit(t *testing.T) {
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	h := open(t, ssh.Config{PrivateKey: key.PEM, SkipHostKeys: true, Dial: sshtest.Dialer(server)}, "ssh://root@edge")
	service := host.Service{Name: "sleeper", Argv: []string{"sleep", "4712"}}
	if err := h.StartService(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for name, seen := range map[string]host.Host{"over SSH": h, "on its console": server.Host} {
		status, err := seen.Service(t.Context(), "sleeper")
		if err != nil || !status.Running {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
	if err := h.StopService(t.Context(), "sleeper"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Service(t.Context(), "sleeper"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was stopped: %v", err)
	}
}
