package provider

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s/k3stest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// askThroughKubeconfig lists the cluster's nodes with nothing but what the
// ephemeral resource gives, and checks that its port closes with it.
func askThroughKubeconfig(t *testing.T, hosts host.Opener, cluster string) {
	t.Helper()
	r := &kubeconfigEphemeralResource{clusters: kube.NewOpener(hosts), forwards: &forwards{}}
	model := kubeconfigModel{Cluster: types.StringValue(cluster)}
	forward, err := r.open(t.Context(), &model)
	if err != nil {
		t.Fatal(err)
	}
	r.forwards.add(forward)
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(model.Kubeconfig.ValueString()), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := kube.NewOpener(nil).Open(t.Context(), "kubeconfig://"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nodes, err := client.List(t.Context(), "v1", "Node", "", "")
	if err != nil || len(nodes) != 1 || nodes[0].GetName() != "edge" {
		t.Errorf("nodes %v, %v, want edge", nodes, err)
	}
	if err := r.forwards.close(forward.Address()); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(model.Host.ValueString(), "https://")); err == nil {
		conn.Close()
		t.Error("the port is still open")
	}
}

func TestKubeconfig(t *testing.T) {
	machine := k3stest.New(t)
	if err := machine.StartService(t.Context(), host.Service{Name: "k3s"}); err != nil {
		t.Fatal(err)
	}
	askThroughKubeconfig(t, k3stest.Opener{machine}, "k3s+local://edge")

	// Terraform opens and closes it; the token is the machine's credential.
	servers := k3sFactories(machine)
	servers["echo"] = echoprovider.NewProviderServer()
	config := func(cluster string) string {
		return providerConfig(t.TempDir()) + `
ephemeral "testbed_kubeconfig" "edge" {
  cluster = "` + cluster + `"
}

provider "echo" {
  data = ephemeral.testbed_kubeconfig.edge
}

resource "echo" "credentials" {}
`
	}
	data := func(name string) tfjsonpath.Path { return tfjsonpath.New("data").AtMapKey(name) }
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: servers,
		Steps: []resource.TestStep{
			{Config: config("k3s+local://cloud"), ExpectError: wrapped("Unable to Open Kubeconfig.*Use the url of a testbed_k3s_cluster")},
			{
				Config: config("k3s+local://edge"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("echo.credentials", data("host"), knownvalue.StringRegexp(wrapped(`^https://127.0.0.1:\d+$`))),
					statecheck.ExpectKnownValue("echo.credentials", data("cluster_ca_certificate"), knownvalue.StringRegexp(wrapped("^-----BEGIN CERTIFICATE-----"))),
					statecheck.ExpectKnownValue("echo.credentials", data("token"), knownvalue.StringExact("secret")),
					statecheck.ExpectKnownValue("echo.credentials", data("client_key"), knownvalue.Null()),
				},
			},
		},
	})
}
