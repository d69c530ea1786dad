package bench

import (
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// network is a set of links in memory. It remembers every profile it was
// given, and fails the verifications that off chooses.
type network struct {
	profiles map[string]netem.Profile
	applied  []netem.Profile
	checks   int
	off      func(check int, profile netem.Profile) bool
}

func (n *network) Observe(_ context.Context, id string) (netem.Profile, error) {
	profile, ok := n.profiles[id]
	if !ok {
		return netem.Profile{}, fmt.Errorf("there is no link %q", id)
	}
	return profile, nil
}

func (n *network) Apply(ctx context.Context, id string, profile netem.Profile) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.profiles[id] = profile
	n.applied = append(n.applied, profile)
	return nil
}

func (n *network) Verify(_ context.Context, id string) (any, error) {
	n.checks++
	if n.off != nil && n.off(n.checks, n.profiles[id]) {
		return map[string]float64{"rtt_ms": 99}, errors.New("measured 99 ms, wanted less")
	}
	return map[string]float64{"rtt_ms": 1}, nil
}

// bed is a testbed in one process: real requests from a real generator to real
// servers on loopback, over links in memory.
type bed struct {
	Runner
	plan    Plan
	links   *network
	configs netem.Profile
}

func newBed(t *testing.T, arm http.HandlerFunc) *bed {
	t.Helper()
	direct := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(direct.Close)
	other := httptest.NewServer(arm)
	t.Cleanup(other.Close)
	generator := httptest.NewServer(load.NewHandler())
	t.Cleanup(generator.Close)

	b := &bed{plan: testPlan(), configs: delay(1)}
	b.plan.Arms = map[string]Arm{
		"direct":      {URLs: map[string]string{"hello": direct.URL, "echo": direct.URL}},
		"clusterlink": {URLs: map[string]string{"hello": other.URL, "echo": other.URL}},
	}
	b.plan.Blocks, b.plan.Requests = 5, 15
	b.links = &network{profiles: map[string]netem.Profile{"wan/a/b": b.configs}}
	b.Runner = Runner{
		Client: load.Client{URL: generator.URL, HTTP: generator.Client()},
		Links:  b.links,
		Dir:    filepath.Join(t.TempDir(), "run"),
		Now:    time.Now,

		Environment: map[string]string{"kernel": "test"},
	}
	return b
}

// run runs the plan and checks what must hold however it ends.
func (b *bed) run(t *testing.T, ctx context.Context) (Report, error) {
	t.Helper()
	report, err := b.Run(ctx, b.plan)
	if got := b.links.profiles["wan/a/b"]; !got.Equal(b.configs) {
		t.Errorf("after the run the link is %s, want %s", got.JSON(), b.configs.JSON())
	}
	if report.SamplesFile == "" {
		if _, statErr := os.Stat(b.Dir); err == nil || !errors.Is(statErr, fs.ErrNotExist) || len(b.links.applied) > 0 {
			t.Errorf("a run without samples ended with %v, has a folder (%v) and set its links %d times", err, statErr, len(b.links.applied))
		}
		return report, err
	}
	content, readErr := os.ReadFile(report.SamplesFile)
	if readErr != nil {
		t.Fatal(readErr)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != report.SamplesSHA256 {
		t.Errorf("the samples have digest %s, the report says %s", got, report.SamplesSHA256)
	}
	var record struct {
		Completed   bool              `json:"completed"`
		Environment map[string]string `json:"environment"`
	}
	if err := json.Unmarshal([]byte(report.Environment), &record); err != nil {
		t.Fatal(err)
	}
	if record.Completed != (err == nil) || record.Environment["kernel"] != "test" {
		t.Errorf("the environment says %+v of a run with error %v", record, err)
	}
	return report, err
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

func TestRun(t *testing.T) {
	const slower = 3 * time.Millisecond
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slower) // what the run has to find
		echo(w, r)
	})
	var seen []Progress
	b.Progress = func(p Progress) { seen = append(seen, p) }
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != 24 || len(report.Comparisons) != 12 || report.InvalidVisits != 0 {
		t.Errorf("got %d results, %d comparisons, %d invalid visits", len(report.Results), len(report.Comparisons), report.InvalidVisits)
	}
	for _, r := range report.Results {
		if r.Count != 15 || r.Errors != 0 || r.First == nil || r.P90 != nil || r.P99 != nil || r.Drift == nil {
			t.Errorf("%v: %+v", r.Cell, r)
		}
		if r.MedianLow == nil || r.MedianHigh == nil { // on a busy machine blocks may differ too much for one
			continue
		}
		if *r.Min > *r.MedianLow || *r.MedianLow > *r.Median || *r.Median > *r.MedianHigh || *r.MedianHigh > *r.Max {
			t.Errorf("%v is out of order: %+v", r.Cell, r)
		}
	}
	for _, c := range report.Comparisons {
		if c.Arm != "clusterlink" || c.Baseline != "direct" || *c.Difference < 2 || *c.Ratio <= 1 || *c.DifferenceLow > *c.Difference || *c.RatioHigh < *c.Ratio || *c.P > 0.01 || *c.Adjusted > 0.05 {
			t.Errorf("%v: %+v", c.Cell, c)
		}
	}
	if len(seen) != 15 || seen[14].Visit != 15 || seen[14].Visits != 15 || seen[14].Left <= 0 {
		t.Errorf("progress was %+v", seen)
	}
	if got := len(b.links.applied); got != 16 {
		t.Errorf("the link was set %d times, want once for each of 15 visits and once at the end", got)
	}
	rows := rowsOf(t, report.SamplesFile)
	if want := 24*15 + 24*5; len(rows) != want { // measured and warm-up
		t.Errorf("got %d samples, want %d", len(rows), want)
	}
	for _, row := range rows {
		if row["valid"] != "true" || row["error"] != "" || (row["warmup"] == "true") != (row["seq"] == "0") {
			t.Fatalf("sample %v", row)
		}
	}
}

func rowsOf(t *testing.T, path string) []map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	lines, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range line {
			row[lines[0][i]] = value
		}
		rows = append(rows, row)
	}
	return rows
}

func TestArmThatFailsEndsTheRun(t *testing.T) {
	var calls atomic.Int64
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 2 { // the calls before the run
			http.Error(w, "no healthy upstream", http.StatusInternalServerError)
			return
		}
		echo(w, r)
	})
	_, err := b.run(t, t.Context())
	for _, want := range []string{`arm "clusterlink"`, "function", "scenario", "500 Internal Server Error: no healthy upstream"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

func TestArmThatNeverAnswersEndsTheRunBeforeItStarts(t *testing.T) {
	b := newBed(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	start := time.Now()
	b.Now = func() time.Time { // an hour between two looks at the clock
		start = start.Add(time.Hour)
		return start
	}
	_, err := b.run(t, t.Context())
	for _, want := range []string{`arm "clusterlink" does not reach function "echo"`, "500"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// A few failures are counted, stay out of the summary and are tolerated up to
// the ratio.
func TestFailuresAreCounted(t *testing.T) {
	var calls atomic.Int64
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%7 == 0 {
			time.Sleep(50 * time.Millisecond) // would be the maximum
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		echo(w, r)
	})
	b.plan.MaxErrorRatio = 0.5
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	for _, r := range report.Results {
		failures += r.Errors
		if r.Count+r.Errors != 15 || *r.Max >= 50 {
			t.Errorf("%v: %+v", r.Cell, r)
		}
	}
	if failures == 0 {
		t.Error("no failure was counted")
	}
	b.plan.MaxErrorRatio = 0
	b.Dir += "-strict"
	if _, err := b.run(t, t.Context()); err == nil || !strings.Contains(err.Error(), "a share above 0") || !strings.Contains(err.Error(), "503") {
		t.Errorf("got error %v, want the share of failures", err)
	}
}

func TestServerThatClosesConnectionsIsNoReuse(t *testing.T) {
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		echo(w, r)
	})
	if _, err := b.run(t, t.Context()); err == nil || !strings.Contains(err.Error(), "used a connection that was kept") {
		t.Errorf("got error %v", err)
	}
}

// A visit whose links are off is kept, marked and done again.
func TestInvalidVisitIsRepeated(t *testing.T) {
	b := newBed(t, echo)
	b.links.off = func(check int, _ netem.Profile) bool { return check == 2 } // after the first visit
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.InvalidVisits != 1 {
		t.Errorf("got %d invalid visits, want 1", report.InvalidVisits)
	}
	for _, r := range report.Results {
		if r.Count != 15 {
			t.Errorf("%v has %d requests, want 15", r.Cell, r.Count)
		}
	}
	invalid := 0
	for _, row := range rowsOf(t, report.SamplesFile) {
		if row["valid"] == "false" {
			invalid++
			if row["attempt"] != "1" || row["block"] != "1" {
				t.Fatalf("sample %v is invalid", row)
			}
		}
	}
	if want := 8 * (1 + 3); invalid != want {
		t.Errorf("%d samples are marked, want %d", invalid, want)
	}
}

func TestScenarioWithoutValidVisitFailsTheRun(t *testing.T) {
	b := newBed(t, echo)
	b.links.off = func(_ int, profile netem.Profile) bool { return profile.Equal(delay(20)) }
	report, err := b.run(t, t.Context())
	if err == nil || !strings.Contains(err.Error(), `scenario "cloud"`) || !strings.Contains(err.Error(), "measured 99 ms") {
		t.Errorf("got error %v", err)
	}
	if report.InvalidVisits != 10 {
		t.Errorf("got %d invalid visits, want each of 5 twice", report.InvalidVisits)
	}
}

// A run that is cancelled keeps what it has, and its link is set back although
// the context has ended; run checks that.
func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls atomic.Int64
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 2+2*4*4+3 { // within the third visit
			cancel()
		}
		echo(w, r)
	})
	report, err := b.run(t, ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if got, want := len(rowsOf(t, report.SamplesFile)), 2*8*4; got < want {
		t.Errorf("%d samples are kept, want the %d of two visits", got, want)
	}
}

func TestUnknownLink(t *testing.T) {
	b := newBed(t, echo)
	b.plan.Scenarios["edge"] = Scenario{"wan/a/c": delay(1)}
	if _, err := b.run(t, t.Context()); err == nil || !strings.Contains(err.Error(), `there is no link "wan/a/c"`) {
		t.Errorf("got error %v", err)
	}
}
