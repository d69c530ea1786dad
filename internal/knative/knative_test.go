package knative

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// edge is a good specification.
func edge() Spec {
	return Spec{
		Ingress: "built-in", Domain: "knative.test", ScaleToZero: true,
		GracePeriod: 30 * time.Second, StableWindow: time.Minute, CPU: "20m", Memory: "64Mi",
	}
}

// release is the shape of a release's manifest.
const release = `
apiVersion: v1
kind: Namespace
metadata: {name: knative-serving}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: services.serving.knative.dev}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config-network
  namespace: knative-serving
  annotations: {knative.dev/example-checksum: "1"}
data: {_example: "# much text"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: config-logging
  namespace: knative-serving
  annotations: {knative.dev/example-checksum: "2"}
data: {_example: "# much text"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-deployment, namespace: knative-serving}
data: {queue-sidecar-image: example.test/queue:v1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: activator, namespace: knative-serving, labels: {app.kubernetes.io/version: 0.50.0}}
spec:
  template:
    spec:
      containers:
      - name: activator
        image: example.test/activator:v1
        resources: {requests: {cpu: 300m, memory: 60Mi}, limits: {cpu: 1000m}}
        env: [{name: GOGC, value: "500"}, {name: SYSTEM_NAMESPACE, value: knative-serving}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: activator, namespace: knative-serving}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: activator-pdb, namespace: knative-serving}
---
apiVersion: caching.internal.knative.dev/v1alpha1
kind: Image
metadata: {name: queue-proxy, namespace: knative-serving}
`

func TestRead(t *testing.T) {
	m, err := edge().read([]byte(release))
	if err != nil {
		t.Fatal(err)
	}
	if m.version != "0.50.0" {
		t.Errorf("version %q, want 0.50.0", m.version)
	}
	if diff := cmp.Diff([]string{"example.test/activator:v1", "example.test/queue:v1"}, m.images()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	var names []string
	for _, part := range [][]*unstructured.Unstructured{m.kinds, m.rest, m.deployments} {
		for _, object := range part {
			names = append(names, kube.RefOf(object).String())
		}
	}
	for _, absent := range []string{"HorizontalPodAutoscaler", "PodDisruptionBudget", "Image"} {
		if text := strings.Join(names, " "); strings.Contains(text, absent) {
			t.Errorf("%s is applied: %s", absent, text)
		}
	}
	containers, _, _ := unstructured.NestedSlice(m.deployments[0].Object, "spec", "template", "spec", "containers")
	want := []any{map[string]any{
		"name": "activator", "image": "example.test/activator:v1",
		"resources": map[string]any{"requests": map[string]any{"cpu": "20m", "memory": "64Mi"}, "limits": map[string]any{"cpu": "1000m"}},
		"env": []any{
			map[string]any{"name": "GOMEMLIMIT", "value": "200MiB"},
			map[string]any{"name": "SYSTEM_NAMESPACE", "value": "knative-serving"},
		},
	}}
	if diff := cmp.Diff(want, containers); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	for _, object := range m.rest {
		switch object.GetName() {
		case "config-network":
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			if diff := cmp.Diff(map[string]string{"ingress-class": "testbed.ingress.networking.knative.dev", "mesh-compatibility-mode": "disabled"}, data); diff != "" {
				t.Errorf("config-network (-want +got):\n%s", diff)
			}
		case "config-logging":
			if _, found := object.Object["data"]; found || len(object.GetAnnotations()) > 0 {
				t.Errorf("config-logging keeps its examples: %v", object.Object)
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "another thing": "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n"} {
		if _, err := edge().read([]byte(text)); err == nil || !strings.Contains(err.Error(), "not that of a release") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := edge().validate(); err != nil {
		t.Errorf("a good specification: %v", err)
	}
	for name, change := range map[string]func(*Spec){
		"must be one of":  func(s *Spec) { s.Ingress = "nginx" },
		"needs the class": func(s *Spec) { s.Ingress = "none" },
		"6s to 1h0m0s":    func(s *Spec) { s.StableWindow = time.Second },
		"above zero":      func(s *Spec) { s.GracePeriod = 0 },
		"must be -1":      func(s *Spec) { s.TargetBurstCapacity = -2 },
	} {
		spec := edge()
		change(&spec)
		if err := spec.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

func TestCheckUpgrade(t *testing.T) {
	for _, test := range []struct {
		from, to string
		good     bool
	}{
		{"", "0.50.0", true}, {"0.50.0", "0.50.0", true}, {"0.49.1", "0.50.0", true}, {"v0.49.1", "0.50.3", true},
		{"0.48.0", "0.50.0", false}, {"0.50.0", "0.49.0", false},
		{"0.50.0", "1.23.0", true}, {"1.22.1", "0.50.0", true}, {"1.23.0", "1.24.0", true},
		{"1.21.0", "1.23.0", false}, {"1.21.0", "0.50.0", false}, {"1.23.0", "0.49.0", false},
	} {
		err := checkUpgrade(test.from, test.to)
		var skip *UpgradeError
		if good := err == nil; good != test.good || err != nil && !errors.As(err, &skip) {
			t.Errorf("from %q to %q: %v", test.from, test.to, err)
		}
	}
}
