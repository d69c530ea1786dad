package ssh_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
)

// openMachine opens a machine of the VM lab as one of its users.
func openMachine(t *testing.T, m *vmtest.Machine, user string) *ssh.Opener {
	t.Helper()
	key, err := os.ReadFile(m.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	opener := ssh.NewOpener(ssh.Config{PrivateKey: string(key), SkipHostKeys: true, SudoPassword: "testbed", Keepalive: 10 * time.Second})
	t.Cleanup(func() { opener.Close() })
	return opener
}

func onMachine(t *testing.T, m *vmtest.Machine, script string) string {
	t.Helper()
	output, err := m.Shell(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

// eventually waits as long as a machine takes that is emulated on a busy one.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// TestVMServices keeps services running as units of a real systemd.
func TestVMServices(t *testing.T) {
	m := vmtest.Lab(t, 1)[0]
	before := m.TakeInventory(t)
	opener := openMachine(t, m, "admin")
	h, err := opener.Open(t.Context(), m.URL("admin"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	start := func(service host.Service) {
		t.Helper()
		if err := h.StartService(ctx, service); err != nil {
			t.Fatal(err)
		}
	}
	status := func(name string) host.ServiceStatus {
		t.Helper()
		found, err := h.Service(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}

	if _, err := h.Service(ctx, "plain"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent service: %v", err)
	}
	// The arguments and the environment come through as they are.
	odd := `a b "c" 'd' $HOME ${HOME} 100% %h \ ; é`
	plain := host.Service{
		Name: "plain", Env: []string{"ODD=" + odd}, Dir: "/srv",
		Argv: []string{"/bin/sh", "-c", `printf '%s\n' "$1" "$ODD" "$PWD"; exec sleep 1000`, "sh", odd},
	}
	start(plain)
	eventually(t, "the log", func() bool {
		log, err := h.ServiceLog(ctx, "plain", 3)
		return err == nil && string(log) == odd+"\n"+odd+"\n/srv\n"
	})
	found := status("plain")
	if diff := cmp.Diff(plain, found.Service); diff != "" || !found.Running || found.PID == 0 || found.Changed || found.Started.IsZero() {
		t.Errorf("status %+v; service (-want +got):\n%s", found, diff)
	}

	start(plain)
	if again := status("plain"); again.PID != found.PID {
		t.Errorf("an equal service was started again: process %d became %d", found.PID, again.PID)
	}
	changed := plain
	changed.Dir = "/"
	start(changed)
	if again := status("plain"); again.PID == found.PID {
		t.Error("a changed service was not started again")
	}

	// A change by hand shows, and is undone.
	onMachine(t, m, "sed -i 's|^Restart=always|Restart=no|' /etc/systemd/system/plain.service; systemctl daemon-reload; systemctl restart plain")
	if !status("plain").Changed {
		t.Error("a unit that was changed by hand is not told")
	}
	start(changed)
	if again := status("plain"); again.Changed || onMachine(t, m, "systemctl show -P Restart plain") != "always" {
		t.Errorf("a change by hand was not undone: %+v", again)
	}

	// It is started again when it ends by itself.
	if err := h.SignalService(ctx, "plain", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another life", func() bool { s := status("plain"); return s.Running && s.Restarts == 1 })

	t.Log("a plain service is kept")

	// Confinement holds: no capability but that one, and nothing to write to
	// but that folder.
	start(host.Service{
		Name: "confined", Confine: &host.Confinement{Capabilities: []string{"CAP_NET_ADMIN"}, Writes: []string{"/run/confined"}},
		Argv: []string{"/bin/sh", "-c", `grep CapBnd /proc/self/status; echo x >/run/confined/x && echo own; touch /etc/x || echo none; exec sleep 1000`},
	})
	eventually(t, "the confined service", func() bool {
		log, err := h.ServiceLog(ctx, "confined", 10)
		return err == nil && strings.HasPrefix(string(log), "CapBnd:\t0000000000001000\nown\n") && strings.HasSuffix(string(log), "\nnone\n")
	})

	// What requires another service is started again with it.
	start(host.Service{Name: "needy", Argv: []string{"/bin/sleep", "1000"}, Requires: []string{"confined"}})
	needy := status("needy").PID
	if err := h.RestartService(ctx, "confined"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the restart of what requires it", func() bool { s := status("needy"); return s.Running && s.PID != needy })
	needy = status("needy").PID
	if err := h.SignalService(ctx, "confined", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the restart of what requires it, after an accident", func() bool { s := status("needy"); return s.Running && s.PID != needy })

	t.Log("services are confined, and follow each other")

	// What cannot start says why.
	err = h.StartService(ctx, host.Service{Name: "absent", Argv: []string{"/nowhere/to/be/found"}})
	if err == nil || !strings.Contains(err.Error(), "absent.service") {
		t.Errorf("a program that is not there: %v", err)
	}

	// A unit of the machine's own is left alone.
	for name, err := range map[string]error{
		"start":  h.StartService(ctx, host.Service{Name: "ssh", Argv: []string{"/bin/true"}}),
		"status": func() error { _, err := h.Service(ctx, "ssh"); return err }(),
		"stop":   h.StopService(ctx, "ssh"),
	} {
		if !errors.Is(err, host.ErrForeign) || !strings.Contains(fmt.Sprint(err), "/lib/systemd/system/ssh.service") {
			t.Errorf("%s the machine's own service: %v", name, err)
		}
	}

	// All are there after a reboot, and nothing is after the end.
	if err := h.StopService(ctx, "absent"); err != nil {
		t.Error(err)
	}
	if err := m.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	t.Log("booted anew")
	for _, name := range []string{"plain", "confined", "needy"} {
		if s := status(name); !s.Running {
			t.Errorf("after a reboot: %+v", s)
		}
	}
	for _, name := range []string{"needy", "confined", "plain", "never-there"} {
		if err := h.StopService(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if err := opener.Close(); err != nil {
		t.Error(err)
	}
	before.CompareAfter(t)
}
