package bench

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// sleeper is a function that has no pod until it is called. Its pod comes up in
// steps, while the caller waits.
type sleeper struct {
	mu    sync.Mutex
	asked []Service
	fail  error
	pod   PodTimes // of the last one, zero when there was none
	awake bool
}

const step = 10 * time.Millisecond

func (s *sleeper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.awake {
		for _, at := range []*time.Time{&s.pod.Created, &s.pod.Scheduled, &s.pod.Started, &s.pod.Ready} {
			time.Sleep(step)
			*at = time.Now()
		}
		time.Sleep(step)
	}
	s.awake = true
}

func (s *sleeper) Around(_ context.Context, service Service, _ time.Duration, request func() error) (PodTimes, error) {
	s.mu.Lock()
	s.asked = append(s.asked, service)
	s.awake, s.pod = false, PodTimes{Within: time.Microsecond}
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		return PodTimes{}, fail
	}
	err := request()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pod, err
}

// newColdBed has a function that is called over two arms, which start it alike.
func newColdBed(t *testing.T) (*bed, *sleeper) {
	t.Helper()
	s := &sleeper{}
	b := newBed(t, s.ServeHTTP)
	url := b.plan.Arms["clusterlink"].URLs["hello"]
	b.plan.Functions = map[string]Function{"hello": {Service: &Service{Cluster: "k3s+local://edge", Namespace: "default", Name: "hello"}}}
	b.plan.Arms = map[string]Arm{"direct": {URLs: map[string]string{"hello": url}}, "clusterlink": {URLs: map[string]string{"hello": url}}}
	b.plan.Scenarios = map[string]Scenario{"edge": {"wan/a/b": delay(5)}}
	b.plan.Connections = []load.Connection{load.New}
	b.plan.Load, b.plan.Warmup = load.Model{Kind: load.ColdStart}, 0
	b.plan.Blocks, b.plan.Requests = 2, 6
	b.Cold = s
	return b, s
}

func TestColdStarts(t *testing.T) {
	b, s := newColdBed(t)
	report, err := b.run(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 12 || s.asked[0] != *b.plan.Functions["hello"].Service {
		t.Errorf("waited for %v, want 12 times for the function", s.asked)
	}
	for _, r := range report.Results {
		if r.Count != 6 || r.Errors != 0 || r.Cold == nil || r.First != nil || r.MedianLow == nil {
			t.Fatalf("%v: %+v", r.Cell, r)
		}
		sum := 0.0
		for _, part := range r.Cold.fields() {
			if *part < 10 {
				t.Errorf("%v: a part took %g ms, want 10 at least", r.Cell, *part)
			}
			sum += *part
		}
		if *r.Min < 50 || sum > 1.5**r.Median {
			t.Errorf("%v: the whole takes %g ms at least, the parts %g together, and the median is %g", r.Cell, *r.Min, sum, *r.Median)
		}
	}
	conns := map[string]bool{}
	if err := ReadSamples(b.Dir, func(s *Sample) {
		conns[s.Arm] = conns[s.Arm] || s.Conn == 3 && s.Seq == 2
		if s.Pod.Created < step || s.Pod.Ready < 4*step || s.Pod.Ready > s.Total || s.Pod.Within != time.Microsecond || s.Reused {
			t.Errorf("the pod came up at %+v of %v", s.Pod, s.Total)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !conns["direct"] || !conns["clusterlink"] {
		t.Error("the samples do not count the connections of a visit")
	}
	// The folder tells the same.
	folder, err := ReadFolder(b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := folder.Summarize()
	if diff := cmp.Diff(report.Results, again); diff != "" {
		t.Errorf("results (-run +folder):\n%s", diff)
	}
}

// A run of cold starts that is interrupted goes on after its last whole block,
// and keeps what it has measured of the next one.
func TestColdStartsGoOn(t *testing.T) {
	b, s := newColdBed(t)
	busy := errors.New("function default/hello still has a pod")
	b.Progress = func(p Progress) {
		if p.Block == 2 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fail = busy
		}
	}
	report, err := b.run(t, t.Context())
	if !errors.Is(err, busy) || report.State != Interrupted || !strings.Contains(err.Error(), `function "hello"`) {
		t.Fatalf("got %v, %s", err, report.State)
	}
	s.fail, s.asked, b.Progress = nil, nil, nil
	if report, err = b.run(t, t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.asked) != 6 || report.Results[0].Count != 6 {
		t.Errorf("waited %d times and has %d requests, want 6 and 6", len(s.asked), report.Results[0].Count)
	}
}

// An arm that leads past the activator finds nobody.
func TestColdStartsPastTheActivator(t *testing.T) {
	b, s := newColdBed(t)
	listener := httptest.NewServer(s)
	b.plan.Arms["clusterlink"] = Arm{URLs: map[string]string{"hello": listener.URL}}
	b.Progress = func(Progress) { listener.Close() } // as the pod does after it was called at first
	_, err := b.run(t, t.Context())
	if err == nil || !strings.Contains(err.Error(), `arm "clusterlink"`) || !strings.Contains(err.Error(), "has to lead through Knative's activator") {
		t.Errorf("got %v", err)
	}
}

// An answer that no new pod gave is no cold start.
func TestWarmAnswers(t *testing.T) {
	sent := time.Unix(1790000000, 0)
	for name, test := range map[string]struct {
		pod    PodTimes
		record load.Record
		want   load.ErrorClass
	}{
		"cold":       {PodTimes{Created: sent.Add(time.Millisecond)}, load.Record{}, ""},
		"clocks":     {PodTimes{Created: sent.Add(-time.Millisecond), Within: 2 * time.Millisecond}, load.Record{}, ""},
		"no pod":     {PodTimes{}, load.Record{}, Warm},
		"other call": {PodTimes{Created: sent.Add(-time.Second), Within: time.Millisecond}, load.Record{}, Warm},
		"failed":     {PodTimes{}, load.Record{Error: load.Timeout}, load.Timeout},
	} {
		judgeCold(&test.record, test.pod, test.pod.since(sent))
		if test.record.Error != test.want || (test.want == Warm) != (test.record.Detail != "") {
			t.Errorf("%s: got %q (%s), want %q", name, test.record.Error, test.record.Detail, test.want)
		}
	}
}

func TestColdParts(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, test := range map[string]struct {
		pod  Stages
		want *ColdParts
	}{
		"in order":                {Stages{Created: ms(10), Scheduled: ms(12), Started: ms(50), Ready: ms(80)}, &ColdParts{10, 2, 38, 30, 20}},
		"answered before ready":   {Stages{Created: ms(10), Scheduled: ms(12), Started: ms(50), Ready: ms(1200)}, &ColdParts{10, 2, 38, 50, 0}},
		"told in another order":   {Stages{Created: ms(10), Scheduled: ms(52), Started: ms(50), Ready: ms(80)}, &ColdParts{10, 42, 0, 28, 20}},
		"ready much later":        {Stages{Created: ms(10), Scheduled: ms(12), Started: ms(50)}, &ColdParts{10, 2, 38, 50, 0}},
		"never seen to start":     {Stages{Created: ms(10), Scheduled: ms(12), Ready: ms(80)}, nil},
		"created before it began": {Stages{Created: ms(-1), Scheduled: ms(12), Started: ms(50), Ready: ms(80)}, nil},
	} {
		s := Sample{Pod: test.pod}
		s.Total = ms(100)
		got, ok := s.coldParts()
		if ok != (test.want != nil) || ok && got != *test.want {
			t.Errorf("%s: got %+v, %t, want %+v", name, got, ok, test.want)
		}
	}
}
