package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// knativeCluster is a machine with a cluster of one node.
func knativeCluster(t *testing.T, dir string) string {
	t.Helper()
	binary, images := k3sArtefacts(t)
	archives, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	return k3sMachine(dir) + fmt.Sprintf(`
resource "testbed_k3s_cluster" "test" {
  name          = "edge"
  servers       = [{ host = testbed_local_host.edge.url, node_ip = "198.18.31.11", interface = "eth0" }]
  cluster_cidr  = "10.144.0.0/16"
  service_cidr  = "10.145.0.0/16"
  binary        = { source = %q }
  airgap_images = %s
}
`, binary, archives)
}

func TestAccKnative(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	cluster := knativeCluster(t, dir)
	manifest, images := needFile(t, "TESTBED_KNATIVE_MANIFEST"), needFile(t, "TESTBED_KNATIVE_IMAGES")
	knative := func(lines ...string) string {
		return fmt.Sprintf(`
resource "testbed_knative" "test" {
  cluster       = testbed_k3s_cluster.test.url
  manifests     = [%q]
  airgap_images = [%q]
  %s
}
`, manifest, images, strings.Join(lines, "\n  "))
	}
	const functions = `
resource "testbed_function" "hello" {
  cluster    = testbed_knative.test.cluster
  name       = "hello-world"
  builtin    = "hello-world"
  runtime    = "knative"
  depends_on = [testbed_knative.test]
}

resource "testbed_function" "echo" {
  cluster    = testbed_knative.test.cluster
  name       = "payload-echo"
  builtin    = "payload-echo"
  runtime    = "knative"
  scale      = { min = 1, max = 2, concurrency = 1 }
  depends_on = [testbed_knative.test]
}
`
	run := `
resource "testbed_benchmark_run" "ways" {
  name      = "ways"
  client    = { cluster = testbed_knative.test.cluster }
  functions = { hello = { protocol = "h2c" }, echo = { payload_bytes = 1000, echo = true } }
  baseline  = "pods"
  arms = {
    pods = { urls = { hello = testbed_function.hello.node_port_url, echo = testbed_function.echo.cluster_ip_url } }
    ingress = {
      urls  = { hello = testbed_knative.test.ingress_url, echo = "http://${testbed_knative.test.ingress_cluster_ip}" }
      hosts = { hello = testbed_function.hello.host, echo = testbed_function.echo.service }
    }
  }
  scenarios    = { local = { profiles = {} } }
  requests     = 4
  blocks       = 1
  keep_results = false
  results_dir  = "` + t.TempDir() + `"
}
`
	const resourceName, hello = "testbed_knative.test", "testbed_function.hello"
	edge := func() host.Host {
		h, err := local.NewOpener(dir).Open(t.Context(), local.URL("edge"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	client := func() *kube.Client {
		c, err := kube.NewOpener(local.NewOpener(dir)).Open(t.Context(), "k3s+local://edge")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	var began time.Time
	begin := func() { began = time.Now() }
	took := func(what string) {
		t.Logf("%s took %.1f s, plan and check included", what, time.Since(began).Seconds())
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{
				Config: cluster + `
resource "testbed_function" "hello" {
  cluster = testbed_k3s_cluster.test.url
  name    = "hello-world"
  builtin = "hello-world"
  runtime = "knative"
}
`,
				ExpectError: wrapped(`has no Knative; declare a testbed_knative`),
			},
			{
				Config:      cluster + knative(`ingress = "traefik"`),
				ExpectError: wrapped(`no Deployment and no DaemonSet of the cluster runs Traefik with its Knative provider.*use ingress = "built-in"`),
			},
			{
				PreConfig:        begin,
				Config:           cluster + knative(),
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(resourceName, tfjsonpath.New("version"), knownvalue.StringExact("0.50.0")),
				},
				Check: func(*terraform.State) error {
					took("Knative")
					return residentMemory(t, edge())
				},
			},
			{
				PreConfig:        begin,
				Config:           cluster + knative() + functions,
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(hello, tfjsonpath.New("host"), knownvalue.StringExact("hello-world.default.knative.test")),
					statecheck.ExpectKnownValue(hello, tfjsonpath.New("revision"), knownvalue.StringExact("hello-world-00001")),
				},
				Check: func(s *terraform.State) error {
					took("two functions")
					return callKnative(t.Context(), edge(), s)
				},
			},
			{
				// A run calls the pods and the ingress, and asks that for each function.
				Config: cluster + knative() + functions + run,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("testbed_benchmark_run.ways", tfjsonpath.New("results"), knownvalue.ListSizeExact(8)),
				},
				Check: func(s *terraform.State) error {
					for name, value := range s.RootModule().Resources["testbed_benchmark_run.ways"].Primary.Attributes {
						if strings.HasPrefix(name, "results.") && (strings.HasSuffix(name, ".errors") && value != "0" || strings.HasSuffix(name, ".count") && value != "4") {
							return fmt.Errorf("%s is %s", name, value)
						}
					}
					return nil
				},
			},
			{
				ResourceName: resourceName, ImportState: true, ImportStateId: "k3s+local://edge", ImportStateVerify: true,
				// A duration may be written in several ways.
				ImportStateVerifyIgnore: []string{"manifests", "airgap_images", "timeouts", "stable_window"},
			},
			{
				ResourceName: hello, ImportState: true, ImportStateId: "k3s+local://edge/default/hello-world", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"timeouts"},
			},
			{
				// A function that was deleted by hand comes back, and a change of the
				// settings reaches Knative.
				PreConfig: func() {
					err := client().Delete(t.Context(), kube.Ref{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: "default", Name: "hello-world"})
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: cluster + knative(`stable_window = "30s"`, `scale_to_zero = false`) + functions,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(hello, plancheck.ResourceActionCreate),
					plancheck.ExpectResourceAction(resourceName, plancheck.ResourceActionUpdate),
				}},
				Check: func(s *terraform.State) error { return callKnative(t.Context(), edge(), s) },
			},
			{
				PreConfig: begin,
				Config:    cluster,
				Check: func(*terraform.State) error {
					took("the removal of all")
					return noKnative(t.Context(), client())
				},
			},
		},
	})
}

// callKnative calls the functions by every way there is: their pods and the
// ingress, from outside the cluster and from inside.
func callKnative(ctx context.Context, from host.Host, s *terraform.State) error {
	knative := s.RootModule().Resources["testbed_knative.test"].Primary.Attributes
	for name, payload := range map[string]string{"hello": "", "echo": strings.Repeat("payload ", 12800)} {
		function := s.RootModule().Resources["testbed_function."+name].Primary.Attributes
		for _, way := range []struct{ url, host string }{
			{function["node_port_url"], ""},
			{function["cluster_ip_url"], ""},
			{knative["ingress_url"], function["host"]},
			{"http://" + knative["ingress_cluster_ip"], function["service"]},
		} {
			answer, err := callWithHost(ctx, from, way.url, way.host, payload)
			if err != nil {
				return fmt.Errorf("call %s at %s for host %q: %w", name, way.url, way.host, err)
			}
			if name == "echo" && string(answer) != payload || name == "hello" && len(answer) != 1024 {
				return fmt.Errorf("call %s at %s for host %q: got %d bytes", name, way.url, way.host, len(answer))
			}
		}
	}
	if _, err := callWithHost(ctx, from, knative["ingress_url"], "nobody.default.knative.test", ""); err == nil || !strings.Contains(err.Error(), "404") {
		return fmt.Errorf("call a host that nobody has: got %w, want 404", err)
	}
	return nil
}

func callWithHost(ctx context.Context, from host.Host, url, name, payload string) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return from.Dial(ctx, network, address)
	}, DisableKeepAlives: true}, Timeout: time.Minute}
	method := http.MethodGet
	if payload != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(payload))
	if err != nil {
		return nil, err
	}
	if name != "" {
		request.Host = name
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}

// residentMemory prints what the programs of the control plane take, which an
// edge node has to have to spare.
func residentMemory(t *testing.T, h host.Host) error {
	const most = 300 // MiB
	out, err := h.Run(t.Context(), host.Command{Argv: []string{"ps", "-eo", "rss=,args="}})
	if err != nil {
		return err
	}
	var text strings.Builder
	total := 0
	for line := range strings.Lines(string(out.Stdout)) {
		var kib int
		var program string
		if n, _ := fmt.Sscan(line, &kib, &program); n == 2 && (strings.HasPrefix(program, "/ko-app/") || strings.Contains(line, "testbed-agent ingress")) {
			fmt.Fprintf(&text, "%s %d MiB, ", strings.TrimPrefix(program, "/ko-app/"), kib>>10)
			total += kib
		}
	}
	t.Logf("Knative's programs are resident with %d MiB: %s", total>>10, strings.TrimSuffix(text.String(), ", "))
	if total == 0 || total>>10 > most {
		return fmt.Errorf("Knative's programs are resident with %d MiB; they are to be seen, and to take %d at most", total>>10, most)
	}
	return nil
}

// noKnative reports anything of Knative that a cluster still has.
func noKnative(ctx context.Context, cluster *kube.Client) error {
	var left bytes.Buffer
	for _, kind := range []struct{ version, name string }{
		{"v1", "Namespace"}, {"apiextensions.k8s.io/v1", "CustomResourceDefinition"},
		{"rbac.authorization.k8s.io/v1", "ClusterRole"}, {"rbac.authorization.k8s.io/v1", "ClusterRoleBinding"},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"}, {"admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"},
		{"v1", "Service"}, {"apps/v1", "Deployment"}, {"v1", "Pod"},
	} {
		list, err := cluster.List(ctx, kind.version, kind.name, "", "")
		if err != nil {
			return err
		}
		for i := range list {
			name := list[i].GetNamespace() + "/" + list[i].GetName()
			if slices.ContainsFunc([]string{"knative", "testbed-ingress", "hello-world", "payload-echo"}, func(part string) bool { return strings.Contains(name, part) }) {
				fmt.Fprintf(&left, " %s %s", kind.name, name)
			}
		}
	}
	if left.Len() > 0 {
		return fmt.Errorf("this is left of Knative:%s", left.String())
	}
	return nil
}
