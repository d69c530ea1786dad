package load

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// ModelKind says what makes the next request be sent.
type ModelKind string

const (
	// ClosedLoop sends the next request of a connection when the answer to its last
	// one has been read and the think time has passed. A server that stalls is
	// sent nothing meanwhile, so its stall shows in one request a connection and
	// not in the percentiles.
	ClosedLoop ModelKind = "closed"
	// OpenLoop sends requests at times that do not depend on answers. The time of a
	// request counts from when it should have been sent, so that what waits
	// behind a stall shows it.
	OpenLoop ModelKind = "open"
	// ColdStart sends a request when the function that it is for has no pod, and
	// waits for the answer. It is what runs do, not generators: each request is a
	// job of its own.
	ColdStart ModelKind = "cold-start"
)

// ModelKinds lists every kind of model.
func ModelKinds() []ModelKind { return []ModelKind{ClosedLoop, OpenLoop, ColdStart} }

// Arrivals says how the requests of an open loop are spread over time.
type Arrivals string

const (
	// Constant leaves the same time between any two requests.
	Constant Arrivals = "constant"
	// Poisson draws the times between requests from an exponential law, as
	// independent users would send them.
	Poisson Arrivals = "poisson"
)

// ArrivalKinds lists every kind of arrivals.
func ArrivalKinds() []Arrivals { return []Arrivals{Constant, Poisson} }

// Model is what decides when requests are sent. The zero Model is a closed loop
// with one request in flight and no think time.
type Model struct {
	Kind ModelKind `json:"kind"` // ClosedLoop when empty

	// Concurrency is how many connections each client has, each of which carries one
	// request at a time: what is in flight in a closed loop, and what can be in
	// an open one. 0 is 1 in a closed loop and DefaultOpenConcurrency in an open
	// one.
	Concurrency int `json:"concurrency"`

	// ThinkTime is between an answer and the next request of a connection, in
	// nanoseconds; closed loop only.
	ThinkTime time.Duration `json:"think_time"`

	// Rate is in requests per second, of all clients together; open loop only.
	Rate     float64  `json:"rate"`
	Arrivals Arrivals `json:"arrivals"` // open loop only; Constant when empty
	Seed     uint64   `json:"seed"`     // of Poisson arrivals

	// IdleTimeout is how long a function may take to lose its last pod before
	// each request, in nanoseconds; cold starts only. 0 is DefaultIdleTimeout.
	IdleTimeout time.Duration `json:"idle_timeout,omitempty"`
}

// DefaultIdleTimeout is how long cold starts wait for a function to lose its
// last pod unless their model says otherwise.
const DefaultIdleTimeout = 5 * time.Minute

// Cold tells whether each request waits for a pod of its function.
func (m Model) Cold() bool { return m.Kind == ColdStart }

// IdlePatience returns how long a function may take to lose its last pod.
func (m Model) IdlePatience() time.Duration {
	if m.IdleTimeout > 0 {
		return m.IdleTimeout
	}
	return DefaultIdleTimeout
}

// DefaultOpenConcurrency is how many connections an open loop has unless its
// model says otherwise.
const DefaultOpenConcurrency = 32

// maxConcurrency bounds the connections of one generator.
const maxConcurrency = 4096

// Open tells whether requests are sent whatever becomes of earlier ones.
func (m Model) Open() bool { return m.Kind == OpenLoop }

// Workers returns how many connections the model has.
func (m Model) Workers() int {
	switch {
	case m.Concurrency > 0:
		return m.Concurrency
	case m.Open():
		return DefaultOpenConcurrency
	}
	return 1
}

// Validate reports the first thing that makes the model impossible.
func (m Model) Validate() error {
	switch m.Kind {
	case "", ClosedLoop:
		if m.Rate != 0 || m.Arrivals != "" {
			return errors.New("a closed loop has no rate and no arrivals: its requests wait for answers; write the model \"open\", or leave them out")
		}
	case OpenLoop:
		if m.ThinkTime != 0 {
			return errors.New("an open loop has no think time: its requests wait for no answer; write the model \"closed\", or leave it out")
		}
		if !(m.Rate > 0) || math.IsInf(m.Rate, 0) {
			return fmt.Errorf("an open loop needs a rate above 0 in requests per second, for example 100; it is %g", m.Rate)
		}
		if m.Arrivals != "" && m.Arrivals != Constant && m.Arrivals != Poisson {
			return fmt.Errorf("the arrivals are %q; write %q or %q", m.Arrivals, Constant, Poisson)
		}
	case ColdStart:
		if m.Concurrency > 1 {
			return fmt.Errorf("cold starts are one request at a time, and the concurrency is %d: a second request would find the pod of the first; leave it out", m.Concurrency)
		}
		if m.Rate != 0 || m.Arrivals != "" || m.ThinkTime != 0 {
			return errors.New("cold starts have no rate, no arrivals and no think time: a request is sent when the function has no pod; leave them out")
		}
	default:
		return fmt.Errorf("the load model is %q; write %q, %q or %q", m.Kind, ClosedLoop, OpenLoop, ColdStart)
	}
	if m.IdleTimeout != 0 && !m.Cold() {
		return fmt.Errorf("the idle timeout is about cold starts, and the load model is %q; write the model %q, or leave it out", cmp.Or(m.Kind, ClosedLoop), ColdStart)
	}
	if m.IdleTimeout < 0 {
		return fmt.Errorf("the idle timeout is %s; it must be above 0, for example 5m", m.IdleTimeout)
	}
	if m.Concurrency < 0 || m.Concurrency > maxConcurrency {
		return fmt.Errorf("the concurrency is %d; it must be from 1 to %d, or 0 for what the model has by itself", m.Concurrency, maxConcurrency)
	}
	if m.ThinkTime < 0 {
		return fmt.Errorf("the think time is %s; it must not be negative", m.ThinkTime)
	}
	return nil
}

// String describes the model in words, for example "closed loop, 1 in flight,
// think time 200ms".
func (m Model) String() string {
	if m.Cold() {
		return "cold starts, one at a time"
	}
	if !m.Open() {
		return fmt.Sprintf("closed loop, %d in flight, think time %s", m.Workers(), m.ThinkTime)
	}
	arrivals := m.Arrivals
	if arrivals == "" {
		arrivals = Constant
	}
	return fmt.Sprintf("open loop, %g requests/s, %s arrivals, up to %d in flight", m.Rate, arrivals, m.Workers())
}

// schedule returns when client, one of clients from 0, should send each of its n
// requests of an open loop, since the start of the loop. It takes every so many
// of the requests of the whole, so that together the clients keep the schedule
// of one.
func (m Model) schedule(n, client, clients int) []time.Duration {
	due := make([]time.Duration, 0, n)
	interval := float64(time.Second) / m.Rate
	random := rand.New(rand.NewPCG(m.Seed, 0))
	at := 0.0
	for i := 0; len(due) < n; i++ {
		if m.Arrivals == Poisson {
			at += interval * random.ExpFloat64()
		} else {
			at = interval * float64(i)
		}
		if i%clients == client {
			due = append(due, time.Duration(at))
		}
	}
	return due
}
