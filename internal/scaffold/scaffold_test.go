package scaffold

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// machine is a host that lacks nothing.
func machine(url, address string) *hosttest.Fake {
	return &hosttest.Fake{
		Name: url,
		HostInfo: host.Facts{
			OS: "Debian GNU/Linux 12 (bookworm)", Arch: "arm64", Userland: "arm64", Kernel: "6.12.47", CPUs: 4, Memory: 4 << 30, Cgroup: 2,
			Distribution: "debian", Family: "debian", Init: "systemd", Controllers: []string{"cpu", "cpuset", "memory", "pids"},
			Tun: true, Netem: true, IFB: true, Programs: host.ProgramsOfInterest(), FreeDisk: 20 << 30,
		},
		Commands: map[string]func(context.Context, host.Command) (host.Output, error){
			"ip": func(context.Context, host.Command) (host.Output, error) {
				return host.Output{Stdout: fmt.Appendf(nil, `[{"dst":"192.0.2.1","gateway":"198.18.0.1","dev":"eth0","prefsrc":%q,"flags":[]}]`, address)}, nil
			},
		},
	}
}

func TestCommand(t *testing.T) {
	list := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(list, []byte("# the lab\n198.18.0.2\n\nssh://pi@198.18.0.11:2222\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hosts := hosttest.Opener{machine("ssh://198.18.0.2", ""), machine("ssh://pi@198.18.0.11:2222", ""), machine("ssh://cloud", "198.18.0.12")}
	out := filepath.Join(t.TempDir(), "experiment")
	args := []string{"-hosts", list, "-out", out, "cloud", "-scenarios", "local,wifi=5ms/2ms", "-functions", "hello-world,payload-echo=1024"}
	var stdout bytes.Buffer
	if err := Command(t.Context(), args, &stdout, hosts); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	for _, want := range []string{
		"ssh://pi@198.18.0.11:2222: Debian GNU/Linux 12 (bookworm), arm64, Linux 6.12.47, 4 CPUs, 4096 MB\n",
		"ssh://cloud: the others reach it at 198.18.0.12, the address of its default route\n",
		"wrote " + filepath.Join(out, "modules/continuum-site/main.tf") + "\n",
		"terraform init, then terraform apply",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, stdout.String())
		}
	}
	for _, name := range []string{"main.tf", "outputs.tf"} {
		got, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(string(hclwrite.Format(got)), string(got)); diff != "" {
			t.Errorf("%s is not formatted (-want +got):\n%s", name, diff)
		}
	}

	// Nothing is overwritten, and nothing is written beside what is there.
	if err := os.Remove(filepath.Join(out, "main.tf")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "outputs.tf"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Command(t.Context(), args, &stdout, hosts)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(out, "outputs.tf")) || !strings.Contains(err.Error(), "nothing is overwritten") {
		t.Errorf("error %v, want that a file is there", err)
	}
	if content, err := os.ReadFile(filepath.Join(out, "outputs.tf")); err != nil || string(content) != "mine" {
		t.Errorf("outputs.tf is %q, %v", content, err)
	}
	if _, err := os.Stat(filepath.Join(out, "main.tf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("main.tf was written beside a file that was there: %v", err)
	}
}

// Everything that is missing on all hosts is told at once, and nothing is
// written.
func TestCommandChecks(t *testing.T) {
	old, off := machine("ssh://198.18.0.11", ""), machine("ssh://198.18.0.12", "")
	old.HostInfo.Controllers = []string{"cpu", "cpuset", "pids"}
	old.HostInfo.Netem = false
	off.Unreachable = true
	out := t.TempDir()
	var stdout bytes.Buffer
	err := Command(t.Context(), []string{"-out", out, "198.18.0.2", "198.18.0.11", "198.18.0.12"}, &stdout, hosttest.Opener{machine("ssh://198.18.0.2", ""), old, off})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"nothing was written", "ssh://198.18.0.11 lacks:", "cgroup_enable=memory", "sch_netem", "ssh://198.18.0.12 cannot be asked"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	three := []string{"198.18.0.2", "198.18.0.11", "198.18.0.12"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{three[:2], "2 hosts: an experiment needs three at least"},
		{[]string{"198.18.0.2", "198.18.0.11", "198.18.0.11"}, "it is edge and cloud; each needs a host of its own"},
		{[]string{"198.18.0.2", "a@198.18.0.11", "b@198.18.0.11"}, "its address 198.18.0.11 is that of edge"},
		{[]string{"198.18.0.2", "198.18.0.11", "pi2"}, "host ssh://pi2: write the address at which the other hosts reach it"},
		{[]string{"198.18.0.2", "198.18.0.11", "pi2,here"}, `host "pi2,here": what follows the comma is no address`},
		{[]string{"198.18.0.2", "198.18.0.11", "pi2/x"}, `host "ssh://pi2/x": nothing may follow the address and the port; write [USER@]NAME[:PORT]`},
		{append([]string{"-sites", "edge"}, three...), "1 names of sites for 3 hosts"},
		{append([]string{"-sites", "edge,Cloud"}, three...), `site "Cloud": its name must be`},
		{append([]string{"-sites", "edge,lighthouse"}, three...), `site "lighthouse": there are two of that name`},
		{append([]string{"-scenarios", "far"}, three...), "write for example far=25ms"},
		{append([]string{"-scenarios", "far=soon"}, three...), `"soon" is no round-trip time`},
		{append([]string{"-scenarios", "far=1ms/1ms/200"}, three...), `"200" is no loss in percent`},
		{append([]string{"-scenarios", "local,local"}, three...), `scenario "local": names are different ones`},
		{append([]string{"-functions", "sleep"}, three...), `function "sleep": there are hello-world`},
		{append([]string{"-functions", "hello-world=1"}, three...), "takes no payload"},
		{append([]string{"-functions", "payload-echo=0"}, three...), "the payload must be 1 to"},
		{append([]string{"-hosts", "/nowhere/hosts"}, three...), "read the hosts: open /nowhere/hosts"},
		{append([]string{"-what"}, three...), "not defined: -what"},
	} {
		out := t.TempDir()
		var stdout bytes.Buffer
		err := Command(t.Context(), append([]string{"-skip-checks", "-out", out}, test.args...), &stdout, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got error %v, want one with %q", test.args, err, test.want)
		}
		if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
			t.Errorf("%v: the folder has %v, %v", test.args, entries, err)
		}
	}
}

// A host cannot write HCL of its own into the experiment.
func TestQuoting(t *testing.T) {
	e := Experiment{
		Lighthouse: Host{URL: "ssh://%24%7Bfile%281%29%7D@a", Underlay: netip.MustParseAddr("198.18.0.2")},
		Sites:      []Site{{"edge", Host{"ssh://e", netip.MustParseAddr("198.18.0.3")}}, {"cloud", Host{"ssh://c", netip.MustParseAddr("198.18.0.4")}}},
		Scenarios:  []Scenario{{Name: "local"}},
		Functions:  []Function{{Name: "hello-world", Builtin: "hello-world"}},
	}
	files, err := e.Files()
	if err != nil {
		t.Fatal(err)
	}
	if want := `user     = "$${file(1)}"`; !strings.Contains(string(files["main.tf"]), want) {
		t.Errorf("%s is missing in:\n%s", want, files["main.tf"])
	}
}

func TestParseScenario(t *testing.T) {
	for text, want := range map[string]Scenario{
		"local":          {Name: "local"},
		"cloud":          {"cloud", 40 * time.Millisecond, 4 * time.Millisecond, 0.32},
		"far=100ms":      {"far", 100 * time.Millisecond, 10 * time.Millisecond, 0.8},
		"far=100ms/0s/0": {"far", 100 * time.Millisecond, 0, 0},
	} {
		got, err := ParseScenario(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}
