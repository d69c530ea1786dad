package bench

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a run leaves gives the same numbers that the run gave.
func TestFolderGivesTheNumbersOfTheRun(t *testing.T) {
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusOK)
			return
		}
		echo(w, r)
	})
	report, err := b.run(t, context.Background())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := ReadFolder(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	results, comparisons := folder.Summarize()
	if diff := cmp.Diff(report.Results, results); diff != "" {
		t.Errorf("results (-run +folder):\n%s", diff)
	}
	if diff := cmp.Diff(report.Comparisons, comparisons); diff != "" {
		t.Errorf("comparisons (-run +folder):\n%s", diff)
	}
	if folder.ID != "run" || !folder.Completed || len(folder.Visits) == 0 {
		t.Errorf("the folder is of run %q, completed %t, with %d visits", folder.ID, folder.Completed, len(folder.Visits))
	}

	same, reasons := CompareRuns(folder, folder)
	if len(same) != len(results) || len(reasons) > 0 {
		t.Fatalf("a run compared with itself has %d of %d cells, since %q", len(same), len(results), reasons)
	}
	for _, c := range same {
		if *c.Difference != 0 || *c.DifferenceLow > 0 || *c.DifferenceHigh < 0 || *c.RatioLow > 1 || *c.RatioHigh < 1 {
			t.Errorf("%s against itself: difference %g in [%g, %g]", c.Cell, *c.Difference, *c.DifferenceLow, *c.DifferenceHigh)
		}
	}

	other := folder
	other.Plan.Scenarios = map[string]Scenario{}
	for name := range folder.Plan.Scenarios {
		other.Plan.Scenarios[name] = Scenario{"wan/a/b": delay(77)}
	}
	if same, reasons = CompareRuns(folder, other); len(same) > 0 || len(reasons) != len(other.Plan.Scenarios) {
		t.Errorf("over other links %d cells are compared, refused are %q", len(same), reasons)
	}
}

func TestReadFolderRefuses(t *testing.T) {
	for name, test := range map[string]struct{ environment, samples, want string }{
		"no samples":     {"{}", "", "samples.csv.zst"},
		"no environment": {"", "", "environment.json"},
		"no JSON":        {"{", "", "read environment.json"},
		"no column":      {"{}", "block,attempt\n1,1\n", `there is no column "valid"`},
		"no number": {"{}", "block,valid,function,scenario,connection,arm,seq,warmup,total_ns,reused,error\none,true,f,s,new,a,1,false,1,false,\n",
			`line 2, column "block"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{EnvironmentFile: test.environment, plainSamplesFile: test.samples} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := ReadFolder(dir); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
