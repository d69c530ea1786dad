// Package reporttest makes the folders of runs that never took place, for tests
// of what is made from them.
package reporttest

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Run is a run that never took place: its times are drawn from log-normal laws
// around a model of round trips. The same run gives the same files.
type Run struct {
	Plan      bench.Plan
	Emulator  string
	Factor    float64                               // of all times
	Failing   func(c bench.Cell, seq int) bool      // requests that fail, none when nil
	Invalid   func(block int, scenario string) bool // visits whose links were off, none when nil
	Completed bool
	Parts     int // of a run that was interrupted, a minute each but the last; 0 for 1

	ClusterLink string // version of the images

	// What arms other than the baseline take more over a connection that is
	// kept, by function: milliseconds, and round trips.
	Own, Trips map[string]float64
}

func profile(t *testing.T, text string) netem.Profile {
	t.Helper()
	p, err := netem.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// NewRun returns a run with the plan of the response-time scenario.
func NewRun(t *testing.T) Run {
	t.Helper()
	urls := func(host string) map[string]string {
		return map[string]string{"hello-world": "http://" + host + ":80/", "payload-echo": "http://" + host + ":81/"}
	}
	return Run{
		Plan: bench.Plan{
			Name: "response-time",
			Functions: map[string]bench.Function{
				"hello-world":  {},
				"payload-echo": {PayloadBytes: 102400, Echo: true},
			},
			Arms: map[string]bench.Arm{
				"direct": {URLs: urls("198.19.0.12"), Path: "NodePort on the overlay address", Hops: []bench.Hop{
					{Name: "client pod on edge", Kind: bench.HopClient},
					{Name: "node port on cloud", Kind: bench.HopService, Protocol: bench.HopTCP, Network: bench.HopOverlay},
					{Name: "function on cloud", Kind: bench.HopFunction, Protocol: bench.HopTCP, Network: bench.HopCluster},
				}},
				"clusterlink": {URLs: urls("hello-world.default.svc"), Path: "ClusterLink import", Hops: []bench.Hop{
					{Name: "client pod on edge", Kind: bench.HopClient},
					{Name: "import on edge", Kind: bench.HopService, Protocol: bench.HopTCP, Network: bench.HopCluster},
					{Name: "data plane on edge", Kind: bench.HopProxy, Protocol: bench.HopTCP, Network: bench.HopCluster},
					{Name: "node port on cloud", Kind: bench.HopService, Protocol: bench.HopMTLS, Network: bench.HopOverlay},
					{Name: "data plane on cloud", Kind: bench.HopProxy, Protocol: bench.HopMTLS, Network: bench.HopCluster},
					{Name: "service on cloud", Kind: bench.HopService, Protocol: bench.HopTCP, Network: bench.HopCluster},
					{Name: "function on cloud", Kind: bench.HopFunction, Protocol: bench.HopTCP, Network: bench.HopCluster},
				}},
			},
			Baseline: "direct",
			Scenarios: map[string]bench.Scenario{
				"local": {"wan/edge/cloud": profile(t, `{}`)},
				"edge":  {"wan/edge/cloud": profile(t, `{"rtt":"10ms","jitter":"1ms","loss":{"random":{"percent":0.08}}}`)},
				"cloud": {"wan/edge/cloud": profile(t, `{"rtt":"40ms","jitter":"4ms","loss":{"random":{"percent":0.32}}}`)},
			},
			Connections: []load.Connection{load.Reuse, load.New},
			Requests:    100, Warmup: 2, Blocks: 5, Seed: 1,
			Timeout: 5 * time.Second, ConnectTimeout: 2 * time.Second, MaxErrorRatio: 0.05,
		},
		Emulator: "testbed-agent underlay", Factor: 1, Completed: true, ClusterLink: "v0.4.1",
		Own: map[string]float64{"hello-world": 0.3, "payload-echo": 0.3}, Trips: map[string]float64{"payload-echo": 0.25},
	}
}

var roundTrips = map[string]float64{"local": 0.1, "edge": 10.4, "cloud": 40.9}

// time returns how long one request takes, in milliseconds.
func (r Run) time(c bench.Cell, first bool, random *rand.Rand) float64 {
	trips := 1.0
	if c.Function == "payload-echo" {
		trips = 2.2
	}
	if c.Connection == load.New || first {
		trips++
		if c.Arm != "direct" {
			trips += 3
		}
	}
	own := 0.4
	if c.Arm != "direct" {
		own += r.Own[c.Function]
		trips += r.Trips[c.Function]
	}
	return r.Factor * (own + trips*roundTrips[c.Scenario]) * math.Exp(0.12*random.NormFloat64())
}

// Write makes the folder of the run and returns its path.
func (r Run) Write(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	samples, err := bench.NewSampleWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(r.Plan.Seed, 7))
	started := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	record := bench.Record{Started: started, Finished: started.Add(6 * time.Minute), Completed: r.Completed, Plan: r.Plan}
	record.Environment = r.environment()
	for part := range max(r.Parts, 1) - 1 {
		began := started.Add(time.Duration(part) * time.Minute)
		record.Earlier = append(record.Earlier, bench.Part{Started: began, Ended: began.Add(time.Minute), Environment: r.environment()})
		record.Resumed = new(began.Add(time.Minute))
	}
	for _, visit := range r.Plan.Schedule() {
		valid := r.Invalid == nil || !r.Invalid(visit.Block, visit.Scenario)
		record.Visits = append(record.Visits, r.visit(visit, valid))
		var taken []bench.Sample
		for position, cell := range visit.Cells {
			for seq := range r.Plan.Warmup + visit.Requests {
				sample := bench.Sample{Cell: cell, Block: visit.Block, Attempt: 1, Valid: valid, Position: position + 1, Sent: started}
				sample.Seq, sample.Warmup = seq, seq < r.Plan.Warmup
				if r.Failing != nil && r.Failing(cell, seq) {
					sample.Error, sample.Detail = load.StatusError, "503 Service Unavailable"
				}
				sample.Total = time.Duration(1e6 * r.time(cell, seq == 0, random))
				if r.Plan.Load.Cold() {
					sample.Pod = bench.Stages{Created: sample.Total / 10, Scheduled: sample.Total / 8, Started: sample.Total / 3, Ready: sample.Total / 2}
				}
				sample.Reused = cell.Connection == load.Reuse && seq > 0
				taken = append(taken, sample)
			}
		}
		if err := samples.Write(taken); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := samples.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, bench.EnvironmentFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (r Run) visit(visit bench.Visit, valid bool) bench.VisitRecord {
	checks := func(problem string) []bench.LinkCheck {
		var found []bench.LinkCheck
		for id, p := range r.Plan.Scenarios[visit.Scenario] {
			rtt := roundTrips[visit.Scenario]
			if problem != "" {
				rtt += 8
			}
			found = append(found, bench.LinkCheck{Link: id, Profile: p, Problem: problem, Measured: map[string]any{
				"packets": 25, "wanted_rtt_ms": p.Expect(100).RTT.Seconds() * 1000,
				"rtt_median_ms": rtt, "rtt_min_ms": rtt * 0.8, "rtt_max_ms": rtt * 1.3,
				"wanted_forward_loss": 0.08, "forward_loss": 0, "wanted_reverse_loss": 0.08, "reverse_loss": 4.0,
			}})
		}
		return found
	}
	record := bench.VisitRecord{Block: visit.Block, Scenario: visit.Scenario, Attempt: 1, Valid: valid, Before: checks(""), After: checks("")}
	if !valid {
		record.After = checks("the median RTT is off: wanted 10 ms, measured 18.4 ms")
	}
	return record
}

func (r Run) environment() map[string]any {
	describe := func(name string) map[string]any {
		return map[string]any{
			"cpu": "Test CPU at 3.0 GHz",
			"nodes": []map[string]string{{"name": name, "os": "Debian GNU/Linux 12 (bookworm)", "arch": "amd64", "kernel": "6.18.44",
				"kubernetes": "v1.37.2+k3s1", "runtime": "containerd://1.6.20", "cpu": "2", "memory": "24684092Ki"}},
			"images": []string{"ghcr.io/clusterlink-net/cl-controlplane:" + r.ClusterLink},
		}
	}
	return map[string]any{
		"provider": "0.1.0", "nebula": "v1.11.2", "emulator": r.Emulator,
		"client": map[string]string{"cluster": "k3s+local://edge", "namespace": "default", "pod": "testbed-run-" + r.Plan.Name,
			"node": "edge", "image": "testbed.local/agent:0123456789ab"},
		"clusters": map[string]any{"k3s+local://edge": describe("edge"), "k3s+local://cloud": describe("cloud")},
	}
}
