package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Service is a function as its cluster knows it.
type Service struct {
	Cluster   string `json:"cluster"` // URL
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ColdStarts has requests find no pod of a function.
type ColdStarts interface {
	// Around waits until the function has no pod, for patience at most, calls
	// request, and returns when the pod came up that the request had to wait
	// for, by the clock of the client.
	Around(ctx context.Context, service Service, patience time.Duration, request func() error) (PodTimes, error)
}

// PodTimes are when a pod came up. What was not seen is zero.
type PodTimes struct {
	Created   time.Time     // the pod exists: activator and autoscaler have decided
	Scheduled time.Time     // it has a node
	Started   time.Time     // the last of its containers runs
	Ready     time.Time     // Kubernetes lets it have requests
	Within    time.Duration // how far off the times may be
}

// since returns the times since a moment.
func (t PodTimes) since(moment time.Time) Stages {
	after := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return at.Sub(moment)
	}
	return Stages{Created: after(t.Created), Scheduled: after(t.Scheduled), Started: after(t.Started), Ready: after(t.Ready), Within: t.Within}
}

// Stages are PodTimes since the request was sent.
type Stages struct {
	Created, Scheduled, Started, Ready time.Duration
	Within                             time.Duration
}

// ColdParts are what a cold start consists of, in milliseconds: each part lasts
// from the end of the one before, the first from when the request was sent and
// the last to the end of the answer.
type ColdParts struct {
	Decision   float64 `json:"decision_ms"`   // until the pod exists
	Scheduling float64 `json:"scheduling_ms"` // until it has a node
	Containers float64 `json:"containers_ms"` // until its containers run
	Readiness  float64 `json:"readiness_ms"`  // until it is ready
	Answer     float64 `json:"answer_ms"`     // until the answer has been read
}

// fields returns the parts in their order.
func (p *ColdParts) fields() [5]*float64 {
	return [5]*float64{&p.Decision, &p.Scheduling, &p.Containers, &p.Readiness, &p.Answer}
}

// field returns one of the parts, nil when there are none.
func (p *ColdParts) field(i int) *float64 {
	if p == nil {
		return nil
	}
	return p.fields()[i]
}

// coldParts returns the parts of a request's time, and whether all of them were
// seen. Knative probes pods itself and may answer long before Kubernetes calls
// the pod ready, so that what is left of the parts after the answer is none.
func (s *Sample) coldParts() (ColdParts, bool) {
	ready := s.Pod.Ready
	if ready == 0 {
		ready = s.Total // it was not ready before, or that would have been seen
	}
	stages := [...]time.Duration{s.Pod.Created, s.Pod.Scheduled, s.Pod.Started, ready, s.Total}
	var parts ColdParts
	begin := time.Duration(0)
	for i, field := range parts.fields() {
		if stages[i] <= 0 {
			return ColdParts{}, false
		}
		end := min(max(stages[i], begin), s.Total)
		*field = milliseconds(end - begin)
		begin = end
	}
	return parts, true
}

// describeCold fills in the medians of the parts.
func (r *Result) describeCold(all []ColdParts) {
	if len(all) == 0 {
		return
	}
	r.Cold = &ColdParts{}
	for i, field := range r.Cold.fields() {
		values := make([]float64, len(all))
		for j := range all {
			values[j] = *all[j].fields()[i]
		}
		*field, _ = Percentile(values, 50)
	}
}

// Warm says that a request did not have to wait for a pod: there was one.
const Warm load.ErrorClass = "warm"

// startCold measures a cell of cold starts: each request is a job of its own,
// sent when the function has no pod.
func (r *run) startCold(ctx context.Context, cell Cell, requests int) (load.Result, []Stages, error) {
	whole := load.Result{}
	var stages []Stages
	service := r.plan.Functions[cell.Function].Service
	for seq := range requests {
		var result load.Result
		times, err := r.Cold.Around(ctx, *service, r.plan.Load.IdlePatience(), func() (err error) {
			result, err = r.Client.Run(ctx, r.plan.job(cell, 1))
			return err
		})
		if err != nil {
			return whole, stages, err
		}
		if seq == 0 {
			whole.Started = result.Started
		}
		for _, record := range result.Records {
			at := times.since(result.Started.Add(record.Start))
			judgeCold(&record, times, at)
			later := result.Started.Sub(whole.Started)
			record.Seq = seq
			if record.Conn > 0 {
				record.Conn = seq + 1
			}
			record.Start, record.Intended = record.Start+later, record.Intended+later
			whole.Records, stages = append(whole.Records, record), append(stages, at)
		}
		whole.Collections += result.Collections
	}
	if !slices.ContainsFunc(whole.Records, func(record load.Record) bool { return record.Error != load.Refused }) {
		return whole, stages, verdict{errors.New("nobody takes connections while the function has no pod; an arm of cold starts has to lead through Knative's activator, as the url of a testbed_function does, and not to the pods")}
	}
	return whole, stages, nil
}

// judgeCold marks an answer that no new pod gave.
func judgeCold(record *load.Record, times PodTimes, at Stages) {
	switch {
	case record.Error != "":
	case times.Created.IsZero():
		record.Error, record.Detail = Warm, "it was answered, and the function had no new pod: the URL of the arm leads to another one"
	case at.Created <= -at.Within:
		record.Error, record.Detail = Warm, "the pod was made before the request was sent: somebody else called the function"
	}
}

// validateCold reports what a plan of cold starts cannot have.
func (p Plan) validateCold() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, name := range sortedKeys(p.Functions) {
		if p.Functions[name].Service == nil {
			complain("the run has cold starts of function %q and does not know where that is", name)
		}
	}
	if len(p.Connections) != 1 || p.Connections[0] != load.New {
		complain("each cold start has a connection of its own; the only connection mode is %q", load.New)
	}
	if p.Warmup != 0 {
		complain("a cold start has no warm-up; it is %d", p.Warmup)
	}
	if p.clients() > 1 {
		complain("cold starts are one request at a time; there are %d clients", p.clients())
	}
	return errors.Join(problems...)
}
