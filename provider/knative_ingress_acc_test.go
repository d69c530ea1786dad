package provider

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// TestAccKnativeIngresses calls functions through each ingress and past it, and
// prints what the ingress adds. It takes Traefik, which make test does not
// build; make bench-ingress does.
func TestAccKnativeIngresses(t *testing.T) {
	preCheck(t)
	if os.Getenv("TESTBED_TRAEFIK_IMAGES") == "" {
		t.Skip("TESTBED_TRAEFIK_IMAGES is not set; make bench-ingress sets it")
	}
	images := needFile(t, "TESTBED_TRAEFIK_IMAGES")
	manifest, programs := needFile(t, "TESTBED_KNATIVE_MANIFEST"), needFile(t, "TESTBED_KNATIVE_IMAGES")
	for _, ingress := range []string{"built-in", "traefik"} {
		t.Run(ingress, func(t *testing.T) {
			dir := t.TempDir()
			resource.Test(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				CheckDestroy:             func(*terraform.State) error { return gone(dir) },
				Steps: []resource.TestStep{
					{Config: knativeCluster(t, dir)},
					{
						PreConfig: func() {
							if ingress != "traefik" {
								return
							}
							if err := runTraefik(t.Context(), dir, images); err != nil {
								t.Fatal(err)
							}
						},
						Config: knativeCluster(t, dir) + ingressRun(manifest, programs, ingress, t.TempDir()),
						Check: func(s *terraform.State) error {
							if err := printRun(t, s); err != nil {
								return err
							}
							edge, err := local.NewOpener(dir).Open(t.Context(), local.URL("edge"))
							if err != nil {
								return err
							}
							return callKnative(t.Context(), edge, s)
						},
					},
				},
			})
		})
	}
}

// ingressRun calls functions through an ingress and past it, on the test's
// cluster.
func ingressRun(manifest, programs, ingress, results string) string {
	return fmt.Sprintf(`
resource "testbed_knative" "test" {
  cluster       = testbed_k3s_cluster.test.url
  manifests     = [%q]
  airgap_images = [%q]
  ingress       = %q
}

resource "testbed_function" "hello" {
  cluster    = testbed_knative.test.cluster
  name       = "hello-world"
  builtin    = "hello-world"
  runtime    = "knative"
  scale      = { min = 1 }
  depends_on = [testbed_knative.test]
}

resource "testbed_function" "echo" {
  cluster    = testbed_knative.test.cluster
  name       = "payload-echo"
  builtin    = "payload-echo"
  runtime    = "knative"
  scale      = { min = 1 }
  depends_on = [testbed_knative.test]
}

resource "testbed_benchmark_run" "test" {
  name      = %[3]q
  client    = { cluster = testbed_k3s_cluster.test.url }
  functions = { hello = {}, echo = { payload_bytes = 102400 } }
  arms = {
    pods = { urls = { hello = testbed_function.hello.cluster_ip_url, echo = testbed_function.echo.cluster_ip_url } }
    ingress = { urls = {
      hello = "http://${testbed_function.hello.service}"
      echo  = "http://${testbed_function.echo.service}"
    } }
  }
  baseline    = "pods"
  scenarios   = { local = { profiles = {} } }
  connections = ["reuse"]
  requests    = 1000
  blocks      = 10
  results_dir = %q
  # Traefik cuts off the answers of some requests with a body; the table counts them.
  max_error_ratio = 0.5
}
`, manifest, programs, ingress, results)
}

// runTraefik runs Traefik on the test's cluster.
func runTraefik(ctx context.Context, dir, images string) error {
	cluster, err := kube.NewOpener(local.NewOpener(dir)).Open(ctx, "k3s+local://edge")
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := k3s.LoadArchives(ctx, cluster, []string{"localhost/traefik:v3.6.12"}, []string{images}); err != nil {
		return err
	}
	text, err := os.ReadFile("testdata/traefik.yaml")
	if err != nil {
		return err
	}
	objects, err := kube.Parse(text)
	if err != nil {
		return err
	}
	if err := cluster.Apply(ctx, objects...); err != nil {
		return err
	}
	return workload.AwaitAvailable(ctx, cluster, "traefik", "traefik", nil)
}

// printRun logs the table of the test's run.
func printRun(t *testing.T, s *terraform.State) error {
	run := s.RootModule().Resources["testbed_benchmark_run.test"].Primary.Attributes
	folder, err := bench.ReadFolder(run["results_folder"])
	if err != nil {
		return err
	}
	var text bytes.Buffer
	results, comparisons := folder.Summarize()
	if err := bench.Table(&text, results, comparisons); err != nil {
		return err
	}
	t.Logf("%s:\n%s", run["name"], text.String())
	return nil
}
