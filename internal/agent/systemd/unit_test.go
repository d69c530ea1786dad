package systemd

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestRender(t *testing.T) {
	for _, service := range []host.Service{
		{
			Name: "overlay", Argv: []string{"/usr/bin/overlay", "-config", "/etc/a b/c.yml"}, After: []string{"time-sync.target"},
			Confine: &host.Confinement{
				Capabilities: []string{"CAP_NET_ADMIN", "CAP_NET_RAW"}, Devices: []string{"/dev/net/tun"}, Writes: []string{"/run/overlay", "/var/lib/overlay"},
			},
		},
		{
			Name: "cluster", Argv: []string{"/usr/local/bin/cluster", "server"}, Env: []string{"A=1", "B=x y"}, Dir: "/srv",
			After: []string{"overlay"}, Requires: []string{"overlay"}, KillMode: "process",
		},
		{
			Name: "quoting", Argv: []string{"/bin/echo", `a"b\c`, "$HOME ${x} 100%", "two\nlines", ""}, Env: []string{`Q="%h" $x\`},
		},
	} {
		t.Run(service.Name, func(t *testing.T) {
			got, revision, err := render(service)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", service.Name+".service")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.Contains(got, "Environment=TESTBED_UNIT="+revision+"\n") {
				t.Errorf("revision %s is not in the unit", revision)
			}
			parsed, ok := parse(got)
			if diff := cmp.Diff(service, parsed); diff != "" || !ok {
				t.Errorf("parsed, %t (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	for _, service := range []host.Service{
		{Name: "", Argv: []string{"/bin/true"}},
		{Name: "a/b", Argv: []string{"/bin/true"}},
		{Name: "a.timer", Argv: []string{"/bin/true"}},
		{Name: "a@b", Argv: []string{"/bin/true"}},
		{Name: "a"},
		{Name: "a", Argv: []string{"/bin/echo", "x\x00y"}},
	} {
		if unit, _, err := render(service); err == nil {
			t.Errorf("%+v: got\n%s", service, unit)
		}
	}
}

// TestParseForeign takes units for the testbed's only when it made them.
func TestParseForeign(t *testing.T) {
	for _, text := range []string{
		"", "[Unit]\n[Service]\nExecStart=/bin/true\n", "# [X-Testbed]\nService={}\n", "[Unit]\n[X-Testbed]\n", "[Unit]\n[X-Testbed]\nService=x\n",
	} {
		if got, ok := parse(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestStatus(t *testing.T) {
	for name, test := range map[string]struct {
		show    string
		running bool
		pid     int
		exit    string
	}{
		"running":    {"ActiveState=active SubState=running MainPID=42 NRestarts=3 ExecMainCode=0 ExecMainStatus=0 Result=success", true, 42, ""},
		"reloading":  {"ActiveState=reloading MainPID=42", true, 42, ""},
		"waits":      {"ActiveState=activating SubState=auto-restart MainPID=0 ExecMainCode=1 ExecMainStatus=7 Result=exit-code NRestarts=3", false, 0, "exit code 7"},
		"killed":     {"ActiveState=failed MainPID=0 ExecMainCode=2 ExecMainStatus=9 Result=signal NRestarts=3", false, 0, "signal killed"},
		"no program": {"ActiveState=failed MainPID=0 ExecMainCode=0 ExecMainStatus=0 Result=resources NRestarts=3", false, 0, "resources"},
		"stopped":    {"ActiveState=inactive MainPID=0 ExecMainCode=0 ExecMainStatus=0 Result=success", false, 0, "inactive"},
	} {
		t.Run(name, func(t *testing.T) {
			found := map[string]string{}
			for _, field := range strings.Fields(test.show) {
				key, value, _ := strings.Cut(field, "=")
				found[key] = value
			}
			got, err := status(host.Service{Name: "x"}, found)
			if err != nil {
				t.Fatal(err)
			}
			if got.Running != test.running || got.PID != test.pid || got.Exit != test.exit {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(test.show, "NRestarts=3") && got.Restarts != 3 {
				t.Errorf("restarts: got %d", got.Restarts)
			}
		})
	}
}
