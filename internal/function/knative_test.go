package function

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestKnativeRoundTrip(t *testing.T) {
	for name, spec := range map[string]Spec{
		"builtin": {
			Namespace: "default", Name: "hello", Builtin: "hello-world", Runtime: Knative, Port: DefaultPort,
			Scale: &Scale{Min: 1, Max: 1, Initial: 1},
		},
		"image": {
			Namespace: "apps", Name: "web", Image: "registry.example/web:1", Args: []string{"-v"}, Env: map[string]string{"B": "2", "A": "1"},
			Runtime: Knative, Port: 80, Requests: map[string]string{"cpu": "100m"}, Limits: map[string]string{"memory": "64Mi"},
			Scale: &Scale{Max: 5, Initial: 2, Concurrency: 1, TargetBurstCapacity: new(-1)},
		},
	} {
		image := spec.Image
		if spec.Builtin != "" {
			image = "testbed.local/agent:0123456789ab"
		}
		service := spec.knativeService(image)
		if said, _, _ := unstructured.NestedString(service.Object, "spec", "template", "metadata", "annotations", "features.knative.dev/http-full-duplex"); said != "Enabled" {
			t.Errorf("%s: Knative may cut off answers to requests with a body: full duplex is %q", name, said)
		}
		read, err := parseKnative(service)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spec, read); diff != "" {
			t.Errorf("read back %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKnativeReady(t *testing.T) {
	object := func(generation int64, conditions ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": generation},
			"status":   map[string]any{"observedGeneration": int64(2), "conditions": conditions},
		}}
	}
	ready := map[string]any{"type": "Ready", "status": "True"}
	waiting := map[string]any{"type": "Ready", "status": "Unknown", "reason": "RevisionMissing", "message": "the image is pulled"}
	for why, test := range map[string]*unstructured.Unstructured{
		"":                           object(2, ready),
		"not taken up yet":           object(3, ready),
		"says nothing":               object(2),
		"RevisionMissing: the image": object(2, waiting),
	} {
		ok, got := knativeReady(test)
		if ok != (why == "") || !strings.Contains(got, why) {
			t.Errorf("got %t, %q; want %q", ok, got, why)
		}
	}
}
