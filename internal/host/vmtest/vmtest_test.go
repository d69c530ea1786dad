package vmtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
)

func shell(t *testing.T, m *vmtest.Machine, script string) string {
	t.Helper()
	output, err := m.Shell(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

// TestVMLab shows that the machines are what tests build on: they have what
// namespaces here lack, reach each other, and lose and get power.
func TestVMLab(t *testing.T) {
	machines := vmtest.Lab(t, 2)
	first, second := machines[0], machines[1]
	got := shell(t, first, `
stat --file-system --format %T /sys/fs/cgroup
modprobe sch_netem && modprobe ifb && modprobe tun && echo modules
date --utc +%F`)
	if want := "cgroup2fs\nmodules\n" + time.Now().UTC().Format(time.DateOnly); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, address := range []string{second.Underlay.String(), second.Underlay6.String()} {
		shell(t, first, "ping -c 3 -i 0.2 -W 10 "+address)
	}

	shell(t, second, "echo kept >/root/kept && sync")
	boot := shell(t, second, "cat /proc/sys/kernel/random/boot_id")
	if err := second.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if output, err := second.Shell(ctx, "true"); err == nil {
		t.Errorf("a machine without power answers %q", output)
	}
	if err := second.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, second, "cat /root/kept /proc/sys/kernel/random/boot_id"); !strings.HasPrefix(got, "kept\n") || strings.HasSuffix(got, boot) {
		t.Errorf("after the power came back: %q; the boot before was %s", got, boot)
	}
}

// TestVMLabRestores shows that each test gets machines as they were first.
func TestVMLabRestores(t *testing.T) {
	machines := vmtest.Lab(t, 2)
	if got := shell(t, machines[1], "ls /root"); got != "" {
		t.Errorf("another test left %q", got)
	}
}
