package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// k3sArtefacts are the program and image archives that clusters of acceptance
// tests are made of.
func k3sArtefacts(t *testing.T) (binary string, images []string) {
	t.Helper()
	binary = os.Getenv("TESTBED_K3S_BINARY")
	archives := os.Getenv("TESTBED_K3S_AIRGAP_IMAGES")
	if binary == "" || archives == "" {
		t.Fatal("TESTBED_K3S_BINARY and TESTBED_K3S_AIRGAP_IMAGES are not set; make test builds what they name and sets them")
	}
	return binary, strings.Split(archives, ",")
}

// k3sMachine is a local host with an address on a network.
func k3sMachine(dir string) string {
	return providerConfig(dir) + `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.31.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.31.11" }]
}
`
}

func TestAccK3sCluster(t *testing.T) {
	preCheck(t)
	binary, images := k3sArtefacts(t)
	archives, err := json.Marshal(images)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	machine := k3sMachine(dir)
	config := func(lines ...string) string {
		return machine + fmt.Sprintf(`
resource "testbed_k3s_cluster" "test" {
  name          = "edge"
  servers       = [{ host = testbed_local_host.edge.url, node_ip = "198.18.31.11", interface = "eth0" }]
  cluster_cidr  = "10.144.0.0/16"
  service_cidr  = "10.145.0.0/16"
  binary        = { source = %q }
  airgap_images = %s
  %s
}
`, binary, archives, strings.Join(lines, "\n  "))
	}
	edge := func() host.Host {
		h, err := local.NewOpener(dir).Open(t.Context(), local.URL("edge"))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := config()
	second := config(`tls_sans = ["edge.example.net"]`, `config = jsonencode({ "kubelet-arg" = ["max-pods=50"] })`)
	update := expectAction(plancheck.ResourceActionUpdate)
	var pod string // what runs CoreDNS

	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{
				Config:           first,
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("url"), knownvalue.StringExact("k3s+local://edge")),
					statecheck.ExpectKnownValue(k3sResource, tfjsonpath.New("node_names"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact("edge")})),
				},
				Check: resource.ComposeAggregateTestCheckFunc(
					noPrivateKey,
					func(s *terraform.State) error { return noToken(t.Context(), edge(), s) },
					func(*terraform.State) error {
						askThroughKubeconfig(t, local.NewOpener(dir), "k3s+local://edge")
						pod, err = corednsPod(t.Context(), edge())
						return err
					},
				),
			},
			{
				Config: second, ConfigPlanChecks: update,
				Check: func(*terraform.State) error { return tookOver(t.Context(), edge(), pod) },
			},
			{
				ResourceName: k3sResource, ImportState: true, ImportStateId: "local://edge", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"binary", "airgap_images", "timeouts"},
			},
			{
				// Someone edits the configuration, and k3s cannot start any more.
				PreConfig: func() {
					h := edge()
					err := h.Write(t.Context(), "/etc/rancher/k3s/config.yaml", 0o600, strings.NewReader("no-such-key: true\n"))
					if err == nil {
						err = h.RestartService(t.Context(), "k3s")
					}
					if err != nil {
						t.Fatal(err)
					}
				},
				Config: second, ConfigPlanChecks: update,
				Check: func(*terraform.State) error { return tookOver(t.Context(), edge(), pod) },
			},
			{
				// Someone removes the service; what it left is taken over.
				PreConfig: func() {
					if err := edge().StopService(t.Context(), "k3s"); err != nil {
						t.Fatal(err)
					}
				},
				Config: second, ConfigPlanChecks: expectAction(plancheck.ResourceActionCreate),
			},
			{
				// The host stays, and nothing of the cluster with it.
				Config: machine,
				Check:  func(*terraform.State) error { return nothingLeft(t.Context(), edge()) },
			},
		},
	})
}

// A program that says that it is k3s and then fails is told apart from one that
// needs time, and what either left is removed with it.
func TestAccK3sClusterNeverReady(t *testing.T) {
	preCheck(t)
	binary, _ := k3sArtefacts(t)
	dir := t.TempDir()
	script := k3sFile(t, filepath.Join(t.TempDir(), "k3s"), `#!/bin/sh
if [ "$1" = --version ]; then
	echo "k3s version fake"
	exit
fi
echo "fatal: nothing works here" >&2
exit 7
`)
	config := func(binary, timeout string) string {
		return k3sMachine(dir) + fmt.Sprintf(`
resource "testbed_k3s_cluster" "test" {
  name     = "edge"
  servers  = [{ host = testbed_local_host.edge.url, node_ip = "198.18.31.11" }]
  binary   = { source = %q }
  timeouts = { create = %q }
}
`, binary, timeout)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{Config: config(script, "5m"), ExpectError: wrapped(`it ended 10 times, last with exit code 7; the last lines of its log are:.*fatal: nothing works here`)},
			// Without images no pod can run, however long it takes.
			{Config: config(binary, "15s"), ExpectError: wrapped(`wait for .* on local://edge: context deadline exceeded after .*; the last lines of its log are:`)},
			{
				Config: k3sMachine(dir),
				Check: func(*terraform.State) error {
					h, err := local.NewOpener(dir).Open(t.Context(), local.URL("edge"))
					if err == nil {
						err = nothingLeft(t.Context(), h)
					}
					return err
				},
			},
		},
	})
}

// noToken searches the whole state for the cluster's token.
func noToken(ctx context.Context, h host.Host, s *terraform.State) error {
	token, err := h.Read(ctx, "/etc/rancher/k3s/token")
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err == nil && strings.Contains(string(text), strings.TrimSpace(string(token))) {
		err = errors.New("the token is in the state")
	}
	return err
}

// corednsPod returns the UID and the container of the pod that runs CoreDNS.
func corednsPod(ctx context.Context, h host.Host) (string, error) {
	client, err := kube.OpenServer(ctx, h)
	if err != nil {
		return "", err
	}
	defer client.Close()
	pods, err := client.List(ctx, "v1", "Pod", "kube-system", "k8s-app=kube-dns")
	if err != nil {
		return "", err
	}
	if len(pods) != 1 {
		return "", fmt.Errorf("%d pods run CoreDNS, want 1", len(pods))
	}
	containers, _, _ := unstructured.NestedSlice(pods[0].Object, "status", "containerStatuses")
	if len(containers) != 1 {
		return "", fmt.Errorf("the pod of CoreDNS has the containers %v", containers)
	}
	id, _, _ := unstructured.NestedString(containers[0].(map[string]any), "containerID")
	return string(pods[0].GetUID()) + " " + id, nil
}

// tookOver checks that the cluster runs with the second configuration, and
// that its pods did not notice.
func tookOver(ctx context.Context, h host.Host, pod string) error {
	client, err := kube.OpenServer(ctx, h)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = client.Wait(ctx, kube.Ref{APIVersion: "v1", Kind: "Node", Name: "edge"}, "limited to 50 pods", func(node *unstructured.Unstructured) (bool, string) {
		pods, _, _ := unstructured.NestedString(node.Object, "status", "capacity", "pods")
		return pods == "50", "its limit is " + pods
	})
	if err != nil {
		return err
	}
	now, err := corednsPod(ctx, h)
	if err != nil {
		return err
	}
	if now != pod {
		return fmt.Errorf("CoreDNS runs as %s instead of %s", now, pod)
	}
	present, err := k3s.ImagePresent(ctx, h, "registry.invalid/none:1")
	if err == nil && present {
		err = errors.New("an image is said to be there that is not")
	}
	return err
}

// nothingLeft looks for what k3s left on its host, by other means than its
// removal did.
func nothingLeft(ctx context.Context, h host.Host) error {
	for what, script := range map[string]string{
		"processes": `ps -eo args | grep -E 'k3s|containerd|kube|coredns|pause' | grep -v grep`,
		"mounts":    `grep -E ' /(run/k3s|var/lib/(rancher|kubelet|cni)|run/netns)' /proc/self/mountinfo`,
		"files":     `ls -d /etc/rancher /var/lib/rancher /var/lib/kubelet /var/lib/cni /run/k3s /run/flannel /run/netns/* /usr/local/bin/k3s /var/log/pods 2>/dev/null`,
		"links":     `ls /sys/class/net | grep -vE '^(lo|eth0)$'`,
		"rules":     `nft list ruleset | grep -E 'KUBE|CNI|FLANNEL|kube|k3s|cni'`,
		"cgroups":   `find /sys/fs/cgroup -name 'kubepods*' -o -name 'cri-containerd*'`,
	} {
		output, err := h.Run(ctx, host.Command{Argv: []string{"sh", "-c", script + "; true"}})
		if err != nil {
			return err
		}
		if text := strings.TrimSpace(string(output.Stdout)); text != "" {
			return fmt.Errorf("%s are left: %s", what, text)
		}
	}
	return nil
}
