package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// The folder of a run has a stable layout, and sha256sum agrees with it.
func TestFolderLayout(t *testing.T) {
	b := newBed(t, echo)
	b.plan.Connections = []load.Connection{load.New}
	b.Inputs = Inputs{"name": "test"}
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"environment.json", "inputs.tfvars", "main.tf", "progress.json", "samples.csv.zst", "summary.json"}
	for _, cell := range b.plan.cells() {
		want = append(want, "fortio/"+cellFile(cell)+".json", "histograms/"+cellFile(cell)+".hgrm")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, sortedKeys(report.SHA256)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if report.SHA256[SamplesFile] != report.SamplesSHA256 {
		t.Errorf("the samples have digests %s and %s", report.SHA256[SamplesFile], report.SamplesSHA256)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", DigestsFile)
	check.Dir = b.Dir
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, output)
	}
	text, err := os.ReadFile(filepath.Join(b.Dir, SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var s summary
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summary{"run", report.Started, report.Finished, Completed, report.Results, report.Comparisons}, s); diff != "" {
		t.Errorf("summary (-report +file):\n%s", diff)
	}

	own := filepath.Join(b.Dir, "notes.txt")
	if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(b.Dir, sortedKeys(report.SHA256)); err == nil {
		t.Error("a folder with the notes of a person is removed")
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 1 {
		t.Errorf("beside the notes there is %v (%v)", left, err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if err := Remove(b.Dir, sortedKeys(report.SHA256)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.Dir); err == nil {
		t.Error("the folder is still there")
	}
}

// tallyOf returns a tally of one cell whose requests take 1 ms to n ms, one
// after another, of which the last two fail.
func tallyOf(plan Plan, cell Cell, n int) *Tally {
	tally := NewTally(plan)
	sent := time.Unix(1790000000, 0)
	for i := range n {
		s := Sample{Cell: cell, Block: 1, Valid: true, Sent: sent, Record: load.Record{Status: 200, Reused: true}}
		s.Total = time.Duration(i+1) * time.Millisecond
		switch i {
		case n - 2:
			s.Error, s.Status = load.StatusError, 503
		case n - 1:
			s.Error, s.Status = load.Timeout, 0
		}
		sent = sent.Add(s.Total)
		tally.Add(&s)
	}
	return tally
}

func TestFortio(t *testing.T) {
	plan := testPlan()
	cell := plan.cells()[0]
	tally := tallyOf(plan, cell, 1002)
	files, err := exports(&Record{Plan: plan}, tally, summary{Run: "test-1"})
	if err != nil {
		t.Fatal(err)
	}
	var got fortio
	if err := json.Unmarshal(files["fortio/"+cellFile(cell)+".json"], &got); err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("a run with one cell has the files %q", sortedKeys(files))
	}
	buckets := got.DurationHistogram.Data
	wantSum := 1002 * 1003 / 2 / 1e3
	got.DurationHistogram.Data, got.ErrorsDurationHistogram.Data = nil, nil
	want := fortio{
		RunType: "HTTP", Labels: "test-1: echo, cloud, reuse, direct",
		RequestedQPS: "max", RequestedDuration: "exactly 22 calls", Exactly: 22,
		ActualQPS: 1002 / wantSum, ActualDuration: time.Duration(wantSum * 1e9), NumThreads: 1,
		DurationHistogram: &fortioHistogram{
			Count: 1002, Min: 0.001, Max: 1.002, Sum: wantSum, Avg: wantSum / 1002, StdDev: math.Sqrt(1002*1003/12.0) / 1e3,
			Percentiles: []fortioPercentile{{50, 0.5015}, {75, 0.75175}, {90, 0.9019}, {99, 0.99199}},
		},
		ErrorsDurationHistogram: &fortioHistogram{Count: 2, Min: 1.001, Max: 1.002, Sum: 2.003, Avg: 1.0015, StdDev: math.Sqrt(0.5) / 1e3},
		ID:                      "test-1.echo.cloud.reuse.direct", RetCodes: map[int]int64{200: 1000, 503: 1, -1: 1},
		URL: "http://198.18.0.2:81", HTTPReqTimeOut: 5 * time.Second,
	}
	almost := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a)) })
	if diff := cmp.Diff(want, got, almost); diff != "" {
		t.Errorf("fortio (-want +got):\n%s", diff)
	}
	count, end := int64(0), 0.0
	for _, bucket := range buckets {
		count += bucket.Count
		if bucket.Start <= end || bucket.End < bucket.Start || bucket.End > bucket.Start*1.0501 || !near(bucket.Percent, 100*float64(count)/1002) {
			t.Errorf("bucket %+v after %d requests up to %g", bucket, count, end)
		}
		end = bucket.End
	}
	if count != 1002 || !near(buckets[0].Start, 0.001) || !near(end, 1.002) {
		t.Errorf("%d requests from %g to %g are in buckets", count, buckets[0].Start, end)
	}
}

// The percentile distribution ends at the greatest time, and each of its lines
// is as far up as it says.
func TestPercentileDistribution(t *testing.T) {
	times := make([]float64, 10000)
	for i := range times {
		times[i] = float64(i+1) / 100
	}
	text, err := percentiles(times)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	var value, percentile float64
	var count int
	for scanner := bufio.NewScanner(strings.NewReader(string(text))); scanner.Scan(); {
		if _, err := fmt.Sscanf(scanner.Text(), "%f %f %d", &value, &percentile, &count); err != nil {
			continue
		}
		lines++
		if math.Abs(value-float64(count)/100) > 0.001*value+0.001 {
			t.Errorf("%q: %d requests are up to %g ms", scanner.Text(), count, float64(count)/100)
		}
		if float64(count) < percentile*10000-0.01 {
			t.Errorf("%q: %g of the requests are more", scanner.Text(), percentile)
		}
	}
	if lines < 20 || count != 10000 || percentile != 1 {
		t.Errorf("%d lines end with %d requests at %g:\n%s", lines, count, percentile, text)
	}
}

// No two cells have files of the same name, and no name leaves the folder.
func TestCellFile(t *testing.T) {
	for want, cell := range map[string]Cell{
		"hello-world.edge.reuse.direct": {Function: "hello-world", Scenario: "edge", Connection: "reuse", Arm: "direct"},
		"a%2eb.c.reuse%3a10.d":          {Function: "a.b", Scenario: "c", Connection: "reuse:10", Arm: "d"},
		"a.b%2ec.new.%2e%2e%2f%c3%bc":   {Function: "a", Scenario: "b.c", Connection: "new", Arm: "../ü"},
	} {
		if got := cellFile(cell); got != want {
			t.Errorf("%+v: got %q, want %q", cell, got, want)
		}
	}
}
