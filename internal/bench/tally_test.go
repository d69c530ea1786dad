package bench

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Requests over new connections are no part of the steady state of a closed
// loop that keeps its connections. In an open loop they are.
func TestTallyCounts(t *testing.T) {
	sample := func(connection load.Connection, reused bool, change func(*Sample)) *Sample {
		s := &Sample{Cell: Cell{Connection: connection}, Block: 1, Valid: true, Record: load.Record{Seq: 3, Reused: reused, Total: time.Millisecond}}
		change(s)
		return s
	}
	nothing := func(*Sample) {}
	tests := []struct {
		name         string
		sample       *Sample
		closed, open int
	}{
		{"kept", sample(load.Reuse, true, nothing), 1, 1},
		{"kept, but dropped", sample(load.Reuse, false, nothing), 0, 1},
		{"new", sample(load.New, false, nothing), 1, 1},
		{"kept for some, first", sample(load.ReuseFor(5), false, nothing), 1, 1},
		{"warm-up", sample(load.Reuse, true, func(s *Sample) { s.Warmup = true }), 0, 0},
		{"invalid", sample(load.Reuse, true, func(s *Sample) { s.Valid = false }), 0, 0},
		{"failed", sample(load.Reuse, true, func(s *Sample) { s.Error = load.Timeout }), 0, 0},
	}
	for _, test := range tests {
		for kind, want := range map[load.ModelKind]int{load.ClosedLoop: test.closed, load.OpenLoop: test.open} {
			tally := NewTally(Plan{Load: load.Model{Kind: kind}})
			tally.Add(test.sample)
			if got := len(tally.Counted()[test.sample.Cell][1]); got != want {
				t.Errorf("%s, %s loop: %d requests count, want %d", test.name, kind, got, want)
			}
		}
	}
}

// A cell is marked when the client's own part is more than a hundredth of its
// median.
func TestLagging(t *testing.T) {
	plan := testPlan()
	tally := NewTally(plan)
	lags := map[string]time.Duration{"direct": 10 * time.Microsecond, "clusterlink": 11 * time.Microsecond}
	for _, cell := range plan.cells() {
		for i := range 10 {
			lag := lags[cell.Arm]
			if i == 9 {
				lag = 10 * time.Second // one, which the median does not show
			}
			tally.Add(&Sample{Cell: cell, Block: 1, Valid: true, Record: load.Record{Seq: i + 1, Reused: true, Total: time.Millisecond, Lag: lag}})
		}
	}
	results, _ := Summarize(plan, tally)
	for _, r := range results {
		if want := milliseconds(lags[r.Arm]); r.Lag == nil || *r.Lag != want || r.Lagging != (r.Arm == "clusterlink") {
			t.Errorf("%v: lag %v, lagging %t, want a lag of %g ms", r.Cell, r.Lag, r.Lagging, want)
		}
	}
	if diff := cmp.Diff(time.Duration(0), NewTally(plan).Lag(Cell{})); diff != "" {
		t.Error(diff)
	}
}

// Plans of earlier folders have the think time of their closed loop elsewhere.
func TestPlanOfEarlierFolder(t *testing.T) {
	var plan Plan
	if err := plan.UnmarshalJSON([]byte(`{"name":"old","think_time":200000000,"requests":7}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Plan{Name: "old", Requests: 7, Load: load.Model{ThinkTime: 200 * time.Millisecond}}, plan); diff != "" {
		t.Error(diff)
	}
}
