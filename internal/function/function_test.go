package function

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestBuiltins(t *testing.T) {
	if !slices.Equal(Builtins, server.Names()) {
		t.Errorf("the agent serves %v, resources offer %v", server.Names(), Builtins)
	}
}

func TestRender(t *testing.T) {
	for file, test := range map[string]struct {
		spec  Spec
		image string
	}{
		"builtin.yaml": {Spec{Namespace: "default", Name: "hello", Builtin: "hello-world", Runtime: Deployment, Port: DefaultPort, Replicas: 1}, "testbed.local/agent:0123456789ab"},
		"image.yaml": {Spec{
			Namespace: "apps", Name: "web", Image: "registry.example/web:1", Args: []string{"-v"}, Env: map[string]string{"B": "2", "A": "1"},
			Runtime: Deployment, Port: 80, Replicas: 3, NodePort: 30080,
			Requests: map[string]string{"cpu": "100m"}, Limits: map[string]string{"memory": "64Mi"},
		}, "registry.example/web:1"},
	} {
		var documents []string
		for _, object := range []map[string]any{test.spec.deployment(test.image).Object, test.spec.service().Object} {
			text, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, string(text))
		}
		got := strings.Join(documents, "---\n")
		file = filepath.Join("testdata", file)
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
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}

		read, err := parseDeployment(test.spec.deployment(test.image))
		if err != nil {
			t.Fatal(err)
		}
		read.Port, read.NodePort = test.spec.Port, test.spec.NodePort // these are the Service's
		if diff := cmp.Diff(test.spec, read); diff != "" {
			t.Errorf("read back %s (-want +got):\n%s", file, diff)
		}
	}
}

func TestURLs(t *testing.T) {
	status := Status{Spec: Spec{Namespace: "apps", Name: "web", Port: 8080, NodePort: 30080}, ClusterIP: "10.43.0.7", NodeIP: "198.19.0.12"}
	got := []string{status.URL(), status.ClusterIPURL(), status.NodePortURL(), status.UnderlayURL()}
	status.Spec.Underlay = "198.18.0.12"
	got = append(got, status.UnderlayURL())
	want := []string{"http://web.apps.svc.cluster.local:8080", "http://10.43.0.7:8080", "http://198.19.0.12:30080", "", "http://198.18.0.12:30080"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
}

func TestQuantities(t *testing.T) {
	if !SameQuantities(map[string]string{"cpu": "0.5", "memory": "64Mi"}, map[string]string{"cpu": "500m", "memory": "65536Ki"}) {
		t.Error("equal quantities differ")
	}
	if SameQuantities(map[string]string{"cpu": "1"}, map[string]string{"cpu": "2"}) || SameQuantities(map[string]string{"cpu": "1"}, nil) {
		t.Error("different quantities are equal")
	}
	if CheckQuantity("64Mi") != nil || CheckQuantity("half") == nil || CheckQuantity("") == nil {
		t.Error("quantities are not told from other texts")
	}
}
