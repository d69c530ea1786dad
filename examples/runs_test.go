package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/site"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// TestRuns makes a run on a cluster of two nodes, from a client on each, makes
// it once more from nothing but its folder, and then a longer one of it that
// loses a client and its provider on the way.
func TestRuns(t *testing.T) {
	w := newWorkspace(t, "testdata/two-nodes")
	before := hosttest.Snapshot(t, w.dataDir)
	w.destroyAtEnd()
	w.run("apply", "-input=false", "-auto-approve")
	folder := strings.TrimSpace(string(w.run("output", "-raw", "results_folder")))
	first := readRun(t, folder)
	t.Run("clients of two nodes keep one schedule", func(t *testing.T) { keepsSchedule(t, first) })

	again := w.repeating(t, folder)
	t.Run("the folder repeats the run", func(t *testing.T) {
		again.t = t
		again.run("apply", "-input=false", "-auto-approve", "-var-file="+bench.InputsFile)
		second := readRun(t, again.lastRun("rate"))
		if second.ID == first.ID || second.Started.Before(first.Finished) {
			t.Errorf("%s, started %s, is no run after %s, finished %s", second.ID, second.Started, first.ID, first.Finished)
		}
		if diff := cmp.Diff(first.Plan, second.Plan); diff != "" {
			t.Errorf("the second run is another one (-first +second):\n%s", diff)
		}
		keepsSchedule(t, second)
	})
	t.Run("an interrupted run goes on", func(t *testing.T) {
		again.t = t
		again.goesOn(t)
	})

	w.destroy()
	before.CompareAfter(t)
}

// recordedRun is the folder of a run with all its samples.
type recordedRun struct {
	bench.Folder
	samples []bench.Sample
}

func readRun(t *testing.T, dir string) recordedRun {
	t.Helper()
	folder, err := bench.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	run := recordedRun{Folder: folder}
	if err := bench.ReadSamples(dir, func(s *bench.Sample) { run.samples = append(run.samples, *s) }); err != nil {
		t.Fatal(err)
	}
	return run
}

// nodes returns where the clients of a run were.
func (r recordedRun) nodes(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(r.Environment)
	if err != nil {
		t.Fatal(err)
	}
	var environment struct {
		Client struct {
			Pods []struct{ Node string }
		}
	}
	if err := json.Unmarshal(text, &environment); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, pod := range environment.Client.Pods {
		nodes = append(nodes, pod.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// keepsSchedule checks that a run had a client on each node, and that together
// they sent what a single client would have sent, at the times of its schedule.
func keepsSchedule(t *testing.T, run recordedRun) {
	t.Helper()
	if diff := cmp.Diff([]string{"site", "site-b"}, run.nodes(t)); diff != "" {
		t.Errorf("nodes of the clients (-want +got):\n%s", diff)
	}
	model := run.Plan.Load
	if model.Kind != load.OpenLoop || model.Arrivals != load.Poisson || model.Rate != 100 {
		t.Fatalf("the load is %s", model)
	}
	due := map[int][]time.Time{} // by block
	of := map[int]int{}          // requests of each client
	for _, s := range run.samples {
		switch {
		case s.Warmup:
		case !s.Valid:
			t.Errorf("block %d is not valid", s.Block)
		case s.Error != "" || s.BytesReceived != 1024 || s.Total <= 0 || s.Sent.Before(s.Due):
			t.Errorf("request %d of client %d: %q %s, %d bytes, %s, due %s, sent %s", s.Seq, s.Client, s.Error, s.Detail, s.BytesReceived, s.Total, s.Due, s.Sent)
		default:
			due[s.Block] = append(due[s.Block], s.Due)
			of[s.Client]++
		}
	}
	half := run.Plan.Requests / 2
	if diff := cmp.Diff(map[int]int{0: half, 1: half}, of); diff != "" {
		t.Errorf("requests by client (-want +got):\n%s", diff)
	}
	// Each client begins by its own reading of a moment that it is told, and so
	// may be off by a moment.
	const off = 10 * time.Millisecond
	for block, times := range due {
		slices.SortFunc(times, time.Time.Compare)
		random := rand.New(rand.NewPCG(model.Seed, 0))
		at, begin := 0.0, time.Time{}
		for i, got := range times {
			at += float64(time.Second) / model.Rate * random.ExpFloat64()
			want := begin.Add(time.Duration(at))
			if i == 0 {
				begin = got.Add(-time.Duration(at))
			} else if got.Sub(want).Abs() > off {
				t.Errorf("block %d: request %d was due %s from when the schedule has it", block, i, got.Sub(want))
				break
			}
		}
	}
}

// repeating returns a workspace with the files of a run's folder that repeat it.
func (w *workspace) repeating(t *testing.T, folder string) *workspace {
	t.Helper()
	again := *w
	again.scenario = t.TempDir()
	for _, name := range []string{bench.InputsFile, bench.ModuleFile} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		again.write(name, text)
	}
	again.write("provider.tf", []byte("provider \"testbed\" {\n  data_dir = \""+w.dataDir+"\"\n}\n"))
	again.run("init", "-input=false")
	return &again
}

func (w *workspace) write(name string, text []byte) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.scenario, name), text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// lastRun returns the folder of the last run of a name, "" without one.
func (w *workspace) lastRun(name string) string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dataDir, "results", name+"-*"))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found) // the names end in the time of the start
}

// goesOn makes a run of six blocks that loses a client within its second block
// or later, and its provider some block after that.
func (w *workspace) goesOn(t *testing.T) {
	t.Helper()
	const name, blocks = "long", 6
	args := []string{"apply", "-input=false", "-auto-approve", "-var-file=" + bench.InputsFile, `-var=name="` + name + `"`, "-var=blocks=6", "-var=requests=600"}
	w.stopped(t, 1, func(*exec.Cmd) { deleteClient(t, w.dataDir, name) }, "Apply again, with the run as it is, to go on", args...)
	folder := w.lastRun(name)
	cut := readRun(t, folder)
	progress, err := bench.ReadProgress(folder)
	if err != nil {
		t.Fatal(err)
	}
	if progress.State != bench.Interrupted || progress.FinishedBlocks < 1 || progress.FinishedBlocks >= blocks {
		t.Fatalf("the run that lost its client is %+v", progress)
	}
	whole := progress.FinishedBlocks

	w.stopped(t, whole+1, func(cli *exec.Cmd) { interrupt(t, cli.Process) }, "The same command goes on from here", args...)
	w.run(args...)

	if got := w.lastRun(name); got != folder {
		t.Fatalf("the run went on in %s instead of %s", got, folder)
	}
	run := readRun(t, folder)
	if !run.Completed || len(run.Earlier) != 2 || !run.Started.Equal(cut.Started) {
		t.Errorf("completed: %t, %d earlier parts, started %s, the first part %s", run.Completed, len(run.Earlier), run.Started, cut.Started)
	}
	results, _ := run.Summarize()
	if len(results) != 1 || results[0].Count != 600 || results[0].Errors != 0 {
		t.Errorf("the results are %+v", results)
	}
	// What was finished before was not measured again.
	finished := func(r recordedRun) []bench.Sample {
		return slices.DeleteFunc(slices.Clone(r.samples), func(s bench.Sample) bool { return s.Block > whole })
	}
	if diff := cmp.Diff(finished(cut), finished(run)); diff != "" {
		t.Errorf("the first blocks have changed (-before +after):\n%s", diff)
	}
}

// stopped applies, and does something that ends the run when some of its blocks
// are finished. The run has to fail, and to say how it goes on.
func (w *workspace) stopped(t *testing.T, blocks int, act func(*exec.Cmd), says string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	command := w.command(args...)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for acted := false; ; {
		select {
		case err := <-ended:
			if err == nil || !acted || !strings.Contains(strings.Join(strings.Fields(output.String()), " "), says) {
				t.Fatalf("the run was stopped: %t; the CLI ended with %v:\n%s", acted, err, output.Bytes())
			}
			return
		case <-ctx.Done():
			_ = command.Process.Kill()
			t.Fatalf("the run does not end: %v, %v:\n%s", <-ended, ctx.Err(), output.Bytes())
		case <-look.C:
			// The file is absent before the run and old before it goes on.
			progress, err := bench.ReadProgress(w.lastRun("long"))
			if !acted && err == nil && progress.State == bench.Running && progress.FinishedBlocks >= blocks {
				acted = true
				act(command)
			}
		}
	}
}

// deleteClient deletes a client pod of a run.
func deleteClient(t *testing.T, dataDir, run string) {
	t.Helper()
	cluster, err := kube.NewOpener(local.NewOpener(dataDir)).Open(t.Context(), "k3s+"+local.URL("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	pods, err := cluster.List(t.Context(), "v1", "Pod", "default", site.RunLabel+"="+run)
	if err != nil || len(pods) != 2 {
		t.Fatalf("the run has %d client pods (%v)", len(pods), err)
	}
	if err := cluster.Delete(t.Context(), kube.RefOf(&pods[1])); err != nil {
		t.Fatal(err)
	}
}
