package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// sshMachines are three local hosts on a network, which stand for machines that
// run an SSH server. The test framework reads no for_each.
func sshMachines() string {
	var text strings.Builder
	text.WriteString(`
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.32.0/24"
}
`)
	for name, address := range map[string]string{"lighthouse": "198.18.32.2", "edge": "198.18.32.11", "b": "198.18.32.12"} {
		fmt.Fprintf(&text, `
resource "testbed_local_host" %q {
  name     = %[1]q
  networks = [{ network = testbed_network.wan.name, address = %q }]
}
`, name, address)
	}
	return text.String()
}

// TestAccK3sOverSSH makes an overlay and a cluster of two nodes on it, all by
// SSH. The agent leaves and joins again.
func TestAccK3sOverSSH(t *testing.T) {
	preCheck(t)
	sshtest.NeedServer(t)
	binary, images := k3sArtefacts(t)
	archives, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	opener := local.NewOpener(dir)
	key := sshtest.NewKey(t)
	var servers []*sshtest.Server
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return sshtest.Dialer(servers...)(ctx, network, address)
	}
	machines := sshConfig(dir, key, "check_host_keys = false\n user = \"root\"") + sshMachines()
	config := func(agents string) string {
		return machines + fmt.Sprintf(`
resource "testbed_ssh_host" "lighthouse" {
  address  = testbed_local_host.lighthouse.name
  requires = ["overlay"]
}

resource "testbed_ssh_host" "edge" {
  address  = testbed_local_host.edge.name
  requires = ["overlay"]
}

resource "testbed_ssh_host" "b" {
  address  = testbed_local_host.b.name
  requires = ["overlay"]
}

resource "testbed_nebula_ca" "this" {
  name     = "lab"
  networks = ["198.19.32.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_ssh_host.lighthouse.url
  ca       = testbed_nebula_ca.this.id
  network  = "198.19.32.1/24"
  underlay = "198.18.32.2"
}

resource "testbed_nebula_node" "edge" {
  host        = testbed_ssh_host.edge.url
  ca          = testbed_nebula_ca.this.id
  network     = "198.19.32.11/24"
  lighthouses = [testbed_nebula_lighthouse.this.endpoint]
}

resource "testbed_nebula_node" "b" {
  host        = testbed_ssh_host.b.url
  ca          = testbed_nebula_ca.this.id
  network     = "198.19.32.12/24"
  lighthouses = [testbed_nebula_lighthouse.this.endpoint]
}

resource "testbed_k3s_cluster" "test" {
  name = "edge"
  servers = [{
    host      = testbed_ssh_host.edge.url
    node_ip   = testbed_nebula_node.edge.address
    interface = testbed_nebula_node.edge.device
  }]
  agents        = [%s]
  cluster_cidr  = "10.146.0.0/16"
  service_cidr  = "10.147.0.0/16"
  binary        = { source = %q }
  airgap_images = %s
}
`, agents, binary, archives)
	}
	const agent = `{
    host      = testbed_ssh_host.b.url
    node_ip   = testbed_nebula_node.b.address
    interface = testbed_nebula_node.b.device
  }`
	at := func(name string) host.Host {
		h, err := opener.Open(t.Context(), local.URL(name))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	nodes := func(names ...string) []statecheck.StateCheck {
		var want []knownvalue.Check
		for _, name := range names {
			want = append(want, knownvalue.StringExact(name))
		}
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("node_names"), knownvalue.ListExact(want))}
	}
	noChange := resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
	update := expectAction(plancheck.ResourceActionUpdate)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factoriesDialling(dial),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{Config: machines},
			{
				PreConfig: func() {
					for _, name := range []string{"lighthouse", "edge", "b"} {
						servers = append(servers, sshtest.Serve(t, opener, name, key))
					}
				},
				Config: config(agent), ConfigPlanChecks: noChange, ConfigStateChecks: nodes("edge", "edge-b"),
				Check: func(s *terraform.State) error {
					return errors.Join(noToken(t.Context(), at("edge"), s), podsReachEachOther(t.Context(), consoles{opener}, at("edge"), "edge-b"))
				},
			},
			{
				Config: config(""), ConfigPlanChecks: update, ConfigStateChecks: nodes("edge"),
				Check: func(*terraform.State) error {
					return errors.Join(nothingOfK3s(t.Context(), at("b")), forgotten(t.Context(), at("edge"), "edge-b"))
				},
			},
			// The node has another password than before.
			{Config: config(agent), ConfigPlanChecks: update, ConfigStateChecks: nodes("edge", "edge-b")},
			{
				Config: machines,
				Check: func(*terraform.State) error {
					return errors.Join(nothingOfK3s(t.Context(), at("edge")), nothingOfK3s(t.Context(), at("b")))
				},
			},
		},
	})
}

// consoles opens hosts that are reached by SSH without it.
type consoles struct{ machines *local.Opener }

func (c consoles) Open(ctx context.Context, url string) (host.Host, error) {
	return c.machines.Open(ctx, local.URL(strings.TrimPrefix(url, "ssh://")))
}

// podsReachEachOther runs a function on the node and calls it from the server's
// host, which leads there as pods of the server do.
func podsReachEachOther(ctx context.Context, hosts host.Opener, server host.Host, node string) error {
	cluster, err := kube.NewOpener(hosts).Open(ctx, "k3s+ssh://edge")
	if err != nil {
		return err
	}
	defer cluster.Close()
	image, err := function.LoadAgent(ctx, cluster)
	if err != nil {
		return err
	}
	ref := kube.Ref{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "far"}
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": map[string]any{"name": ref.Name, "namespace": ref.Namespace},
		"spec": map[string]any{
			"nodeName": node, "terminationGracePeriodSeconds": int64(1),
			"containers": []any{map[string]any{
				"name": "function", "image": image, "imagePullPolicy": "Never",
				"args": []any{"function", "-builtin", "hello-world", "-listen", ":8080"},
			}},
		},
	}}
	if err := cluster.Apply(ctx, pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	running, err := cluster.Wait(ctx, ref, "running", func(pod *unstructured.Unstructured) (bool, string) {
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		return phase == "Running", "it is " + phase
	})
	if err != nil {
		return err
	}
	ip, _, _ := unstructured.NestedString(running.Object, "status", "podIP")
	client := &http.Client{Transport: &http.Transport{DialContext: server.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for {
		var answer []byte
		response, err := client.Get("http://" + ip + ":8080/")
		if err == nil {
			answer, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil && response.StatusCode == http.StatusOK && len(answer) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("call the pod %s on node %s: %w", ip, node, errors.Join(err, ctx.Err()))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// forgotten looks for what the cluster keeps of a node that left.
func forgotten(ctx context.Context, server host.Host, node string) error {
	cluster, err := kube.OpenServer(ctx, server)
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, ref := range []kube.Ref{
		{APIVersion: "v1", Kind: "Node", Name: node},
		{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: node + ".node-password.k3s"},
		{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "far"},
	} {
		if _, err := cluster.Get(ctx, ref); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is still there, or %v", ref, err)
		}
	}
	return nil
}

// nothingOfK3s is nothingLeft on a host that has other things too.
func nothingOfK3s(ctx context.Context, h host.Host) error {
	err := nothingLeft(ctx, h)
	if err != nil && strings.HasPrefix(err.Error(), "links are left: nebula1") {
		err = nil
	}
	return err
}
