package examples_test

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRaspberryPiAndCloud plans the scenario for machines where nobody answers
// yet, and what "new" writes for the same machines.
func TestRaspberryPiAndCloud(t *testing.T) {
	w := newWorkspace(t, "scenarios/raspberry-pi-and-cloud")
	w.env = append(w.env,
		`TF_VAR_lighthouse={"address":"127.0.0.1","port":1,"underlay":"198.18.0.2"}`,
		`TF_VAR_pi={"address":"127.0.0.1","port":2,"user":"pi","underlay":"198.18.0.11"}`,
		`TF_VAR_cloud={"address":"127.0.0.1","port":3,"user":"debian","underlay":"198.18.0.12"}`,
	)
	planned := func(resources string) {
		t.Helper()
		plan := string(w.run("plan", "-input=false"))
		for _, want := range []string{
			"Plan: " + resources + " to add, 0 to change, 0 to destroy", "Host Not Checked",
			"testbed_ssh_host.cloud will be created", "module.edge.testbed_k3s_cluster.this will be created",
			"module.cloud.testbed_clusterlink_peer.this will be created",
		} {
			if !strings.Contains(plan, want) {
				t.Errorf("%q is missing in the plan:\n%s", want, plan)
			}
		}
	}
	planned("29")

	written := filepath.Join(t.TempDir(), "written")
	program := filepath.Join(w.scenario, "../../../mirror/registry.terraform.io/terraform-testbed/testbed/0.1.0/linux_"+runtime.GOARCH, "terraform-provider-testbed_v0.1.0")
	args := []string{"new", "-skip-checks", "-out", written, "127.0.0.1:1,198.18.0.2", "pi@127.0.0.1:2,198.18.0.11", "debian@127.0.0.1:3,198.18.0.12"}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	w.scenario = written
	w.run("init", "-input=false")
	w.run("fmt", "-check", "-recursive", "-diff")
	planned("28")
}
