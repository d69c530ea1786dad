package clusterlink

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares the objects with a file in testdata, as YAML documents.
func golden(t *testing.T, name string, objects ...*unstructured.Unstructured) {
	t.Helper()
	var documents []string
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(text))
	}
	got := strings.Join(documents, "---\n")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestRender(t *testing.T) {
	peer := PeerSpec{
		Name: "edge", Dataplane: "go", Replicas: 2, Ingress: "NodePort", IngressPort: 30443, LogLevel: "warning",
		Labels: map[string]string{"site": "edge"}, Registry: DefaultRegistry, Tag: DefaultTag,
	}
	golden(t, "peer.yaml", peer.ingress(), peer.instance())

	peer.Ingress, peer.IngressPort, peer.Labels = "LoadBalancer", 8443, nil
	golden(t, "peer-loadbalancer.yaml", peer.ingress(), peer.instance())

	golden(t, "connection.yaml", ConnectionSpec{Peer: "cloud", Gateways: []Gateway{{"198.19.0.12", 30443}, {"cloud.example", 443}}}.object())
	golden(t, "export.yaml",
		ExportSpec{Namespace: "default", Name: "hello", Port: 8080}.object(),
		ExportSpec{Namespace: "default", Name: "sensor", Host: "198.18.0.7", Port: 80}.object())
	golden(t, "import.yaml",
		ImportSpec{Namespace: "default", Name: "hello", Port: 80, Scheme: "round-robin", Sources: []Source{{"cloud", "default", "hello"}}}.object(),
		ImportSpec{Namespace: "apps", Name: "hello", Port: 80, TargetPort: 20000, Scheme: "static", Sources: []Source{{"cloud", "default", "hello"}, {"fog", "apps", "hi"}}}.object())
	golden(t, "policy.yaml",
		PolicySpec{Namespace: "default", Name: "allow-all", Action: "allow", From: []Selector{{}}, To: []Selector{{}}}.object(),
		PolicySpec{Name: "deny-tests", Action: "deny",
			From: []Selector{{Labels: map[string]string{"client.clusterlink.net/namespace": "tests"}}},
			To:   []Selector{{Requirements: []Requirement{{"export.clusterlink.net/name", "NotIn", []string{"hello"}}, {"export.clusterlink.net/labels.open", "DoesNotExist", nil}}}},
		}.object())
}

// TestParse reads back what it rendered.
func TestParse(t *testing.T) {
	imported := ImportSpec{Namespace: "apps", Name: "hello", Port: 80, TargetPort: 20000, Scheme: "static", Sources: []Source{{"cloud", "default", "hello"}, {"fog", "apps", "hi"}}}
	if diff := cmp.Diff(imported, parseImport(imported.object())); diff != "" {
		t.Errorf("import (-want +got):\n%s", diff)
	}
	connection := ConnectionSpec{Peer: "cloud", Gateways: []Gateway{{"198.19.0.12", 30443}, {"cloud.example", 443}}}
	if diff := cmp.Diff(connection.Gateways, gateways(connection.object())); diff != "" {
		t.Errorf("gateways (-want +got):\n%s", diff)
	}
	policy := PolicySpec{Name: "p", Action: "deny", From: []Selector{{}, {Labels: map[string]string{"a": "b"}}}, To: []Selector{{Requirements: []Requirement{{"k", "In", []string{"v", "w"}}}}}}
	if diff := cmp.Diff(policy.From, parseSelectors(policy.object(), "from")); diff != "" {
		t.Errorf("from (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.To, parseSelectors(policy.object(), "to")); diff != "" {
		t.Errorf("to (-want +got):\n%s", diff)
	}
	peer := PeerSpec{Dataplane: "envoy", Replicas: 3, Ingress: "none", LogLevel: "error", Labels: map[string]string{"site": "edge"}, Registry: "registry.example/cl", Tag: "v1"}
	if diff := cmp.Diff(peer, parseInstance(peer.instance())); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

// TestManifests checks what is taken from ClusterLink's published objects.
func TestManifests(t *testing.T) {
	kinds, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	program, err := operator("registry.example/cl-operator:v9")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range append(kinds, program...) {
		names = append(names, kube.RefOf(object).String())
		if object.GetKind() == "Deployment" {
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if image := containers[0].(map[string]any)["image"]; image != "registry.example/cl-operator:v9" {
				t.Errorf("the operator runs %v", image)
			}
		}
	}
	want := []string{
		"CustomResourceDefinition accesspolicies.clusterlink.net",
		"CustomResourceDefinition exports.clusterlink.net",
		"CustomResourceDefinition imports.clusterlink.net",
		"CustomResourceDefinition instances.clusterlink.net",
		"CustomResourceDefinition peers.clusterlink.net",
		"CustomResourceDefinition privilegedaccesspolicies.clusterlink.net",
		"Namespace clusterlink-operator",
		"Deployment clusterlink-operator/cl-operator-controller-manager",
		"Namespace clusterlink-system",
		"Role clusterlink-operator/cl-operator-leader-election-role",
		"RoleBinding clusterlink-operator/cl-operator-leader-election-rolebinding",
		"ClusterRole cl-operator-operator-editor-role",
		"ClusterRole cl-operator-operator-viewer-role",
		"ClusterRole cl-operator-manager-role",
		"ClusterRoleBinding cl-operator-manager-rolebinding",
		"ServiceAccount clusterlink-operator/cl-operator-controller-manager",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
