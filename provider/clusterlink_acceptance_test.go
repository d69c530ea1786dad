package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// twoClusters are two hosts on one network with a cluster each. Nothing here
// uses for_each: the test framework cannot read such a state.
const twoClusters = `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.70.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.70.11" }]
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.70.12" }]
}

resource "testbed_k3s_cluster" "edge" {
  name          = "edge"
  servers       = [{ host = testbed_local_host.edge.url, node_ip = "198.18.70.11" }]
  cluster_cidr  = "10.244.0.0/16"
  service_cidr  = "10.245.0.0/16"
  binary        = { source = "K3S_BINARY" }
  airgap_images = ["K3S_IMAGES"]
}

resource "testbed_k3s_cluster" "cloud" {
  name          = "cloud"
  servers       = [{ host = testbed_local_host.cloud.url, node_ip = "198.18.70.12" }]
  cluster_cidr  = "10.246.0.0/16"
  service_cidr  = "10.247.0.0/16"
  binary        = { source = "K3S_BINARY" }
  airgap_images = ["K3S_IMAGES"]
}

locals {
  edge  = testbed_k3s_cluster.edge.url
  cloud = testbed_k3s_cluster.cloud.url
}
`

// joined are the two clusters as peers, with two functions on cloud that edge
// imports.
const joined = `
resource "testbed_clusterlink_fabric" "this" {
  name = "continuum"
}

resource "testbed_clusterlink_peer" "edge" {
  cluster       = local.edge
  name          = "edge"
  fabric        = testbed_clusterlink_fabric.this.id
  dataplane     = "go"
  airgap_images = ["CLUSTERLINK_IMAGES"]
}

resource "testbed_clusterlink_peer" "cloud" {
  cluster       = local.cloud
  name          = "cloud"
  fabric        = testbed_clusterlink_fabric.this.id
  dataplane     = "go"
  airgap_images = ["CLUSTERLINK_IMAGES"]
}

resource "testbed_clusterlink_connection" "this" {
  cluster  = testbed_clusterlink_peer.edge.cluster
  peer     = testbed_clusterlink_peer.cloud.name
  gateways = [testbed_clusterlink_peer.cloud.gateway]
}

resource "testbed_function" "hello" {
  cluster = local.cloud
  name    = "hello-world"
  builtin = "hello-world"
}

resource "testbed_function" "echo" {
  cluster = local.cloud
  name    = "payload-echo"
  builtin = "payload-echo"
}

resource "testbed_clusterlink_export" "hello" {
  cluster = testbed_clusterlink_peer.cloud.cluster
  name    = testbed_function.hello.name
  port    = testbed_function.hello.port
}

resource "testbed_clusterlink_export" "echo" {
  cluster = testbed_clusterlink_peer.cloud.cluster
  name    = testbed_function.echo.name
  port    = testbed_function.echo.port
}

resource "testbed_clusterlink_import" "hello" {
  cluster = testbed_clusterlink_peer.edge.cluster
  name    = "hello"
  port    = 80
  sources = [{ peer = testbed_clusterlink_connection.this.peer, export = testbed_clusterlink_export.hello.name }]
}

resource "testbed_clusterlink_import" "echo" {
  cluster = testbed_clusterlink_peer.edge.cluster
  name    = "echo"
  port    = 80
  sources = [{ peer = testbed_clusterlink_connection.this.peer, export = testbed_clusterlink_export.echo.name }]
}
`

// allowed lets all clients use all services.
const allowed = `
resource "testbed_clusterlink_access_policy" "edge" {
  cluster = testbed_clusterlink_peer.edge.cluster
  name    = "allow-all"
  action  = "allow"
  from    = [{}]
  to      = [{}]
}

resource "testbed_clusterlink_access_policy" "cloud" {
  cluster    = testbed_clusterlink_peer.cloud.cluster
  name       = "allow-all"
  privileged = true
  action     = "allow"
  from       = [{}]
  to         = [{}]
}
`

// TestAccClusterlink goes through the life of a pair of peers on one pair of
// clusters, since clusters take long to start.
func TestAccClusterlink(t *testing.T) {
	preCheck(t)
	dataDir := t.TempDir()
	files := strings.NewReplacer(
		"K3S_BINARY", needFile(t, "TESTBED_K3S_BINARY"),
		"K3S_IMAGES", needFile(t, "TESTBED_K3S_AIRGAP_IMAGES"),
		"CLUSTERLINK_IMAGES", needFile(t, "TESTBED_CLUSTERLINK_IMAGES"))
	base := providerConfig(dataDir) + files.Replace(twoClusters)
	pair := base + files.Replace(joined)
	change := func(config string, oldnew ...string) string { return strings.NewReplacer(oldnew...).Replace(config) }
	changed := change(pair+allowed,
		`dataplane     = "go"`, "dataplane     = \"go\"\n  dataplane_replicas = 2\n  log_level = \"info\"\n  certificate_version = \"2\"",
		`[testbed_clusterlink_peer.cloud.gateway]`, `[testbed_clusterlink_peer.cloud.gateway, testbed_clusterlink_peer.cloud.gateway]`,
		`builtin = "hello-world"`, "builtin = \"hello-world\"\n  port = 9090\n  env = { COLOUR = \"blue\" }\n  resources = { limits = { memory = \"65536Ki\" } }",
		`port    = 80`, `port    = 8000`,
		`to      = [{}]`, `to      = [{ match_labels = { "export.clusterlink.net/namespace" = "none" } }, {}]`)
	clusters := kube.NewOpener(local.NewOpener(dataDir))
	remove := func(cluster string, refs ...kube.Ref) {
		client, err := clusters.Open(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Delete(t.Context(), refs...); err != nil {
			t.Fatal(err)
		}
	}
	const (
		edge, cloud = "k3s+local://edge", "k3s+local://cloud"
		clapi       = "clusterlink.net/v1alpha1"
	)
	var (
		peer       = "testbed_clusterlink_peer.edge"
		connection = "testbed_clusterlink_connection.this"
		function   = "testbed_function.hello"
		export     = "testbed_clusterlink_export.hello"
		imported   = "testbed_clusterlink_import.hello"
		policy     = "testbed_clusterlink_access_policy.edge"
	)
	actions := func(action plancheck.ResourceActionType, resources ...string) resource.ConfigPlanChecks {
		var checks []plancheck.PlanCheck
		for _, name := range resources {
			checks = append(checks, plancheck.ExpectResourceAction(name, action))
		}
		return resource.ConfigPlanChecks{PreApply: checks}
	}
	importStep := func(name, id string, ignore ...string) resource.TestStep {
		return resource.TestStep{
			ResourceName: name, ImportState: true, ImportStateId: id, ImportStateVerify: true,
			ImportStateVerifyIgnore: append(ignore, "timeouts"),
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dataDir) },
		Steps: []resource.TestStep{
			{
				Config: pair,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(imported, tfjsonpath.New("url"), knownvalue.StringExact("http://hello.default.svc.cluster.local:80")),
					statecheck.ExpectKnownValue(function, tfjsonpath.New("service"), knownvalue.StringExact("hello-world.default.svc.cluster.local")),
					statecheck.ExpectKnownValue(function, tfjsonpath.New("node_port_url"), knownvalue.StringRegexp(regexp.MustCompile(`^http://198\.18\.70\.12:3\d{4}$`))),
				},
				Check: resource.ComposeAggregateTestCheckFunc(noPrivateKey, func(s *terraform.State) error {
					// The data plane takes every connection and ends those that are denied.
					if _, err := callImport(s, clusters, "hello", nil); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
						return fmt.Errorf("without a policy the import does not end the connection: %v", err)
					}
					return callNodePort(s, clusters)
				}),
			},
			{Config: pair + allowed, Check: func(s *terraform.State) error { return callImports(s, clusters) }},
			{Config: pair + allowed, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}},
			importStep(peer, edge, "airgap_images"),
			importStep(connection, edge+"/cloud"),
			importStep(function, cloud+"/default/hello-world"),
			importStep(export, cloud+"/default/hello-world"),
			importStep(imported, edge+"/default/hello"),
			importStep("testbed_clusterlink_access_policy.cloud", cloud+"//allow-all"),
			importStep(policy, edge+"/default/allow-all"),
			{
				Config:           changed,
				ConfigPlanChecks: actions(plancheck.ResourceActionUpdate, peer, connection, function, export, imported, policy),
				Check:            func(s *terraform.State) error { return callImports(s, clusters) },
			},
			{
				PreConfig: func() {
					remove(cloud, kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "hello-world"},
						kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "payload-echo"},
						kube.Ref{APIVersion: clapi, Kind: "Export", Namespace: "default", Name: "hello-world"})
					remove(edge, kube.Ref{APIVersion: clapi, Kind: "Import", Namespace: "default", Name: "hello"},
						kube.Ref{APIVersion: clapi, Kind: "AccessPolicy", Namespace: "default", Name: "allow-all"},
						kube.Ref{APIVersion: clapi, Kind: "Peer", Namespace: "clusterlink-system", Name: "cloud"},
						kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "clusterlink-operator", Name: "cl-operator-controller-manager"})
				},
				Config: pair + allowed,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: append(
					actions(plancheck.ResourceActionUpdate, peer, function, "testbed_function.echo").PreApply,
					actions(plancheck.ResourceActionCreate, connection, export, imported, policy).PreApply...)},
				Check: func(s *terraform.State) error { return callImports(s, clusters) },
			},
			{
				Config: pair + allowed + `
resource "testbed_clusterlink_import" "missing" {
  cluster  = testbed_clusterlink_peer.edge.cluster
  name     = "missing"
  port     = 80
  sources  = [{ peer = testbed_clusterlink_connection.this.peer, export = "missing" }]
}
`,
				ExpectError: wrapped(`ask peer cloud for the export missing of namespace default: it exports no such service`),
			},
			{
				Config: pair + allowed + `
resource "testbed_clusterlink_peer" "second" {
  cluster = testbed_clusterlink_peer.edge.cluster
  name    = "second"
  fabric  = testbed_clusterlink_fabric.this.id
}
`,
				ExpectError: wrapped(`k3s.local://edge is the peer "edge" already, and a cluster is one peer`),
			},
			{
				Config: pair + allowed + `
resource "testbed_function" "nowhere" {
  cluster = "k3s+local://mars"
  name    = "nowhere"
  builtin = "hello-world"
}
`,
				ExpectError: wrapped(`cluster = "k3s.local://mars".*Function "nowhere": open cluster .*mars.* Use the url of a testbed_k3s_cluster`),
			},
			{
				Config: pair + allowed + `
resource "testbed_function" "missing" {
  cluster  = local.cloud
  name     = "missing"
  image    = "localhost:1/missing:1"
  timeouts = { create = "10s" }
}
`,
				ExpectError: wrapped(`container function waits: (ErrImagePull|ImagePullBackOff)`),
			},
			{
				// With the operator gone, nobody else removes the finalizer.
				PreConfig: func() {
					remove(edge, kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "clusterlink-operator", Name: "cl-operator-controller-manager"})
				},
				Config: base,
				Check: func(*terraform.State) error {
					return errors.Join(noTrace(clusters, edge), noTrace(clusters, cloud))
				},
			},
		},
	})
}

// needFile returns the absolute path that an environment variable names, or
// fails the test.
func needFile(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatal(variable + " is not set; make test sets it")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// callImports calls both imported functions.
func callImports(s *terraform.State, clusters *kube.Opener) error {
	hello, err := callImport(s, clusters, "hello", nil)
	if err != nil || len(hello) != 1024 {
		return fmt.Errorf("hello-world answers %d bytes, %v", len(hello), err)
	}
	payload := bytes.Repeat([]byte("0123456789abcdef"), 6400)
	echo, err := callImport(s, clusters, "echo", payload)
	if err != nil || !bytes.Equal(echo, payload) {
		return fmt.Errorf("payload-echo answers %d bytes to %d, %v", len(echo), len(payload), err)
	}
	return nil
}

// callImport sends a request from edge's host to the address of an import.
func callImport(s *terraform.State, clusters *kube.Opener, name string, payload []byte) ([]byte, error) {
	values := s.RootModule().Resources["testbed_clusterlink_import."+name].Primary.Attributes
	return callFrom(clusters, values["cluster"], "http://"+net.JoinHostPort(values["cluster_ip"], values["port"]), payload)
}

// callNodePort sends a request from edge's host to the node port of a function.
func callNodePort(s *terraform.State, clusters *kube.Opener) error {
	url := s.RootModule().Resources["testbed_function.hello"].Primary.Attributes["node_port_url"]
	hello, err := callFrom(clusters, "k3s+local://edge", url, nil)
	if err != nil || len(hello) != 1024 {
		return fmt.Errorf("%s answers %d bytes, %v", url, len(hello), err)
	}
	return nil
}

func callFrom(clusters *kube.Opener, clusterURL, url string, payload []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cluster, err := clusters.Open(ctx, clusterURL)
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: cluster.Host().Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// noTrace looks for what ClusterLink, gateways and functions leave behind in a cluster.
func noTrace(clusters *kube.Opener, clusterURL string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cluster, err := clusters.Open(ctx, clusterURL)
	if err != nil {
		return err
	}
	defer cluster.Close()
	var left []string
	for _, kind := range []string{"v1 Namespace", "v1 Service", "apps/v1 Deployment", "v1 Pod",
		"apiextensions.k8s.io/v1 CustomResourceDefinition", "rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 ClusterRoleBinding"} {
		apiVersion, name, _ := strings.Cut(kind, " ")
		objects, err := cluster.List(ctx, apiVersion, name, "", "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, object := range objects {
			full := object.GetNamespace() + "/" + object.GetName()
			if strings.Contains(full, "clusterlink") || strings.Contains(full, "cl-") || strings.Contains(full, "hello") || strings.Contains(full, "echo") || strings.Contains(full, "gateway") {
				left = append(left, kind+" "+full)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left in %s: %s", clusterURL, strings.Join(left, ", "))
	}
	return nil
}
