package provider

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
)

// workspace is a folder of a user of the provider, who runs the command: each
// run has a provider of its own, which ends with it.
type workspace struct {
	t   *testing.T
	dir string
	cli string
}

// newWorkspace builds the provider and makes a workspace that uses it.
func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	cli := os.Getenv("TF_ACC_TERRAFORM_PATH")
	if cli == "" {
		t.Skip("TF_ACC_TERRAFORM_PATH is not set; make testvm sets it")
	}
	w := &workspace{t, t.TempDir(), cli}
	build := exec.Command("go", "build", "-o", filepath.Join(w.dir, "bin", "terraform-provider-testbed"), "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, output)
	}
	w.write("cli.tfrc", fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"terraform-testbed/testbed\" = %q\n  }\n  direct {}\n}\n", filepath.Join(w.dir, "bin")))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.try("destroy", "-auto-approve"))
		}
	})
	return w
}

func (w *workspace) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// try runs the command and returns what it wrote and its exit code.
func (w *workspace) try(args ...string) (output string, code int) {
	w.t.Helper()
	command := exec.Command(w.cli, append(args, "-no-color")...)
	command.Dir = w.dir
	command.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(w.dir, "cli.tfrc"))
	var text bytes.Buffer
	command.Stdout, command.Stderr = &text, &text
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return text.String(), command.ProcessState.ExitCode()
}

// run is try for a command that must do it.
func (w *workspace) run(args ...string) string {
	w.t.Helper()
	output, code := w.try(args...)
	if code != 0 {
		w.t.Fatalf("%s: exit code %d\n%s", strings.Join(args, " "), code, output)
	}
	return output
}

// fails is try for a command that must not, for the reason that the texts tell.
func (w *workspace) fails(texts []string, args ...string) {
	w.t.Helper()
	output, code := w.try(args...)
	if code == 0 {
		w.t.Fatalf("%s does it\n%s", strings.Join(args, " "), output)
	}
	plain := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			w.t.Errorf("%s does not say %q:\n%s", strings.Join(args, " "), text, output)
		}
	}
}

// settled checks that the plan is empty, or that it is not.
func (w *workspace) settled(want bool) {
	w.t.Helper()
	output, code := w.try("plan", "-detailed-exitcode")
	if code != 0 && want || code != 2 && !want {
		w.t.Fatalf("plan: exit code %d, settled: %t\n%s", code, want, output)
	}
}

// vmShell runs a script on a machine as its owner could.
func vmShell(t *testing.T, m *vmtest.Machine, script string) string {
	t.Helper()
	output, err := m.Shell(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(output)
}

// vmProvider is the provider block for the machines' users.
func vmProvider(t *testing.T, dataDir string, m *vmtest.Machine) string {
	return fmt.Sprintf(`
terraform {
  required_providers {
    testbed = { source = "terraform-testbed/testbed" }
  }
}

provider "testbed" {
  data_dir = %q
  ssh = {
    identity_files = [%q]
    config_file    = ""
    sudo_password  = "testbed"
    timeout        = "60s"
  }
}
`, dataDir, m.KeyFile())
}

// vmHost is the resource of a machine.
func vmHost(t *testing.T, m *vmtest.Machine, user, more string) string {
	t.Helper()
	key, err := m.HostKey()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
resource "testbed_ssh_host" %[1]q {
  address  = %[2]q
  port     = %[3]d
  user     = %[4]q
  host_key = %[5]q
  %[6]s
}
`, m.Name, m.SSH.Addr(), m.SSH.Port(), user, strings.TrimSpace(key), more)
}

// vmOverlay is an overlay of which the first machine is the lighthouse.
func vmOverlay(machines []*vmtest.Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_ssh_host.%s.url
  ca       = testbed_nebula_ca.lab.id
  name     = "lighthouse"
  network  = "198.19.0.1/24"
  underlay = %q
  timeouts = { create = "10m", update = "10m", delete = "10m" }
}
`, machines[0].Name, machines[0].Underlay)
	for i, m := range machines[1:] {
		fmt.Fprintf(&b, `
resource "testbed_nebula_node" %[1]q {
  host        = testbed_ssh_host.%[1]s.url
  ca          = testbed_nebula_ca.lab.id
  name        = %[1]q
  network     = "198.19.0.%[2]d/24"
  lighthouses = [testbed_nebula_lighthouse.this.endpoint]
  timeouts    = { create = "10m", update = "10m", delete = "10m" }
}
`, m.Name, i+2)
	}
	return b.String()
}

// TestAccVMOverlay gives machines with systemd an overlay, which lives through
// reboots, loss of power and changes by hand, and goes without a trace.
func TestAccVMOverlay(t *testing.T) {
	machines := vmtest.Lab(t, 3)
	first, second, third := machines[0], machines[1], machines[2]
	var before []vmtest.Inventory
	for _, m := range machines {
		before = append(before, m.TakeInventory(t))
	}
	w := newWorkspace(t)
	w.write("main.tf", vmProvider(t, filepath.Join(w.dir, "data"), first)+
		vmHost(t, first, "root", `requires = ["overlay"]`)+
		vmHost(t, second, "admin", `requires = ["overlay", "link"]`)+
		vmHost(t, third, "guarded", "")+
		vmOverlay(machines)+`
output "hosts" {
  value = { for h in [testbed_ssh_host.vm1, testbed_ssh_host.vm2, testbed_ssh_host.vm3] : h.hostname => "${h.os} ${h.arch}" }
}
`)
	w.run("apply", "-auto-approve")
	if got := w.run("output", "-json", "hosts"); !strings.Contains(got, `"vm2":"Debian GNU/Linux 12 (bookworm) amd64"`) {
		t.Errorf("facts: %s", got)
	}
	ping := func() {
		t.Helper()
		vmShell(t, second, "for i in $(seq 60); do ping -c 1 -W 5 198.19.0.3 && exit; sleep 1; done; exit 1")
	}
	ping()
	unit := vmShell(t, third, "systemctl is-active nebula; systemctl is-enabled nebula; ps -o args= -C testbed-agent")
	if !strings.HasPrefix(unit, "active\nenabled\n") || strings.Count(unit, "\n") != 2 || !strings.Contains(unit, " nebula run") {
		t.Errorf("the service, and all that runs: %s", unit)
	}
	w.settled(true)

	// Both ends of a tunnel boot anew, the lighthouse among them.
	for _, m := range []*vmtest.Machine{first, third} {
		if err := m.Reboot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ping()
	w.settled(true)

	// A service that was stopped by hand, and a unit that was changed.
	vmShell(t, second, "systemctl stop nebula")
	vmShell(t, third, "sed -i s/ProtectHome=yes/ProtectHome=no/ /etc/systemd/system/nebula.service && systemctl daemon-reload && systemctl restart nebula")
	w.settled(false)
	w.run("apply", "-auto-approve")
	ping()
	if got := vmShell(t, third, "systemctl show --property ProtectHome nebula"); got != "ProtectHome=yes" {
		t.Errorf("the unit that was changed has %s", got)
	}
	w.settled(true)

	// A machine without power is an error and not gone.
	if err := third.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.fails([]string{third.SSH.String()}, "plan")
	w.fails([]string{third.SSH.String()}, "apply", "-auto-approve")
	if state := w.run("state", "list"); !strings.Contains(state, "testbed_nebula_node.vm3") || !strings.Contains(state, "testbed_ssh_host.vm3") {
		t.Errorf("the state lost what was on the machine without power:\n%s", state)
	}
	if err := third.PowerOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	ping()
	w.settled(true)

	w.run("destroy", "-auto-approve")
	for _, inventory := range before {
		inventory.CompareAfter(t)
	}
}

// TestAccVMUnreachable destroys what is on machines without power, each as it
// is told.
func TestAccVMUnreachable(t *testing.T) {
	machines := vmtest.Lab(t, 2)
	first, second := machines[0], machines[1]
	before := []vmtest.Inventory{first.TakeInventory(t), second.TakeInventory(t)}
	w := newWorkspace(t)
	w.write("main.tf", vmProvider(t, filepath.Join(w.dir, "data"), first)+
		vmHost(t, first, "root", "")+
		vmHost(t, second, "admin", `on_destroy_unreachable = "abandon"`)+
		vmOverlay(machines))
	w.run("apply", "-auto-approve")
	for _, m := range machines {
		if err := m.PowerOff(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.fails([]string{first.SSH.String()}, "destroy", "-auto-approve", "-refresh=false")
	state := w.run("state", "list")
	if !strings.Contains(state, "testbed_nebula_lighthouse.this") || strings.Contains(state, "vm2") {
		t.Errorf("after destroying what is not there, the state has\n%s", state)
	}
	for _, m := range machines {
		if err := m.PowerOn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.run("destroy", "-auto-approve")
	before[0].CompareAfter(t)

	// What was abandoned is removed on the machine, without any state.
	if got := vmShell(t, second, "systemctl is-active nebula; /var/lib/testbed-agent/*/testbed-agent cleanup /var/lib/testbed-agent"); !strings.HasPrefix(got, "active\nremoved service nebula\n") {
		t.Errorf("cleanup said: %s", got)
	}
	before[1].CompareAfter(t)
}
