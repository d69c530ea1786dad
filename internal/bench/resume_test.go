package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cutIn returns a bed whose run is cancelled in the visit of that number, and
// the context to run it in.
func cutIn(t *testing.T, visit int) (*bed, context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	seen := 0
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if seen == visit {
			cancel()
		}
		echo(w, r)
	})
	b.Progress = func(Progress) { seen++ }
	b.Inputs = Inputs{"name": "test"}
	return b, ctx
}

// A run that was interrupted goes on after the last block that was finished,
// and gives what one run gives; what was cut off stays and counts for nothing.
func TestInterruptedRunGoesOn(t *testing.T) {
	b, ctx := cutIn(t, 8) // of 15, the second one of the third block
	first, err := b.run(t, ctx)
	if !errors.Is(err, context.Canceled) || first.State != Interrupted {
		t.Fatalf("the first part is %s with error %v", first.State, err)
	}
	progress, err := ReadProgress(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if progress.State != Interrupted || progress.Block != 3 || progress.Blocks != 5 || progress.Visit != 8 || progress.FinishedBlocks != 2 {
		t.Errorf("progress is %+v", progress)
	}

	results := filepath.Dir(b.Dir)
	for name, change := range map[string]func(*Plan, Inputs){
		"plan":   func(p *Plan, _ Inputs) { p.Seed++ },
		"inputs": func(_ *Plan, in Inputs) { in["triggers"] = map[string]any{"attempt": "2"} },
	} {
		plan, inputs := b.plan, Inputs{"name": "test"}
		change(&plan, inputs)
		if dir, err := Resumable(results, plan, inputs); dir != "" || err != nil {
			t.Errorf("with another %s the run in %q is gone on with (%v)", name, dir, err)
		}
	}
	dir, err := Resumable(results, b.plan, b.Inputs)
	if dir != b.Dir || err != nil {
		t.Fatalf("the run to go on with is in %q (%v)", dir, err)
	}

	var seen []Progress
	b.Progress = func(p Progress) { seen = append(seen, p) }
	b.Environment = map[string]string{"kernel": "test", "part": "second"}
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 9 || seen[0].Block != 3 || seen[0].Visit != 7 {
		t.Errorf("the second part has %d visits and starts with %+v", len(seen), seen[0])
	}
	if report.State != Completed || report.InvalidVisits != 0 || !report.Started.Equal(first.Started) {
		t.Errorf("the whole run is %s with %d invalid visits, started %s", report.State, report.InvalidVisits, report.Started)
	}
	for _, r := range report.Results {
		if r.Count != 15 || r.Errors != 0 {
			t.Errorf("%v has %d requests and %d errors, want 15 and none", r.Cell, r.Count, r.Errors)
		}
	}
	folder, err := ReadFolder(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again, comparisons := folder.Summarize()
	if diff := cmp.Diff(report.Results, again) + cmp.Diff(report.Comparisons, comparisons); diff != "" {
		t.Errorf("the folder gives other numbers (-run +folder):\n%s", diff)
	}
	if len(folder.Earlier) != 1 || !cmp.Equal(folder.Earlier[0].Environment, any(map[string]any{"kernel": "test"})) ||
		!cmp.Equal(folder.Environment, any(map[string]any{"kernel": "test", "part": "second"})) || folder.Resumed == nil {
		t.Errorf("the environments are %v and %v, resumed %v", folder.Earlier, folder.Environment, folder.Resumed)
	}
	cut := map[string]int{}
	for _, row := range rowsOf(t, report.SamplesFile) {
		if row["valid"] == "false" {
			cut[row["block"]]++
		}
	}
	if len(cut) != 1 || cut["3"] < 8*4 {
		t.Errorf("what was cut off are samples of %v, want a visit of block 3 at least", cut)
	}
	if dir, err := Resumable(results, b.plan, b.Inputs); dir != "" || err != nil {
		t.Errorf("the completed run in %q is gone on with (%v)", dir, err)
	}
	if _, err := os.Stat(filepath.Join(b.Dir, SamplesFile+partial)); err == nil {
		t.Error("the samples of a completed run are still partial")
	}
}

// A process that was killed leaves the last frame without its end and the
// progress at the visit before.
func TestKilledRunGoesOn(t *testing.T) {
	b, ctx := cutIn(t, 6)
	if _, err := b.run(t, ctx); err == nil {
		t.Fatal("the run was not cut")
	}
	path := filepath.Join(b.Dir, SamplesFile+partial)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	progress, err := ReadProgress(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	progress.State = Running
	if err := progress.write(b.Dir); err != nil {
		t.Fatal(err)
	}
	if folder, err := ReadFolder(b.Dir); err != nil || folder.Completed || len(folder.Counted()) == 0 {
		t.Errorf("what the killed run left has %d cells (%v)", len(folder.Counted()), err)
	}
	dir, err := Resumable(filepath.Dir(b.Dir), b.plan, b.Inputs)
	if dir != b.Dir || err != nil {
		t.Fatalf("the run to go on with is in %q (%v)", dir, err)
	}
	b.Progress = nil
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Count != 15 {
			t.Errorf("%v has %d requests, want 15", r.Cell, r.Count)
		}
	}
	if _, err := ReadFolder(b.Dir); err != nil {
		t.Error(err)
	}
}

// A folder that another process writes is left alone, and so is one whose files
// do not fit each other.
func TestRunThatCannotGoOn(t *testing.T) {
	b, ctx := cutIn(t, 6)
	if _, err := b.run(t, ctx); err == nil {
		t.Fatal("the run was not cut")
	}
	path := filepath.Join(b.Dir, SamplesFile+partial)
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock(held); err != nil {
		t.Fatal(err)
	}
	if dir, err := Resumable(filepath.Dir(b.Dir), b.plan, b.Inputs); dir != "" || err != nil {
		t.Errorf("a run at work in %q is gone on with (%v)", dir, err)
	}
	b.Progress = nil
	if _, err := b.Run(t.Context(), b.plan); err == nil || !strings.Contains(err.Error(), "another run writes there") {
		t.Errorf("two runs in one folder give %v", err)
	}
	held.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if dir, err := Resumable(filepath.Dir(b.Dir), b.plan, b.Inputs); dir != "" || err != nil {
		t.Errorf("a run without its samples in %q is gone on with (%v)", dir, err)
	}
	if _, err := b.Run(t.Context(), b.plan); err == nil || !strings.Contains(err.Error(), "go on with "+path) {
		t.Errorf("samples that are too short give %v", err)
	}
}

// A run whose measurements are no result is made anew, in a folder of its own.
func TestFailedRunIsNotGoneOnWith(t *testing.T) {
	calls := 0
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls > 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		echo(w, r)
	})
	report, err := b.run(t, t.Context())
	if err == nil || report.State != Failed {
		t.Fatalf("the run is %s with error %v", report.State, err)
	}
	if dir, err := Resumable(filepath.Dir(b.Dir), b.plan, nil); dir != "" || err != nil {
		t.Errorf("the failed run in %q is gone on with (%v)", dir, err)
	}
	calls = 0
	if _, err := b.Run(t.Context(), b.plan); err == nil || !strings.Contains(err.Error(), "has another run, which is failed") {
		t.Errorf("a run in the folder of another gives %v", err)
	}
}

// The progress file can be read at any time and tells what the run is at.
func TestProgressFile(t *testing.T) {
	b := newBed(t, echo)
	var files []Progress
	b.Progress = func(Progress) {
		if text, err := os.ReadFile(filepath.Join(b.Dir, ProgressFile)); err == nil {
			var p Progress
			if err := json.Unmarshal(text, &p); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			files = append(files, p)
		}
	}
	if _, err := b.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := ReadProgress(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 14 || files[13].State != Running || files[13].Visit != 14 || files[13].Left <= 0 || files[13].Requests >= last.Requests {
		t.Errorf("before the last visit the file says %+v", files[len(files)-1])
	}
	if last.State != Completed || last.Run != "run" || last.Visit != 15 || last.FinishedBlocks != 5 || last.Left != 0 ||
		last.Requests != 24*20 || last.Updated.Before(last.Started) || time.Since(last.Updated) > time.Hour {
		t.Errorf("after the run the file says %+v", last)
	}
}
