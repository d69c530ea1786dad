package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

func testPlan() Plan {
	urls := map[string]string{"hello": "http://198.18.0.2:80", "echo": "http://198.18.0.2:81"}
	return Plan{
		Name:        "test",
		Functions:   map[string]Function{"hello": {}, "echo": {PayloadBytes: 1000, Echo: true}},
		Arms:        map[string]Arm{"direct": {URLs: urls}, "clusterlink": {URLs: urls}},
		Baseline:    "direct",
		Scenarios:   map[string]Scenario{"edge": {"wan/a/b": delay(5)}, "local": {}, "cloud": {"wan/a/b": delay(20)}},
		Connections: load.Connections(),
		Requests:    22, Warmup: 1, Blocks: 4, Seed: 7,
		Timeout: 5 * time.Second, ConnectTimeout: 2 * time.Second, MaxErrorRatio: 0.05,
	}
}

func delay(ms int) netem.Profile {
	direction := netem.Direction{Delay: netem.Duration(time.Duration(ms) * time.Millisecond)}
	return netem.Profile{Forward: direction, Reverse: direction}
}

func TestScheduleFollowsSeed(t *testing.T) {
	plan := testPlan()
	first := plan.Schedule()
	if diff := cmp.Diff(first, plan.Schedule()); diff != "" {
		t.Errorf("the same plan has two schedules:\n%s", diff)
	}
	plan.Seed = 8
	if cmp.Equal(first, plan.Schedule()) {
		t.Error("two seeds give the same schedule")
	}
}

func TestScheduleIsBalanced(t *testing.T) {
	plan := testPlan()
	requests, ahead := map[Cell]int{}, map[Cell]int{}
	visits := plan.Schedule()
	if got, want := len(visits), plan.Blocks*len(plan.Scenarios); got != want {
		t.Fatalf("got %d visits, want %d", got, want)
	}
	for i, visit := range visits {
		if want := i/len(plan.Scenarios) + 1; visit.Block != want {
			t.Errorf("visit %d is in block %d, want %d", i, visit.Block, want)
		}
		for j := 0; j < len(visit.Cells); j += 2 {
			a, b := visit.Cells[j], visit.Cells[j+1]
			if a.Scenario != visit.Scenario || a.Arm == b.Arm || a.Function != b.Function || a.Connection != b.Connection {
				t.Errorf("block %d: arms are not side by side: %v, %v", visit.Block, a, b)
			}
			ahead[a]++
			requests[a] += visit.Requests
			requests[b] += visit.Requests
		}
	}
	if got := len(requests); got != len(plan.cells()) {
		t.Errorf("got %d cells, want %d", got, len(plan.cells()))
	}
	for _, cell := range plan.cells() {
		if requests[cell] != plan.Requests {
			t.Errorf("%v: %d requests, want %d", cell, requests[cell], plan.Requests)
		}
		if ahead[cell] != plan.Blocks/2 {
			t.Errorf("%v: first of its pair in %d of %d blocks", cell, ahead[cell], plan.Blocks)
		}
	}
}

func TestValidatePlan(t *testing.T) {
	if err := testPlan().Validate(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		change func(*Plan)
		want   string
	}{
		{func(p *Plan) { p.Functions = nil }, "needs a function"},
		{func(p *Plan) { p.Baseline = "straight" }, `"straight" is not one of the arms ["clusterlink" "direct"]`},
		{func(p *Plan) { p.Functions["other"] = Function{} }, `arm "direct" has no URL for function "other"`},
		{func(p *Plan) {
			p.Arms["direct"] = Arm{URLs: p.Arms["direct"].URLs, Hosts: map[string]string{"hallo": "x.test"}}
		}, `arm "direct" has a host for "hallo", which is not one of the functions ["echo" "hello"]`},
		{func(p *Plan) { p.Requests = 3 }, "3 requests cannot be spread over 4 blocks"},
		{func(p *Plan) { p.Warmup = 0 }, "warm-up"},
		{func(p *Plan) { p.MaxErrorRatio = 2 }, "from 0 to 1"},
		{func(p *Plan) { p.Load.Kind = load.ColdStart }, `does not know where that is`},
		{func(p *Plan) { p.Load.Kind = load.ColdStart }, `the only connection mode is "new"`},
		{func(p *Plan) { p.Load.Kind = load.ColdStart }, "has no warm-up"},
		{func(p *Plan) { p.Load.Kind, p.Clients = load.ColdStart, 2 }, "there are 2 clients"},
	}
	for _, test := range tests {
		plan := testPlan()
		test.change(&plan)
		if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got error %v, want %q", err, test.want)
		}
	}
}
