package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
)

type cell struct {
	Function   string   `json:"function"`
	Scenario   string   `json:"scenario"`
	Arm        string   `json:"arm"`
	Connection string   `json:"connection"`
	Count      int      `json:"count"`
	Errors     int      `json:"errors"`
	Min        *float64 `json:"min_ms"`
	Median     *float64 `json:"median_ms"`
}

func TestResponseTime(t *testing.T) {
	w := newWorkspace(t, "scenarios/response-time")
	w.env = append(w.env, "TF_VAR_requests=10", "TF_VAR_blocks=1")
	before := hosttest.Snapshot(t, w.dataDir)
	w.destroyAtEnd()

	w.run("apply", "-input=false", "-auto-approve")
	if plan := w.run("plan", "-input=false", "-detailed-exitcode"); !strings.Contains(string(plan), "No changes") {
		t.Errorf("the plan after apply:\n%s", plan)
	}

	outputs := w.outputs()
	if got := len(outputs.Results.Value); got != 48 {
		t.Errorf("%d cells, want 48", got)
	}
	if got := len(outputs.Comparisons.Value); got != 36 {
		t.Errorf("%d comparisons, want 36", got)
	}
	rtt := map[string]time.Duration{"local": 0, "edge": 10 * time.Millisecond, "cloud": 40 * time.Millisecond}
	for _, c := range outputs.Results.Value {
		if c.Count != 10 || c.Errors != 0 || c.Median == nil {
			t.Errorf("cell %+v: want 10 requests without an error", c)
			continue
		}
		// Jitter may shorten a single request, hardly the median.
		if least := rtt[c.Scenario].Seconds() * 1000 * 0.9; *c.Median < least {
			t.Errorf("%s %s %s %s: median %.2f ms, below the emulated RTT", c.Function, c.Scenario, c.Arm, c.Connection, *c.Median)
		}
	}

	chains := chainsOf(recordedArms(t, outputs.Folder.Value))
	one, three := bench.Chain{Connections: 1, Translations: 1}, bench.Chain{Connections: 3, Encrypted: 1, Translations: 3}
	if diff := cmp.Diff(map[string]bench.Chain{"underlay": one, "direct": one, "gateway": three, "clusterlink": three}, chains); diff != "" {
		t.Errorf("what the arms pass (-want +got):\n%s", diff)
	}

	w.keepsSecrets(filepath.Join(w.scenario, "terraform.tfstate"))

	w.destroy()
	before.CompareAfter(t)
}

// outputs are those of a scenario.
type outputs struct {
	Results struct {
		Value []cell `json:"value"`
	} `json:"results"`
	Comparisons struct {
		Value []json.RawMessage `json:"value"`
	} `json:"comparisons"`
	Folder struct {
		Value string `json:"value"`
	} `json:"results_folder"`
}

func (w *workspace) outputs() outputs {
	w.t.Helper()
	var out outputs
	if err := json.Unmarshal(w.run("output", "-json"), &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// chainsOf returns what the paths of arms are made of.
func chainsOf(arms map[string]bench.Arm) map[string]bench.Chain {
	chains := map[string]bench.Chain{}
	for name, arm := range arms {
		chains[name] = arm.Chain()
	}
	return chains
}

// recordedArms returns the arms in the record of a run.
func recordedArms(t *testing.T, folder string) map[string]bench.Arm {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, bench.EnvironmentFile))
	if err != nil {
		t.Fatal(err)
	}
	var record bench.Record
	if err := json.Unmarshal(content, &record); err != nil {
		t.Fatal(err)
	}
	return record.Plan.Arms
}

// TestKilledProvider kills the provider in the middle of the creation of each
// kind of resource, and before that interrupts the creation of those that take
// long. Each next apply goes on from there. All the while the log, which has
// every detail, and the state keep the testbed's secrets.
func TestKilledProvider(t *testing.T) {
	w := newWorkspace(t, "scenarios/response-time")
	log := filepath.Join(t.TempDir(), "trace.log")
	w.env = append(w.env, "TF_VAR_requests=2", "TF_VAR_blocks=1", "TF_LOG=trace", "TF_LOG_PATH="+log)
	before := hosttest.Snapshot(t, w.dataDir)
	w.destroyAtEnd()

	slow := map[string]bool{"module.cloud.testbed_k3s_cluster.this": true, "module.edge.testbed_clusterlink_peer.this": true, "testbed_benchmark_run.response_time": true}
	for _, resource := range []string{
		"testbed_network.wan", "testbed_local_host.lighthouse", "testbed_nebula_lighthouse.this",
		"testbed_local_host.site[\"edge\"]", "module.edge.testbed_nebula_node.this",
		"module.cloud.testbed_k3s_cluster.this", "module.edge.testbed_clusterlink_peer.this", "testbed_function.this[\"payload-echo\"]", "testbed_link.edge_cloud", "testbed_gateway_pair.edge_to_cloud",
		"module.clusterlink.testbed_clusterlink_connection.importer", "module.clusterlink.testbed_clusterlink_import.this[\"hello-world\"]",
		"testbed_benchmark_run.response_time",
	} {
		after := 50 * time.Millisecond
		if slow[resource] {
			after = time.Second
			w.applyAnd(interrupt, resource, after)
		}
		w.applyAnd(killProvider, resource, after)
	}
	w.run("apply", "-input=false", "-auto-approve")
	w.keepsSecrets(log, filepath.Join(w.scenario, "terraform.tfstate"))
	w.destroy()
	before.CompareAfter(t)
}
