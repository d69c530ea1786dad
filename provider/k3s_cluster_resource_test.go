package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s/k3stest"
)

const k3sResource = "testbed_k3s_cluster.test"

// k3sFactories serve a provider whose only hosts are the machines.
func k3sFactories(machines ...*k3stest.Machine) map[string]func() (tfprotov6.ProviderServer, error) {
	p := &testbedProvider{version: "test", machines: k3stest.Opener(machines)}
	return map[string]func() (tfprotov6.ProviderServer, error){"testbed": providerserver.NewProtocol6WithError(p)}
}

// k3sConfig is a cluster on the machine, with further lines.
func k3sConfig(t *testing.T, lines ...string) string {
	return providerConfig(t.TempDir()) + `
resource "testbed_k3s_cluster" "test" {
  name = "edge"
  ` + strings.Join(lines, "\n  ") + `
}
`
}

func k3sServer(hostURL, nodeIP string) string {
	return fmt.Sprintf("servers = [{ host = %q, node_ip = %q, interface = \"nebula1\" }]", hostURL, nodeIP)
}

func k3sFile(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func expectAction(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(k3sResource, action)}}
}

func TestK3sCluster(t *testing.T) {
	machine := k3stest.New(t)
	dir := t.TempDir()
	binary := k3sFile(t, filepath.Join(dir, "k3s"), "k3s version v1.37.2+k3s1\n")
	images := k3sFile(t, filepath.Join(dir, "images.tar"), "images")
	const yaml = "/etc/rancher/k3s/config.yaml"
	config := func(lines ...string) string {
		return k3sConfig(t, append(lines, k3sServer("local://edge", "198.19.0.11"),
			`cluster_cidr = "10.44.0.0/16"`, `service_cidr = "10.45.0.0/16"`,
			fmt.Sprintf("binary = { source = %q }", binary), fmt.Sprintf("airgap_images = [%q]", images))...)
	}
	first := config()
	second := config(`tls_sans = ["edge.example.net"]`, `config = jsonencode({ "kubelet-arg" = ["max-pods=50"] })`)
	noChange := resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
	update := expectAction(plancheck.ResourceActionUpdate)

	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(machine),
		CheckDestroy: func(*terraform.State) error {
			if len(machine.Services())+len(machine.Files()) > 0 {
				return fmt.Errorf("left: %v %v", machine.Services(), machine.Files())
			}
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config:           first,
				ConfigPlanChecks: noChange,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("url"), knownvalue.StringExact("k3s+local://edge")),
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("api_endpoint"), knownvalue.StringExact("https://198.19.0.11:6443")),
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("kubernetes_version"), knownvalue.StringExact("v1.37.2")),
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("node_names"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("edge")})),
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("binary_sha256"), knownvalue.StringExact(k3stest.Sum("k3s version v1.37.2+k3s1\n"))),
				},
				Check: func(s *terraform.State) error {
					text, err := json.Marshal(s)
					if err == nil && (strings.Contains(string(text), "secret") || strings.Contains(string(text), strings.TrimSpace(machine.Files()["/etc/rancher/k3s/token"].Content))) {
						err = errors.New("a secret of the cluster is in the state")
					}
					return err
				},
			},
			{Config: second, ConfigPlanChecks: update},
			{
				ResourceName: k3sResource, ImportState: true, ImportStateId: "local://edge", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"binary", "airgap_images", "timeouts"},
			},
			{
				PreConfig: func() {
					if err := machine.Write(t.Context(), yaml, 0o600, strings.NewReader("debug: true\n")); err != nil {
						t.Fatal(err)
					}
				},
				Config: second, ConfigPlanChecks: update,
				Check: func(*terraform.State) error {
					if text := machine.Files()[yaml].Content; !strings.Contains(text, "edge.example.net") {
						return fmt.Errorf("config.yaml was not restored: %s", text)
					}
					return nil
				},
			},
			{
				PreConfig: func() { k3sFile(t, binary, "k3s version v1.38.0+k3s1\n") },
				Config:    second, ConfigPlanChecks: update,
			},
			{
				PreConfig: func() {
					if err := machine.StopService(t.Context(), "k3s"); err != nil {
						t.Fatal(err)
					}
				},
				Config: second, ConfigPlanChecks: expectAction(plancheck.ResourceActionCreate),
			},
			{
				Config:           strings.ReplaceAll(second, "10.44.0.0/16", "10.46.0.0/16"),
				ConfigPlanChecks: expectAction(plancheck.ResourceActionReplace),
			},
		},
	})
}

func TestK3sClusterRefusesInput(t *testing.T) {
	dir := t.TempDir()
	binary := k3sFile(t, filepath.Join(dir, "k3s"), "k3s version v1.37.2+k3s1\n")
	other := k3sFile(t, filepath.Join(dir, "bash"), "GNU bash\n")
	server := k3sServer("local://edge", "198.19.0.11")
	program := fmt.Sprintf("binary = { source = %q }", binary)
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"host bits":        {[]string{server, program, `disable = []`, `tls_sans = []`, `cluster_cidr = "10.42.0.1/16"`}, `Write "10.42.0.0/16"`},
		"networks overlap": {[]string{server, program, `service_cidr = "10.42.128.0/17"`}, "service_cidr 10.42.128.0/17 overlaps cluster_cidr 10.42.0.0/16"},
		"node inside":      {[]string{server, program, `cluster_cidr = "198.18.0.0/15"`}, "node_ip 198.19.0.11 is inside cluster_cidr 198.18.0.0/15"},
		"agent of no host": {[]string{server, program, `agents = [{ host = "local://b", node_ip = "198.19.0.12" }]`}, "Use the url of a testbed_local_host"},
		"same host":        {[]string{server, program, `agents = [{ host = "local://edge", node_ip = "198.19.0.12" }]`}, `The host "local://edge" is that of servers\[0\] already`},
		"same address":     {[]string{server, program, `agents = [{ host = "local://b", node_ip = "198.19.0.11" }]`}, `The node_ip "198.19.0.11" is that of servers\[0\] already`},
		"same name":        {[]string{server, program, `agents = [{ host = "local://b", node_ip = "198.19.0.12", name = "edge" }]`}, `The name "edge" is that of servers\[0\] already`},
		"agent inside":     {[]string{server, program, `agents = [{ host = "local://b", node_ip = "10.43.0.12" }]`}, "node_ip 10.43.0.12 is inside service_cidr 10.43.0.0/16"},
		"half an agent":    {[]string{server, program, `agents = [{ host = "local://b" }]`}, `agents\[0\] has no node_ip`},
		"long name":        {[]string{server, program, `agents = [{ host = "ssh://` + strings.Repeat("a", 60) + `", node_ip = "198.19.0.12" }]`}, "which is too long. Give it a name"},
		"credentials":      {[]string{server, program, `registries = jsonencode({ configs = { "registry.example" = { auth = { password = "x" } } } })`}, "would enter the state"},
		"no registries":    {[]string{server, program, `registries = jsonencode({ mirror = {} })`}, `registries must be a JSON object with mirrors and configs`},
		"host-gw":          {[]string{server, program, `config = jsonencode({ "flannel-backend" = "host-gw" })`}, `leave flannel-backend out`},
		"two servers":      {[]string{strings.Replace(server, "}]", `}, { host = "local://b", node_ip = "198.19.0.12" }]`, 1), program}, "at most 1 elements"},
		"two programs":     {[]string{server, program, `version = "v1.37.2+k3s1"`}, "but not both"},
		"version":          {[]string{server, `version = "1.37"`}, `must be a k3s release, for example`},
		"reserved key":     {[]string{server, program, `config = jsonencode({ token = "x" })`}, `config cannot set "token"`},
		"no object":        {[]string{server, program, `config = jsonencode(["x"])`}, "must be a JSON object"},
		"mirror":           {[]string{server, `mirror = "/srv/k3s"`}, "must be an http\\(s\\) URL"},
		"relative path":    {[]string{server, `binary = { source = "k3s" }`}, "must be an absolute path on this machine"},
		"checksum":         {[]string{server, fmt.Sprintf(`binary = { source = %q, sha256 = %q }`, binary, k3stest.Sum("wanted"))}, "not " + k3stest.Sum("wanted") + " as wanted"},
		"no program":       {[]string{server, `binary = { source = "/nowhere/k3s" }`}, "open /nowhere/k3s: no such file or directory"},
		"no image":         {[]string{server, program, `airgap_images = ["/nowhere/images.tar"]`}, "open /nowhere/images.tar: no such file or directory"},
		"not k3s":          {[]string{server, fmt.Sprintf("binary = { source = %q }", other)}, `is not a k3s program for this host`},
		"no host":          {[]string{k3sServer("local://none", "198.19.0.11"), program}, "Use the url of a testbed_local_host"},
		"no address":       {[]string{k3sServer("local://edge", "198.19.0.12"), program}, "local://edge has no address 198.19.0.12"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := k3stest.New(t)
			before := len(machine.Files())
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: k3sFactories(machine),
				Steps:                    []resource.TestStep{{Config: k3sConfig(t, test.lines...), ExpectError: wrapped(test.want)}},
			})
			if len(machine.Services()) > 0 || len(machine.Files()) != before {
				t.Errorf("the host was touched: %v %v", machine.Services(), machine.Files())
			}
		})
	}
}

// Agents join and leave without the server noticing, and what was changed on
// their hosts is mended.
func TestK3sClusterAgents(t *testing.T) {
	server := k3stest.New(t)
	b, c := k3stest.NewAgent(server, "local://b", "198.19.0.12"), k3stest.NewAgent(server, "ssh://pi@198.18.0.13:22", "198.19.0.13")
	binary := k3sFile(t, filepath.Join(t.TempDir(), "k3s"), "k3s version v1.37.2+k3s1\n")
	config := func(lines ...string) string {
		return k3sConfig(t, append(lines, k3sServer("local://edge", "198.19.0.11"), fmt.Sprintf("binary = { source = %q }", binary))...)
	}
	const (
		agentB = `{ host = "local://b", node_ip = "198.19.0.12", interface = "nebula1" }`
		agentC = `{ host = "ssh://pi@198.18.0.13:22", node_ip = "198.19.0.13" }`
	)
	one, two := config("agents = ["+agentB+"]"), config("agents = ["+agentB+", "+agentC+"]")
	update := expectAction(plancheck.ResourceActionUpdate)
	noChange := resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
	pid := 0
	nodes := func(want ...string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			if got := server.Nodes(); !slices.Equal(got, want) {
				return fmt.Errorf("nodes %v, want %v", got, want)
			}
			if pid != 0 && server.Services()["k3s"].PID != pid {
				return errors.New("the server was restarted")
			}
			pid = server.Services()["k3s"].PID
			if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "::server:") {
				return fmt.Errorf("the token is in the state, or %v", err)
			}
			return nil
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(server, b, c),
		CheckDestroy: func(*terraform.State) error {
			for _, machine := range []*k3stest.Machine{server, b, c} {
				if len(machine.Services())+len(machine.Files()) > 0 {
					return fmt.Errorf("left on %s: %v %v", machine.URL(), machine.Services(), machine.Files())
				}
			}
			return nil
		},
		Steps: []resource.TestStep{
			{Config: one, ConfigPlanChecks: noChange, Check: nodes("edge", "edge-b")},
			{
				Config: two, ConfigPlanChecks: update, Check: nodes("edge", "edge-198-18-0-13", "edge-b"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("node_names"), knownvalue.ListExact([]knownvalue.Check{
						knownvalue.StringExact("edge"), knownvalue.StringExact("edge-198-18-0-13"), knownvalue.StringExact("edge-b"),
					})),
				},
			},
			{
				ResourceName: k3sResource, ImportState: true, ImportStateId: "local://edge", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"binary", "airgap_images", "timeouts", "agents"}, // in another order
			},
			{
				PreConfig: func() {
					if err := c.Write(t.Context(), "/etc/rancher/k3s/config.yaml", 0o600, strings.NewReader("debug: true\n")); err != nil {
						t.Fatal(err)
					}
				},
				Config: two, ConfigPlanChecks: update, Check: nodes("edge", "edge-198-18-0-13", "edge-b"),
			},
			{
				PreConfig: func() { server.ForgetNode("edge-b") },
				Config:    two, ConfigPlanChecks: update, Check: nodes("edge", "edge-198-18-0-13", "edge-b"),
			},
			{
				// The overlay made its device anew.
				PreConfig: func() { b.Replaced.Store(true) },
				Config:    two, ConfigPlanChecks: update, Check: nodes("edge", "edge-198-18-0-13", "edge-b"),
			},
			{
				// An agent that is lost and unwanted at the same time still leaves.
				PreConfig: func() {
					if err := c.StopService(t.Context(), "k3s-agent"); err != nil {
						t.Fatal(err)
					}
				},
				Config: one, ConfigPlanChecks: update, Check: nodes("edge", "edge-b"),
			},
			{
				Config:           strings.Replace(one, `interface = "nebula1" }]`, `interface = "nebula1", name = "pi" }]`, 1),
				ConfigPlanChecks: update, Check: nodes("edge", "pi"),
			},
			{PreConfig: func() { pid = 0 }, Config: config(`registries = jsonencode({ mirrors = { "*" = {} } })`), ConfigPlanChecks: update, Check: nodes("edge")},
			{
				PreConfig: func() {
					if err := server.Remove(t.Context(), "/etc/rancher/k3s/registries.yaml"); err != nil {
						t.Fatal(err)
					}
					pid = 0
				},
				Config: config(`registries = jsonencode({ mirrors = { "*" = {} } })`), ConfigPlanChecks: update, Check: nodes("edge"),
			},
			{PreConfig: func() { pid = 0 }, Config: two, Check: nodes("edge", "edge-198-18-0-13", "edge-b")},
		},
	})
}

func TestK3sClusterNeverReady(t *testing.T) {
	machine := k3stest.New(t)
	machine.NotReady.Store(true)
	binary := k3sFile(t, filepath.Join(t.TempDir(), "k3s"), "k3s version v1.37.2+k3s1\n")
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(machine),
		Steps: []resource.TestStep{{
			Config: k3sConfig(t, k3sServer("local://edge", "198.19.0.11"), fmt.Sprintf("binary = { source = %q }", binary),
				`timeouts = { create = "2s" }`),
			ExpectError: wrapped(`wait for node edge to be Ready on local://edge`),
		}},
	})
	if len(machine.Services()) > 0 {
		t.Errorf("the tainted cluster was not removed: %v", machine.Services())
	}
}

// What comes from other resources is unknown at plan, also as a whole.
func TestK3sClusterUnknown(t *testing.T) {
	machine := k3stest.New(t)
	binary := k3sFile(t, filepath.Join(t.TempDir(), "k3s"), "k3s version v1.37.2+k3s1\n")
	lines := []string{"servers = terraform_data.given.output.servers", "binary = terraform_data.given.output.binary",
		"airgap_images = terraform_data.given.output.images", "config = terraform_data.given.output.config"}
	given := fmt.Sprintf(`
resource "terraform_data" "given" {
  input = {
    servers = [{ host = "local://edge", node_ip = "198.19.0.11", interface = null }]
    binary  = { source = %q, sha256 = null }
    images  = []
    config  = jsonencode({})
  }
}
`, binary)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(machine),
		Steps: []resource.TestStep{
			{Config: k3sConfig(t, lines...) + given, ConfigPlanChecks: expectAction(plancheck.ResourceActionCreate)},
			{Config: k3sConfig(t, "servers = [terraform_data.given.output.servers[0]]", lines[1], lines[2], lines[3]) + given, PlanOnly: true},
		},
	})
}

// A download happens once, and its checksum is known from then on.
func TestK3sClusterDownload(t *testing.T) {
	machine := k3stest.New(t)
	content := "k3s version v1.37.2+k3s1\n"
	var downloads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		downloads.Add(1)
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(server.Close)
	config := k3sConfig(t, k3sServer("local://edge", "198.19.0.11"),
		fmt.Sprintf("binary = { source = %q, sha256 = %q }", server.URL+"/k3s", k3stest.Sum(content)),
		fmt.Sprintf("airgap_images = [%q]", server.URL+"/images.tar.zst"))
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(machine),
		Steps: []resource.TestStep{
			{
				Config: config,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("airgap_sha256"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact(k3stest.Sum(content))})),
				},
			},
			{
				PreConfig: func() {
					if err := machine.Write(t.Context(), "/usr/local/bin/k3s", 0o755, strings.NewReader("another program")); err != nil {
						t.Fatal(err)
					}
				},
				Config: config, ConfigPlanChecks: expectAction(plancheck.ResourceActionUpdate),
			},
		},
	})
	if got := downloads.Load(); got != 2 {
		t.Errorf("%d downloads, want 2 of 2 files", got)
	}
}

// A cluster on hosts that are gone for good can be given up, and only then.
func TestK3sClusterAbandoned(t *testing.T) {
	dir := t.TempDir()
	server := k3stest.New(t)
	server.Name = "ssh://edge"
	agent := k3stest.NewAgent(server, "ssh://b", "198.19.0.12")
	binary := k3sFile(t, filepath.Join(t.TempDir(), "k3s"), "k3s version v1.37.2+k3s1\n")
	config := providerConfig(dir) + fmt.Sprintf(`
resource "testbed_k3s_cluster" "test" {
  name = "edge"
  %s
  agents = [{ host = "ssh://b", node_ip = "198.19.0.12" }]
  binary = { source = %q }
}
`, k3sServer("ssh://edge", "198.19.0.11"), binary)
	abandon := func(name string) {
		records := ssh.NewOpener(ssh.Config{Records: ssh.Records(filepath.Join(dir, "ssh"))})
		if err := records.Remember(ssh.Target{Address: name}, ssh.Record{Abandon: true}); err != nil {
			t.Fatal(err)
		}
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(server, agent),
		Steps: []resource.TestStep{
			{Config: config},
			{
				PreConfig:   func() { agent.Unreachable = true },
				Config:      config,
				ExpectError: wrapped("A node that cannot be asked is not taken for removed"),
			},
			{
				PreConfig: func() { abandon("b") },
				Config:    config, PlanOnly: true,
			},
			{
				PreConfig:   func() { server.Unreachable = true },
				Config:      config,
				ExpectError: wrapped("A cluster that cannot be asked is not taken for removed"),
			},
			{
				PreConfig: func() { abandon("edge") },
				Config:    providerConfig(dir),
			},
		},
	})
	if len(server.Services()) != 1 || len(agent.Services()) != 1 {
		t.Errorf("services %v and %v, want what was left alone", server.Services(), agent.Services())
	}
}

// releases serves files in the layout of k3s's releases.
func releases(t *testing.T, version string, files map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/k3s/"+strings.ReplaceAll(version, "+", "%2B")+"/")
		content, there := files[name]
		if !ok || !there {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/k3s"
}

// Every node gets the release's files of its own architecture, if they have the
// published checksums.
func TestK3sClusterRelease(t *testing.T) {
	const version = "v1.37.1+k3s2"
	programs := map[string]string{"k3s": "k3s version v1.37.1+k3s2 (amd64)\n", "k3s-arm64": "k3s version v1.37.1+k3s2 (arm64)\n"}
	files := map[string]string{
		"k3s": programs["k3s"], "k3s-arm64": programs["k3s-arm64"],
		"k3s-airgap-images-amd64.tar.zst": "images", "k3s-airgap-images-arm64.tar.zst": "images of arm64",
		"sha256sum-amd64.txt": k3stest.Sum(programs["k3s"]) + "  k3s\n" + k3stest.Sum("images") + "  k3s-airgap-images-amd64.tar.zst\n",
		// Newer releases have the images' sum in a file of its own.
		"sha256sum-arm64.txt":               k3stest.Sum(programs["k3s-arm64"]) + "  k3s-arm64\n",
		"k3s-airgap-images-arm64.sha256sum": k3stest.Sum("images of arm64") + "  k3s-airgap-images-arm64.tar.zst\n",
	}
	config := func(version, mirror string) string {
		return k3sConfig(t, k3sServer("local://edge", "198.19.0.11"), `agents = [{ host = "local://b", node_ip = "198.19.0.12" }]`,
			fmt.Sprintf("version = %q", version), fmt.Sprintf("mirror = %q", mirror))
	}
	machines := func() (*k3stest.Machine, *k3stest.Machine) {
		server := k3stest.New(t)
		server.HostInfo.Arch = "amd64"
		agent := k3stest.NewAgent(server, "local://b", "198.19.0.12")
		agent.HostInfo.Arch = "arm64"
		return server, agent
	}
	server, agent := machines()
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: k3sFactories(server, agent),
		Steps: []resource.TestStep{{
			Config:           config(version, releases(t, version, files)),
			ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			Check: func(*terraform.State) error {
				for machine, want := range map[*k3stest.Machine][]string{server: {programs["k3s"], "images"}, agent: {programs["k3s-arm64"], "images of arm64"}} {
					got := []string{machine.Files()["/usr/local/bin/k3s"].Content}
					for path, file := range machine.Files() {
						if strings.HasPrefix(path, "/var/lib/rancher/k3s/agent/images/") {
							got = append(got, file.Content)
						}
					}
					if !slices.Equal(got, want) {
						return fmt.Errorf("%s has %q, want %q", machine.URL(), got, want)
					}
				}
				return nil
			},
		}},
	})
	damaged := maps.Clone(files)
	damaged["k3s-arm64"] = "k3s version v1.37.1+k3s2 (half"
	unsigned := maps.Clone(files)
	delete(unsigned, "sha256sum-amd64.txt")
	for name, test := range map[string]struct {
		files   map[string]string
		version string
		want    string
	}{
		"damaged":      {damaged, version, "not " + k3stest.Sum(programs["k3s-arm64"]) + " as wanted"},
		"no checksums": {unsigned, version, "find the checksum of k3s: none of .*/sha256sum-amd64.txt names it"},
		"no release":   {files, "v1.37.9+k3s1", "none of .*v1.37.9%2Bk3s1/sha256sum-amd64.txt names it"},
	} {
		t.Run(name, func(t *testing.T) {
			server, agent := machines()
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: k3sFactories(server, agent),
				Steps:                    []resource.TestStep{{Config: config(test.version, releases(t, version, test.files)), ExpectError: wrapped(test.want)}},
			})
			if len(server.Files())+len(agent.Files()) > 0 {
				t.Errorf("hosts were touched: %v %v", server.Files(), agent.Files())
			}
		})
	}
}
