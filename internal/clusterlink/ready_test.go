package clusterlink

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Parse([]byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("parse: %d objects, %v", len(objects), err)
	}
	// The API server's numbers are int64, those of YAML are floats.
	content, err := objects[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := objects[0].UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	return objects[0]
}

func TestInstanceReady(t *testing.T) {
	const (
		yes     = `{type: DeploymentReady, status: "True", reason: Ready, message: Deployment is ready}`
		no      = `{type: DeploymentReady, status: "False", reason: ProgressingMode, message: Deployment is in progressing mode}`
		service = `{type: ServiceReady, status: "True", reason: Ready, message: Service is ready}`
		// never stays as it is for ever: the operator makes no such Service.
		never = `{type: ServiceReady, status: "False", reason: NotExist, message: Service does not exist}`
	)
	status := func(controlplane, dataplane, ingress string) string {
		text := "status: {controlplane: {conditions: {DeploymentReady: " + controlplane + ", ServiceReady: " + service + "}}"
		text += ", dataplane: {conditions: {DeploymentReady: " + dataplane + ", ServiceReady: " + never + "}}"
		if ingress != "" {
			text += ", ingress: {conditions: {ServiceReady: " + ingress + "}}"
		}
		return text + "}"
	}
	tests := []struct{ name, ingress, status, why string }{
		{"without the data plane's Service", "NodePort", status(yes, yes, service), ""},
		{"no ingress wanted", "none", status(yes, yes, ""), ""},
		{"new", "NodePort", "status: {}", "the operator has not said DeploymentReady of the controlplane yet"},
		{"control plane starts", "NodePort", status(no, yes, service), "DeploymentReady of the controlplane is ProgressingMode: Deployment is in progressing mode"},
		{"data plane starts", "NodePort", status(yes, no, service), "DeploymentReady of the dataplane is ProgressingMode: Deployment is in progressing mode"},
		{"ingress unknown", "NodePort", status(yes, yes, ""), "the operator has not said ServiceReady of the ingress yet"},
		{"ingress missing", "LoadBalancer", status(yes, yes, never), "ServiceReady of the ingress is NotExist: Service does not exist"},
	}
	for _, test := range tests {
		instance := parse(t, "apiVersion: clusterlink.net/v1alpha1\nkind: Instance\nspec: {ingress: {type: "+test.ingress+"}}\n"+test.status)
		if ok, why := instanceReady(instance); ok != (test.why == "") || why != test.why {
			t.Errorf("%s: got %v %q, want %q", test.name, ok, why, test.why)
		}
	}
}

func TestConditionTrue(t *testing.T) {
	tests := []struct{ name, conditions, why string }{
		{"true", `[{type: Other, status: "False"}, {type: ExportValid, status: "True"}]`, ""},
		{"false", `[{type: ExportValid, status: "False", message: "export service 'default/x' does not exist"}]`, "export service 'default/x' does not exist"},
		{"wordless", `[{type: ExportValid, status: "False", message: ""}]`, "ExportValid is False"},
		{"absent", `[]`, "the control plane has not said ExportValid yet"},
	}
	for _, test := range tests {
		export := parse(t, "apiVersion: clusterlink.net/v1alpha1\nkind: Export\nstatus: {conditions: "+test.conditions+"}")
		if ok, why := conditionTrue(export, "ExportValid"); ok != (test.why == "") || why != test.why {
			t.Errorf("%s: got %v %q, want %q", test.name, ok, why, test.why)
		}
	}
}

func TestTaken(t *testing.T) {
	spec := PeerSpec{Dataplane: "go", Replicas: 2, LogLevel: "warning", Registry: DefaultRegistry, Tag: DefaultTag}
	image := spec.Images()[2]
	if image != "ghcr.io/clusterlink-net/cl-go-dataplane:v0.4.1" {
		t.Fatalf("the data plane runs %s", image)
	}
	deployment := func(image, level, replicas string) *unstructured.Unstructured {
		return parse(t, "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: "+replicas+", template: {spec: {containers: [{image: \""+image+"\", args: [--log-level, "+level+"]}]}}}")
	}
	for _, test := range []struct {
		image, level, replicas string
		want                   bool
	}{
		{image, "warning", "2", true},
		{"ghcr.io/clusterlink-net/cl-dataplane:v0.4.1", "warning", "2", false},
		{image, "info", "2", false},
		{image, "warning", "1", false},
	} {
		if got, _ := spec.taken(image, spec.Replicas)(deployment(test.image, test.level, test.replicas)); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}
