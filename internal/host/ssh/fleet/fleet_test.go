// Package fleet measures how long many hosts take: the provider against
// Ansible, which does the same steps on the same hosts.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/template"
	"time"

	_ "embed"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

var (
	hostCount = flag.Int("hosts", 50, "number of hosts")
	provider  = flag.String("provider", "", "the built provider")
	terraform = flag.String("terraform", "terraform", "the terraform or tofu to use")
)

//go:embed testdata/main.tf.tmpl
var mainTF string

//go:embed testdata/playbook.yml
var playbook string

//go:embed testdata/ansible.cfg
var ansibleConfig string

// fleet is a controller and hosts with SSH servers on one Ethernet, all in
// namespaces.
type fleet struct {
	dir        string // of the controller's files
	controller host.Host
	key        sshtest.Key
	servers    []*sshtest.Server
}

func address(i int) string { return fmt.Sprintf("198.18.%d.%d", 1+i/200, 1+i%200) }

// BenchmarkOverlay gives all hosts a Nebula node, with the provider and with
// Ansible, and prints how long each takes. One round is a run.
func BenchmarkOverlay(b *testing.B) {
	if *provider == "" {
		b.Skip("make bench-ssh runs it")
	}
	sshtest.NeedServer(b)
	for _, program := range []string{*terraform, "ansible-playbook"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Skip(err)
		}
	}
	for b.Loop() {
		f := newFleet(b, *hostCount)
		b.Logf("%d hosts with SSH servers are up", *hostCount)
		f.compare(b)
	}
}

func (f *fleet) compare(b *testing.B) {
	apply := f.terraform(b, "apply", "-auto-approve", fmt.Sprintf("-parallelism=%d", *hostCount))
	plan := f.terraform(b, "plan", "-detailed-exitcode", fmt.Sprintf("-parallelism=%d", *hostCount))
	f.takeFiles(b)
	destroy := f.terraform(b, "destroy", "-auto-approve", fmt.Sprintf("-parallelism=%d", *hostCount))
	f.checkClean(b)
	first := f.ansible(b)
	second := f.ansible(b)
	f.checkUp(b)
	fmt.Printf(`
%d hosts get a Nebula node       provider    ansible
  fresh hosts                  %7.1f s  %7.1f s   (ratio %.2f)
  nothing to change (plan)     %7.1f s  %7.1f s
  everything removed           %7.1f s
`, *hostCount, apply.Seconds(), first.Seconds(), apply.Seconds()/first.Seconds(), plan.Seconds(), second.Seconds(), destroy.Seconds())
	b.ReportMetric(apply.Seconds(), "s/apply")
	b.ReportMetric(plan.Seconds(), "s/plan")
	b.ReportMetric(first.Seconds(), "s/ansible")
}

// newFleet makes the hosts and all that the controller needs.
func newFleet(b *testing.B, count int) *fleet {
	b.Helper()
	// Hosts have a /tmp of their own, but see this.
	dir, err := os.MkdirTemp("/var/tmp", "testbed-fleet-") //nolint:usetesting // as said
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	f := &fleet{dir: dir, key: sshtest.NewKey(b)}
	dataDir := filepath.Join(dir, "hosts")
	opener := local.NewOpener(dataDir)
	var all sync.WaitGroup
	f.servers = make([]*sshtest.Server, count)
	slots := make(chan struct{}, 4)
	for i := range f.servers {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			f.servers[i] = sshtest.Start(b, opener, fmt.Sprintf("host%d", i), f.key)
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	f.controller = f.makeController(b, opener)
	f.connect(b, datadir.Dir(dataDir))
	for i, server := range f.servers {
		server.Configure(b, "ListenAddress "+address(i)+":22")
	}
	f.write(b)
	return f
}

func (f *fleet) makeController(b *testing.B, opener *local.Opener) host.Host {
	b.Helper()
	if _, err := opener.Apply(b.Context(), local.Spec{Name: "controller"}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := opener.Remove(context.Background(), "controller"); err != nil {
			b.Error(err)
		}
	})
	h, err := opener.Open(b.Context(), local.URL("controller"))
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// connect joins the namespaces by a bridge in that of the controller.
func (f *fleet) connect(b *testing.B, dir datadir.Dir) {
	b.Helper()
	pid := func(name string) string {
		var record struct {
			Init process.ID `json:"init"`
		}
		if err := datadir.ReadJSON(filepath.Join(dir.Host(name), "host.json"), &record); err != nil {
			b.Fatal(err)
		}
		return fmt.Sprint(record.Init.PID)
	}
	controller := pid("controller")
	inNet := func(pid string, argv ...string) {
		argv = append([]string{"nsenter", "--net", "--target", pid}, argv...)
		if output, err := exec.CommandContext(b.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", host.Quote(argv), err, output)
		}
	}
	inNet(controller, "ip", "link", "add", "lan", "type", "bridge")
	inNet(controller, "ip", "address", "add", "198.18.0.1/16", "dev", "lan")
	inNet(controller, "ip", "link", "set", "lan", "up")
	for i, server := range f.servers {
		port, target := fmt.Sprintf("port%d", i), pid(server.Name)
		inNet(controller, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", target)
		inNet(controller, "ip", "link", "set", port, "master", "lan", "up")
		inNet(target, "ip", "address", "add", address(i)+"/16", "dev", "eth0")
		inNet(target, "ip", "link", "set", "eth0", "up")
	}
}

// write writes what terraform and Ansible are given.
func (f *fleet) write(b *testing.B) {
	b.Helper()
	type entry struct{ Name, Address, Overlay string }
	var values struct {
		Dir, Key string
		Hosts    []entry
	}
	values.Dir, values.Key = f.dir, filepath.Join(f.dir, "id")
	var inventory, known strings.Builder
	for i, server := range f.servers {
		values.Hosts = append(values.Hosts, entry{server.Name, address(i), fmt.Sprintf("198.19.%d.%d/16", 1+i/200, 1+i%200)})
		fmt.Fprintf(&inventory, "%s ansible_host=%s\n", server.Name, address(i))
		fmt.Fprintf(&known, "%s %s\n", address(i), server.Key.Line())
	}
	var config bytes.Buffer
	if err := template.Must(template.New("").Parse(mainTF)).Execute(&config, values); err != nil {
		b.Fatal(err)
	}
	program, err := agent.For("amd64")
	if err != nil {
		b.Fatal(err)
	}
	for name, content := range map[string]string{
		"main.tf":       config.String(),
		"cli.tfrc":      fmt.Sprintf("provider_installation {\n  dev_overrides {\n    \"registry.terraform.io/terraform-testbed/testbed\" = %q\n  }\n}\n", filepath.Dir(*provider)),
		"id":            f.key.PEM,
		"known_hosts":   known.String(),
		"inventory":     inventory.String(),
		"playbook.yml":  playbook,
		"ansible.cfg":   ansibleConfig,
		"testbed-agent": string(program.Content),
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
}

// run runs a program on the controller and returns how long it took.
func (f *fleet) run(b *testing.B, env []string, argv ...string) time.Duration {
	b.Helper()
	start := time.Now()
	output, err := f.controller.Run(b.Context(), host.Command{Argv: argv, Dir: f.dir, Env: env})
	took := time.Since(start)
	fmt.Printf("%s %s: %.1f s\n", filepath.Base(argv[0]), argv[1], took.Seconds()) // for who waits
	if err != nil {
		b.Fatalf("%v\n%s\n%s", err, output.Stdout, output.Stderr)
	}
	return took
}

func (f *fleet) terraform(b *testing.B, argv ...string) time.Duration {
	b.Helper()
	env := []string{"TF_CLI_CONFIG_FILE=" + filepath.Join(f.dir, "cli.tfrc"), "CHECKPOINT_DISABLE=1"}
	return f.run(b, env, append([]string{*terraform}, argv...)...)
}

func (f *fleet) ansible(b *testing.B) time.Duration {
	b.Helper()
	return f.run(b, []string{"ANSIBLE_CONFIG=" + filepath.Join(f.dir, "ansible.cfg")},
		"ansible-playbook", "-i", "inventory", "playbook.yml")
}

// takeFiles keeps what the provider wrote on each host, for Ansible to write.
func (f *fleet) takeFiles(b *testing.B) {
	b.Helper()
	for _, server := range f.servers {
		folder := filepath.Join(f.dir, "files", server.Name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			b.Fatal(err)
		}
		for _, name := range strings.Fields(server.Run(b, "ls", "/etc/nebula")) {
			content, err := server.Host.Read(b.Context(), "/etc/nebula/"+name)
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, name), content, 0o600)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		status, err := server.Host.Service(b.Context(), "nebula")
		if err != nil {
			b.Fatal(err)
		}
		// Ansible gives the program its own place.
		service := host.Service{Name: "nebula", Argv: append([]string{"/usr/local/bin/testbed-agent"}, status.Service.Argv[1:]...)}
		text, err := json.Marshal(service)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "service.json"), text, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// checkClean wants nothing of the testbed on a host.
func (f *fleet) checkClean(b *testing.B) {
	b.Helper()
	for _, server := range f.servers {
		if left := server.Run(b, "sh", "-c", "ls -d /etc/nebula /var/lib/testbed-agent 2>/dev/null || true"); left != "" {
			b.Fatalf("%s has %s left", server.Name, left)
		}
	}
}

// checkUp wants every host to have its address on the overlay.
func (f *fleet) checkUp(b *testing.B) {
	b.Helper()
	for _, server := range f.servers {
		if got := server.Run(b, "ip", "-brief", "-4", "address"); !strings.Contains(got, "198.19.") {
			b.Errorf("%s has no overlay: %s", server.Name, got)
		}
	}
}
