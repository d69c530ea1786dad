package report

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report/reporttest"
)

// The claims of the study are told from the samples of a folder alone: that
// they hold where they do, and do not where the run has it otherwise.
func TestClaims(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*reporttest.Run)
		// Of the large payload over kept connections, and over new ones, which
		// take three more round trips whatever else is changed.
		small, large, anew Verdict
	}{
		"as the study has it":       {func(*reporttest.Run) {}, Holds, Holds, Holds},
		"slow with small payloads":  {func(r *reporttest.Run) { r.Own["hello-world"] = 4 }, Fails, Holds, Holds},
		"constant with larger ones": {func(r *reporttest.Run) { r.Trips["payload-echo"] = 0 }, Holds, Undecided, Holds},
		"faster with the delay":     {func(r *reporttest.Run) { r.Trips["payload-echo"] = -0.5 }, Holds, Fails, Holds},
		"too few requests":          {func(r *reporttest.Run) { r.Plan.Requests = 10 }, Undecided, Undecided, Holds},
		"too few blocks":            {func(r *reporttest.Run) { r.Plan.Blocks = 4 }, Undecided, Undecided, Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			r := reporttest.NewRun(t)
			r.Plan.Requests, r.Plan.Blocks = 3000, 10
			test.change(&r)
			claims, err := Claims(r.Write(t, filepath.Join(t.TempDir(), "run")))
			if err != nil {
				t.Fatal(err)
			}
			if len(claims) != 3 || claims[0].Function != "hello-world" || claims[1].Function != "payload-echo" || claims[2].Function != "payload-echo" {
				t.Fatalf("got %+v", claims)
			}
			for i, want := range []Verdict{test.small, test.large, test.anew} {
				if claims[i].Verdict != want {
					t.Errorf("%s Got %q, want %q: %q", claims[i].Statement, claims[i].Verdict, want, claims[i].Evidence)
				}
			}
		})
	}
}

// What a new connection costs is found in round trips, beside what it costs a
// plain one.
func TestRoundTripsOfRun(t *testing.T) {
	r := reporttest.NewRun(t)
	r.Plan.Requests = 2000
	files := build(t, Options{Formats: []Format{CSV, HTML}}, r.Write(t, filepath.Join(t.TempDir(), "run")))
	rows := string(files["round_trips.csv"])
	for _, want := range []string{"run,new connection,hello-world,new,direct,0.99", "run,new connection,hello-world,new,clusterlink,3.9"} {
		if !strings.Contains(rows, want) {
			t.Errorf("the costs lack %q:\n%s", want, rows)
		}
	}
	page := string(files[Page])
	for _, want := range []string{
		"What the study found, held against this run", "✓ holds</strong> for payload-echo",
		"Costs in round trips of the link", `<li>data plane on edge <span>(tcp, cluster)</span></li>`,
		`<th scope="row">clusterlink</th><td class="n">3</td><td class="n">1</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
