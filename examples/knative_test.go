package examples_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
)

// TestKnative measures Knative functions at their pods and through the ingress,
// directly and over ClusterLink.
func TestKnative(t *testing.T) {
	w := newWorkspace(t, "scenarios/knative")
	w.env = append(w.env, "TF_VAR_requests=5", "TF_VAR_blocks=1")
	before := hosttest.Snapshot(t, w.dataDir)
	w.destroyAtEnd()

	w.run("apply", "-input=false", "-auto-approve")
	if plan := w.run("plan", "-input=false", "-detailed-exitcode"); !strings.Contains(string(plan), "No changes") {
		t.Errorf("the plan after apply:\n%s", plan)
	}
	outputs := w.outputs()
	if got := len(outputs.Results.Value); got != 32 {
		t.Errorf("%d cells, want 32", got)
	}
	for _, c := range outputs.Results.Value {
		if c.Count != 5 || c.Errors != 0 {
			t.Errorf("cell %+v: want 5 requests without an error", c)
		}
	}

	arms := recordedArms(t, outputs.Folder.Value)
	want := map[string]bench.Chain{
		"direct":              {Connections: 2, Translations: 1},
		"direct-ingress":      {Connections: 3, Translations: 2},
		"clusterlink":         {Connections: 4, Encrypted: 1, Translations: 3},
		"clusterlink-ingress": {Connections: 5, Encrypted: 1, Translations: 4},
	}
	if diff := cmp.Diff(want, chainsOf(arms)); diff != "" {
		t.Errorf("what the arms pass (-want +got):\n%s", diff)
	}
	hosts := map[string]string{"hello-world": "hello-world.default.knative.test", "payload-echo": "payload-echo.default.knative.test"}
	for name, arm := range arms {
		asked := hosts
		if !strings.HasSuffix(name, "-ingress") {
			asked = nil
		}
		if diff := cmp.Diff(asked, arm.Hosts); diff != "" {
			t.Errorf("arm %s asks for (-want +got):\n%s", name, diff)
		}
	}

	w.destroy()
	before.CompareAfter(t)
}
