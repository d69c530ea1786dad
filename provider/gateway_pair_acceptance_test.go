package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// gatewayPair are two functions on cloud, one of which edge calls through a
// pair of gateways.
const gatewayPair = `
resource "testbed_function" "hello" {
  cluster  = local.cloud
  name     = "hello-world"
  builtin  = "hello-world"
  underlay = "198.18.71.12"
}

resource "testbed_function" "echo" {
  cluster = local.cloud
  name    = "payload-echo"
  builtin = "payload-echo"
}

resource "testbed_gateway_pair" "this" {
  name          = "edge-cloud"
  client        = local.edge
  server        = local.cloud
  image         = "localhost/haproxy:debian"
  airgap_images = ["GATEWAY_IMAGES"]
  services = {
    hello-world = { port = testbed_function.hello.port }
  }
}
`

// sideNetwork joins the two hosts once more, past the addresses of their nodes.
const sideNetwork = `
resource "testbed_network" "side" {
  name = "side"
  cidr = "198.18.71.0/24"
}
`

// TestAccGatewayPair goes through the life of a pair on one pair of clusters,
// since clusters take long to start.
func TestAccGatewayPair(t *testing.T) {
	preCheck(t)
	dataDir := t.TempDir()
	files := strings.NewReplacer(
		"K3S_BINARY", needFile(t, "TESTBED_K3S_BINARY"),
		"K3S_IMAGES", needFile(t, "TESTBED_K3S_AIRGAP_IMAGES"),
		"GATEWAY_IMAGES", needFile(t, "TESTBED_GATEWAY_IMAGES"),
		`address = "198.18.70.11" }]`, `address = "198.18.70.11" }, { network = testbed_network.side.name, address = "198.18.71.11" }]`,
		`address = "198.18.70.12" }]`, `address = "198.18.70.12" }, { network = testbed_network.side.name, address = "198.18.71.12" }]`)
	base := providerConfig(dataDir) + sideNetwork + files.Replace(twoClusters)
	one := base + files.Replace(gatewayPair)
	change := func(oldnew ...string) string { return strings.NewReplacer(oldnew...).Replace(one) }
	const services = `    hello-world = { port = testbed_function.hello.port }`
	two := change(services, `
    hello = { service = testbed_function.hello.name, port = testbed_function.hello.port, listen_port = 8000 }
    payload-echo = { port = testbed_function.echo.port }`,
		`name          = "edge-cloud"`, "name = \"edge-cloud\"\n  certificate_version = \"2\"\n  key_algorithm = \"ecdsa-p256\"\n  node_port = 30443")

	const (
		edge, cloud = "k3s+local://edge", "k3s+local://cloud"
		namespace   = "testbed-gateway-edge-cloud"
		pair        = "testbed_gateway_pair.this"
	)
	clusters := kube.NewOpener(local.NewOpener(dataDir))
	in := func(cluster string, work func(*kube.Client) error) {
		t.Helper()
		client, err := clusters.Open(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := work(client); err != nil {
			t.Fatal(err)
		}
	}
	// call calls the services from edge's host, each at its address there.
	call := func(wanted ...string) resource.TestCheckFunc {
		return func(s *terraform.State) error {
			client, err := clusters.Open(t.Context(), edge)
			if err != nil {
				return err
			}
			defer client.Close()
			found, err := client.List(t.Context(), "v1", "Service", namespace, "")
			if err != nil {
				return err
			}
			if len(found) != len(wanted) {
				return fmt.Errorf("%d services, want %q", len(found), wanted)
			}
			payload := bytes.Repeat([]byte("0123456789abcdef"), 6400)
			for _, name := range wanted {
				service, err := client.Get(t.Context(), kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name})
				if err != nil {
					return err
				}
				address, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
				_, port, _ := strings.Cut(s.RootModule().Resources[pair].Primary.Attributes["urls."+name], ".local:")
				answer, err := callFrom(clusters, edge, "http://"+address+":"+port, payload)
				if err != nil {
					return fmt.Errorf("call %s: %w%s", name, err, gatewayLogs(t.Context(), clusters, namespace, edge, cloud))
				}
				if strings.HasPrefix(name, "hello") && len(answer) != 1024 || name == "payload-echo" && !bytes.Equal(answer, payload) {
					return fmt.Errorf("%s answers %d bytes", name, len(answer))
				}
			}
			return nil
		}
	}
	updated := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(pair, plancheck.ResourceActionUpdate)}}

	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dataDir) },
		Steps: []resource.TestStep{
			{
				Config: one,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(pair, tfjsonpath.New("urls"), knownvalue.MapExact(map[string]knownvalue.Check{
						"hello-world": knownvalue.StringExact("http://hello-world.testbed-gateway-edge-cloud.svc.cluster.local:80"),
					})),
					statecheck.ExpectKnownValue(pair, tfjsonpath.New("gateway").AtMapKey("host"), knownvalue.StringExact("198.18.70.12")),
				},
				Check: resource.ComposeAggregateTestCheckFunc(noPrivateKey, call("hello-world"), func(s *terraform.State) error {
					url := s.RootModule().Resources["testbed_function.hello"].Primary.Attributes["underlay_url"]
					if !strings.HasPrefix(url, "http://198.18.71.12:3") {
						return fmt.Errorf("the underlay's URL is %q", url)
					}
					hello, err := callFrom(clusters, edge, url, nil)
					if err != nil || len(hello) != 1024 {
						return fmt.Errorf("%s answers %d bytes, %w", url, len(hello), err)
					}
					return nil
				}),
			},
			{Config: one, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}},
			{
				ResourceName: pair, ImportState: true, ImportStateId: edge + "," + cloud + ",edge-cloud", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"timeouts", "airgap_images"},
			},
			{ResourceName: pair, ImportState: true, ImportStateId: edge + "/edge-cloud", ExpectError: wrapped(`is not of the form CLIENT,SERVER,NAME, for example`)},
			{
				Config:           two,
				ConfigPlanChecks: updated,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(pair, tfjsonpath.New("gateway").AtMapKey("port"), knownvalue.Int64Exact(30443)),
				},
				Check: resource.ComposeAggregateTestCheckFunc(noPrivateKey, call("hello", "payload-echo")),
			},
			{Config: two, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}},
			{
				PreConfig: func() {
					in(edge, func(client *kube.Client) error {
						return client.Delete(t.Context(), kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "client"},
							kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: "hello"})
					})
					in(cloud, func(client *kube.Client) error {
						config, err := client.Get(t.Context(), kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "server"})
						if err != nil {
							return err
						}
						if err := unstructured.SetNestedField(config.Object, "global\n", "data", "haproxy.cfg"); err != nil {
							return err
						}
						return client.Apply(t.Context(), config)
					})
				},
				Config:           two,
				ConfigPlanChecks: updated,
				Check:            call("hello", "payload-echo"),
			},
			{
				// Keys that do not belong together are as good as none.
				PreConfig: func() {
					in(cloud, func(client *kube.Client) error {
						return client.Delete(t.Context(), kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: "server"})
					})
				},
				Config:           two,
				ConfigPlanChecks: updated,
				Check:            call("hello", "payload-echo"),
			},
			{
				Config:      change(services, `    hello-world = { port = 9999 }`),
				ExpectError: wrapped(`take hello-world to its service: Service default/hello-world of k3s.local://cloud has no port 9999; it has \[8080\]`),
			},
			{
				Config:      change(services, `    other = { port = 80, namespace = "apps" }`),
				ExpectError: wrapped(`take other to its service: k3s.local://cloud has no Service apps/other\. Reference the port of a testbed_function`),
			},
			{
				Config:      change(`client        = local.edge`, `client = "k3s+local://mars"`),
				ExpectError: wrapped(`There is no cluster k3s.local://mars\. Use the url of a testbed_k3s_cluster`),
			},
			{
				Config:      change(`image         = "localhost/haproxy:debian"`, "image = \"localhost:1/haproxy:1\"\n  key_algorithm = \"ecdsa-p256\"\n  timeouts = { create = \"30s\" }"),
				ExpectError: wrapped(`container haproxy waits: (ErrImagePull|ImagePullBackOff)`),
			},
			{
				Config:      change(`underlay = "198.18.71.12"`, `underlay = "198.18.71.99"`),
				ExpectError: wrapped(`the node port does not answer at the underlay address: .*198\.18\.71\.99.* Check that the address is one of the node, and that kube-proxy answers`),
			},
			{
				Config: base,
				Check: func(*terraform.State) error {
					return errors.Join(noTrace(clusters, edge), noTrace(clusters, cloud))
				},
			},
		},
	})
}

// What is wrong with a pair shows in the plan, before any cluster is asked.
func TestGatewayPairRefuses(t *testing.T) {
	config := func(attribute string, value any) string {
		attributes := map[string]any{
			"name": "edge-cloud", "client": "k3s+local://edge", "server": "k3s+local://cloud",
			"services": map[string]any{"hello-world": map[string]any{"port": 8080}},
		}
		attributes[attribute] = value
		text, err := json.Marshal(map[string]any{"resource": map[string]any{"testbed_gateway_pair": map[string]any{"this": attributes}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, test := range map[string]struct {
		attribute string
		value     any
		want      string
	}{
		"name":        {"name", "Edge", `must be up to 40 small letters, digits and hyphens`},
		"cluster":     {"server", "cloud", `must be the URL of a cluster`},
		"no services": {"services", map[string]any{}, `must contain at least 1 elements`},
		"service":     {"services", map[string]any{"hello.world": map[string]any{"port": 80}}, `must be at most 63 small letters, digits and hyphens`},
		"no port":     {"services", map[string]any{"hello": map[string]any{}}, `has no port; set it`},
		"port":        {"services", map[string]any{"hello": map[string]any{"port": 0}}, `must be between 1 and 65535`},
		"node port":   {"node_port", 443, `must be between 30000 and 32767`},
		"keys":        {"key_algorithm", "dsa", `must be one of: \["rsa-4096" "ecdsa-p256"\]`},
		"archive":     {"airgap_images", []string{"images.tar"}, `must be an absolute path on this machine`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      config(test.attribute, test.value),
					PlanOnly:    true,
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}

// gatewayLogs returns what the gateways of a pair wrote last.
func gatewayLogs(ctx context.Context, clusters *kube.Opener, namespace string, urls ...string) string {
	var text strings.Builder
	for _, url := range urls {
		client, err := clusters.Open(ctx, url)
		if err != nil {
			return err.Error()
		}
		defer client.Close()
		pods, err := client.List(ctx, "v1", "Pod", namespace, "")
		if err != nil {
			return err.Error()
		}
		for i := range pods {
			log, err := client.Logs(ctx, namespace, pods[i].GetName(), "", 20)
			fmt.Fprintf(&text, "\nthe log of %s of %s, %v:\n%s", pods[i].GetName(), url, err, log)
		}
	}
	return text.String()
}
