package supervisor

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/preflight"
)

// TestClockOffset asks a host whose clock is one day off.
func TestClockOffset(t *testing.T) {
	for _, offset := range []time.Duration{24 * time.Hour, -24 * time.Hour, 0} {
		s := &server{now: func() time.Time { return time.Now().Add(offset) }}
		listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /facts", answer(s.getFacts))
		go http.Serve(listener, mux) //nolint:errcheck,gosec // ends with the listener
		client := control.NewClient("ssh://edge", func(ctx context.Context) (net.Conn, error) {
			// Connecting takes its time, which is no part of the offset.
			time.Sleep(200 * time.Millisecond)
			return new(net.Dialer).DialContext(ctx, "unix", listener.Addr().String())
		})
		facts, err := client.Facts(t.Context())
		listener.Close()
		if err != nil {
			t.Fatal(err)
		}
		if wrong := (facts.ClockOffset - offset).Abs(); wrong > facts.ClockError+time.Millisecond {
			t.Errorf("a clock that is %s off seems to be %s off, exact to %s", offset, facts.ClockOffset, facts.ClockError)
		}
		facts.Init = "systemd" // whatever the machine of the test has
		var clocks []string
		for _, missing := range preflight.Check(facts) {
			if strings.Contains(missing.What, "clock") {
				clocks = append(clocks, missing.String())
			}
		}
		if found := len(clocks) == 1 && strings.Contains(clocks[0], "timedatectl set-ntp true"); found != (offset != 0) {
			t.Errorf("a clock that is %s off: %q", offset, clocks)
		}
	}
}

func TestFacts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("modules", func(t *testing.T) {
		write("modules/modules.dep", "kernel/net/sched/sch_netem.ko.xz: kernel/x.ko.xz\nkernel/drivers/net/dummy.ko:\n")
		write("modules/modules.builtin", "kernel/drivers/net/tun-x.ko\n")
		want := modules{"sch_netem": true, "dummy": true, "tun_x": true}
		if diff := cmp.Diff(want, findModules(filepath.Join(dir, "modules"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("controllers", func(t *testing.T) {
		unified := write("controllers", "memory cpu pids\n")
		first := write("cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t2\t1\nmemory\t0\t2\t0\npids\t3\t4\t1\n")
		if diff := cmp.Diff([]string{"cpu", "memory", "pids"}, controllers(first, unified)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"cpu", "pids"}, controllers(first, "/nowhere")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("ports", func(t *testing.T) {
		head := "  sl  local_address rem_address   st\n"
		write("net/tcp", head+"   0: 0100007F:1538 00000000:0000 0A\n   1: 0100007F:1539 0100007F:1538 01\n")
		write("net/tcp6", head+"   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A\n   1: 00000000000000000000000000000000:1538 0:0 0A\n")
		write("net/udp", head+"   0: 00000000:1092 00000000:0000 07\n")
		want := []host.Port{{Protocol: "tcp", Number: 22}, {Protocol: "tcp", Number: 5432}, {Protocol: "udp", Number: 4242}}
		if diff := cmp.Diff(want, ports(filepath.Join(dir, "net"))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("distribution", func(t *testing.T) {
		for text, want := range map[string]string{
			"ID=raspbian\nID_LIKE=debian\n":           "debian",
			"ID=\"rocky\"\nID_LIKE=\"rhel centos\"\n": "rhel",
			"ID=alpine\n": "alpine",
			"ID=plan9\n":  "",
		} {
			if got := family(osRelease(write("os-release", text))); got != want {
				t.Errorf("%q is of family %q", text, got)
			}
		}
	})
	t.Run("init", func(t *testing.T) {
		write("systemd/run/systemd/system/x", "")
		write("openrc/run/openrc/softlevel", "")
		write("other/proc/1/comm", "runit\n")
		for name, want := range map[string]string{"systemd": "systemd", "openrc": "openrc", "other": "runit"} {
			if got := initSystem(filepath.Join(dir, name)); got != want {
				t.Errorf("%s is taken for %q", name, got)
			}
		}
	})
}
