package provider

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative/ingress"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// TestAccKnativeConformance runs Knative's own suite for ingresses against the
// built-in one.
func TestAccKnativeConformance(t *testing.T) {
	preCheck(t)
	suite, images := needFile(t, "TESTBED_KNATIVE_CONFORMANCE"), needFile(t, "TESTBED_KNATIVE_CONFORMANCE_IMAGES")
	manifest, programs := needFile(t, "TESTBED_KNATIVE_MANIFEST"), needFile(t, "TESTBED_KNATIVE_IMAGES")
	dir := t.TempDir()
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{{
			Config: knativeCluster(t, dir) + fmt.Sprintf(`
resource "testbed_knative" "test" {
  cluster       = testbed_k3s_cluster.test.url
  manifests     = [%q]
  airgap_images = [%q]
}
`, manifest, programs),
			Check: func(*terraform.State) error {
				hosts := local.NewOpener(dir)
				edge, err := hosts.Open(t.Context(), local.URL("edge"))
				if err != nil {
					return err
				}
				cluster, err := kube.NewOpener(hosts).Open(t.Context(), "k3s+local://edge")
				if err != nil {
					return err
				}
				defer cluster.Close()
				return conform(t, edge, cluster, suite, images)
			},
		}},
	})
}

// The suite wants its pods in this namespace, and its images from a registry;
// a node that has them asks none.
const (
	conformanceNamespace = "serving-tests"
	conformanceImages    = "dev.local/knative.dev/networking/test/test_images"
	conformanceTag       = "v0.50.0"
)

// conform runs the suite on the node of a cluster.
func conform(t *testing.T, node host.Host, cluster *kube.Client, suite, images string) error {
	ctx := t.Context()
	if err := k3s.LoadArchives(ctx, cluster, []string{conformanceImages + "/runtime:" + conformanceTag}, []string{images}); err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": conformanceNamespace},
	}}
	if err := cluster.Apply(ctx, namespace); err != nil {
		return err
	}
	var log bytes.Buffer
	began := time.Now()
	_, err := node.Run(ctx, host.Command{
		Argv: []string{
			suite, "-test.v", "-test.parallel=6", "-test.timeout=10m",
			"-kubeconfig=/etc/rancher/k3s/k3s.yaml", "-ingressendpoint=198.18.31.11", "-ingressClass=" + ingress.Class,
			"-dockerrepo=" + conformanceImages, "-tag=" + conformanceTag,
			// It answers without TLS only.
			"-enable-beta", "-skip-tests=tls",
		},
		Stdout: &log, Stderr: &log,
	})
	t.Logf("the suite took %.0f s", time.Since(began).Seconds())
	for _, line := range conformanceResult.FindAllString(log.String(), -1) {
		t.Log(strings.TrimSpace(line))
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	return nil
}

// conformanceResult is the line of each of the suite's tests.
var conformanceResult = regexp.MustCompile(`(?m)^    --- \w+: TestIngress/.*$`)
