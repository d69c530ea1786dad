package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// coldStartTestbed is a cluster with Knative on the server, and, with an agent,
// a function that has its pods there, behind an emulated link.
func coldStartTestbed(t *testing.T, dir string, agent bool) string {
	t.Helper()
	binary, images := k3sArtefacts(t)
	manifest, archive := needFile(t, "TESTBED_KNATIVE_MANIFEST"), needFile(t, "TESTBED_KNATIVE_IMAGES")
	archives, err := json.Marshal(append(images[:len(images):len(images)], archive)) // the agent's pods need Knative's sidecar
	if err != nil {
		t.Fatal(err)
	}
	agents, function := "", ""
	if agent {
		agents = `agents = [{ host = testbed_local_host.far.url, node_ip = "198.18.31.12", interface = "eth0" }]`
		function = `
resource "testbed_function" "hello" {
  cluster    = testbed_knative.test.cluster
  name       = "hello-world"
  builtin    = "hello-world"
  runtime    = "knative"
  scale      = { min = 0 }
  depends_on = [testbed_knative.test]
}
`
	}
	return k3sMachine(dir) + fmt.Sprintf(`
resource "testbed_local_host" "far" {
  name     = "far"
  networks = [{ network = testbed_network.wan.name, address = "198.18.31.12" }]
}

resource "testbed_link" "this" {
  network = testbed_network.wan.name
  between = [testbed_local_host.edge.url, testbed_local_host.far.url]
  profile = jsonencode({})
}

resource "testbed_k3s_cluster" "test" {
  name          = "edge"
  servers       = [{ host = testbed_local_host.edge.url, node_ip = "198.18.31.11", interface = "eth0" }]
  %s
  cluster_cidr  = "10.144.0.0/16"
  service_cidr  = "10.145.0.0/16"
  binary        = { source = %q }
  airgap_images = %s
}

resource "testbed_knative" "test" {
  cluster                    = testbed_k3s_cluster.test.url
  manifests                  = [%q]
  stable_window              = "6s"
  scale_to_zero_grace_period = "1s"
}
%s`, agents, binary, archives, manifest, function)
}

// coldStarts is a run of few cold starts on that testbed, with further lines.
func coldStarts(idle string, lines ...string) string {
	return fmt.Sprintf(`
resource "testbed_benchmark_run" "cold" {
  name      = "cold"
  client    = { cluster = testbed_k3s_cluster.test.url }
  functions = { hello = { function = testbed_function.hello } }
  arms      = { direct = { urls = { hello = testbed_function.hello.url } } }
  scenarios = { edge = { profiles = { (testbed_link.this.id) = jsonencode({ rtt = "20ms" }) } } }
  load      = { model = "cold-start", idle_timeout = %q }
  requests  = 3
  blocks    = 1
  verify    = { packets = 20, rtt_tolerance = "50ms" }
  %s
}
`, idle, strings.Join(lines, "\n  "))
}

func TestAccColdStarts(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	client := func() *kube.Client {
		c, err := kube.NewOpener(local.NewOpener(dir)).Open(t.Context(), "k3s+local://edge")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	const run = "testbed_benchmark_run.cold"
	part := func(name string, check knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(run, tfjsonpath.New("results").AtSliceIndex(0).AtMapKey(name), check)
	}
	results := fmt.Sprintf("results_dir = %q", t.TempDir())
	near, far := coldStartTestbed(t, dir, false), coldStartTestbed(t, dir, true)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{Config: near},
			{
				// What comes from now on comes to the agent.
				PreConfig: func() {
					if err := cordon(t.Context(), client(), "edge"); err != nil {
						t.Fatal(err)
					}
				},
				Config:      far + coldStarts("1s", results),
				ExpectError: wrapped(`function default/hello-world still has the pod hello-world-00001-deployment-.*not within 1s, the idle_timeout of the load`),
			},
			{
				Config:           far + coldStarts("1m", results),
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
				ConfigStateChecks: []statecheck.StateCheck{
					part("connection", knownvalue.StringExact("new")),
					part("count", knownvalue.Int64Exact(3)), part("errors", knownvalue.Int64Exact(0)),
					part("first_ms", knownvalue.Null()), part("median_ms", knownvalue.NotNull()),
					part("cold_decision_ms", knownvalue.NotNull()), part("cold_answer_ms", knownvalue.NotNull()),
				},
				Check: func(s *terraform.State) error {
					return plausible(t, client(), s.RootModule().Resources[run].Primary.Attributes["results_folder"])
				},
			},
		},
	})
}

// cordon has a node take no more pods.
func cordon(ctx context.Context, cluster *kube.Client, node string) error {
	return cluster.Apply(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node}, "spec": map[string]any{"unschedulable": true},
	}})
}

// plausible holds the stages of a run's pods against what Kubernetes itself
// dates: the scheduler's events, to the microsecond by the same clock.
func plausible(t *testing.T, cluster *kube.Client, folder string) error {
	events, err := cluster.List(t.Context(), "v1", "Event", "default", "")
	if err != nil {
		return err
	}
	var scheduled []time.Time
	for i := range events {
		text := func(path ...string) string {
			value, _, _ := unstructured.NestedString(events[i].Object, path...)
			return value
		}
		if text("reason") == "Scheduled" && strings.HasPrefix(text("involvedObject", "name"), "hello-world-") {
			at, err := time.Parse(time.RFC3339Nano, text("eventTime"))
			if err != nil {
				return err
			}
			scheduled = append(scheduled, at)
		}
	}
	var problems []string
	err = bench.ReadSamples(folder, func(s *bench.Sample) {
		p := s.Pod
		// The kubelet is behind a link of 20 ms.
		if p.Created <= 0 || p.Scheduled < p.Created || p.Started < p.Scheduled+20*time.Millisecond || p.Ready != 0 && p.Ready < p.Started || p.Created > s.Total {
			problems = append(problems, fmt.Sprintf("the pod came up at %+v of %s", p, s.Total))
		}
		nearest := time.Hour
		for _, at := range scheduled {
			if off := s.Sent.Add(p.Scheduled).Sub(at); off.Abs() < nearest.Abs() {
				nearest = off
			}
		}
		if nearest.Abs() > 500*time.Millisecond {
			problems = append(problems, fmt.Sprintf("the pod was seen to be scheduled %s after the scheduler's event", nearest))
		}
		t.Logf("cold start of %s: created %s, scheduled %s (%s after the scheduler's event), started %s, ready %s; within %s",
			s.Total, p.Created, p.Scheduled, nearest, p.Started, p.Ready, p.Within)
	})
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	return err
}
