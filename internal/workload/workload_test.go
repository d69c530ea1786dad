package workload

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

func TestAvailable(t *testing.T) {
	tests := []struct{ name, rest, why string }{
		{"ready", "metadata: {generation: 2}\nspec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", ""},
		{"stale", "metadata: {generation: 3}\nspec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", "its latest change is not taken up yet"},
		{"new", "metadata: {generation: 1}\nspec: {}\nstatus: {observedGeneration: 1}", "0 of 1 replicas are made"},
		{"rolling", "metadata: {generation: 1}\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, availableReplicas: 2}", "replicas of the former specification still end"},
		{"starting", "metadata: {generation: 1}\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}", "0 of 1 replicas are available"},
	}
	for _, test := range tests {
		ok, why := Available(parse(t, "apiVersion: apps/v1\nkind: Deployment\n"+test.rest))
		if ok != (test.why == "") || why != test.why {
			t.Errorf("%s: got %v %q, want %q", test.name, ok, why, test.why)
		}
	}
}

func TestState(t *testing.T) {
	tests := []struct{ name, status, want string }{
		{"image", `{phase: Pending, containerStatuses: [{name: manager, state: {waiting: {reason: ImagePullBackOff, message: 'Back-off pulling image "x"'}}}]}`,
			`pending; container manager waits: ImagePullBackOff (Back-off pulling image "x"); check the image's registry and tag, or hand its archive to the cluster when the node has no internet`},
		{"crash", `{phase: Running, containerStatuses: [{name: web, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {reason: Error, message: "no such function"}}}]}`,
			`running; container web waits: CrashLoopBackOff; its log says why it ends; container web ended before: Error (no such function)`},
		{"unscheduled", `{phase: Pending, conditions: [{type: PodScheduled, status: "False", message: 0/1 nodes are available}]}`,
			`pending; not scheduled: 0/1 nodes are available`},
	}
	for _, test := range tests {
		if got := State(parse(t, "apiVersion: v1\nkind: Pod\nstatus: "+test.status)); got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
}

func TestSelector(t *testing.T) {
	if got := Selector(map[string]string{"b": "2", "a": "1"}); got != "a=1,b=2" {
		t.Errorf("got %s", got)
	}
}
