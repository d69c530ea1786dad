package load

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memoryLimit is where the garbage collector starts to run during a job
// although it is held back.
const memoryLimit = 1 << 30

// Gate holds a job back after its warm-up and returns when its measured
// requests begin.
type Gate func(ctx context.Context) (time.Time, error)

// Generate runs a job to its end. A request that fails is a record with an
// error; Generate itself fails only when the job is impossible, gate fails or
// ctx ends. Without a gate the measured requests begin after the warm-up.
//
// It holds the garbage collector back and keeps every record until the job is
// over, so that neither collection nor reporting falls into a measurement. A
// process must not run two jobs at a time.
func Generate(ctx context.Context, job Job, gate Gate) (Result, error) {
	if err := job.Validate(); err != nil {
		return Result{}, err
	}
	g := &generator{job: job, records: blankRecords(job)}
	if job.Model.Open() {
		g.due = job.Model.schedule(job.Requests, job.Client, max(job.Clients, 1))
	}
	to, err := newTarget(job)
	if err != nil {
		return Result{}, err
	}
	for range job.Model.Workers() {
		g.workers = append(g.workers, &worker{generator: g, client: newClient(to, &g.dials)})
	}
	defer func() {
		for _, w := range g.workers {
			w.client.close()
		}
	}()

	defer holdStamps()()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.started = time.Now()
	if err := g.run(ctx, gate); err != nil {
		return Result{}, err
	}
	runtime.ReadMemStats(&after)
	return Result{Started: g.started, Collections: after.NumGC - before.NumGC, Lag: LagOf(g.records), Records: g.records}, nil
}

// blankRecords returns the records of a job with what is known of them before it
// begins. Writing that also has the system provide their memory, which in the
// middle of a request takes longer than many a request.
func blankRecords(job Job) []Record {
	records := make([]Record, job.Count())
	for i := range records {
		records[i].Seq, records[i].Client, records[i].Warmup = i, job.Client, i < job.warmups()
	}
	return records
}

// generator is a job under way.
type generator struct {
	job     Job
	workers []*worker
	started time.Time
	records []Record
	dials   atomic.Int64

	begin time.Time       // of the measured requests
	due   []time.Duration // of the measured requests of an open loop, since begin
	next  atomic.Int64    // measured request
	turn  sync.Mutex      // held by the worker that waits for the next request of an open loop to be due
}

func (g *generator) run(ctx context.Context, gate Gate) error {
	if g.job.Warmup > 0 {
		g.all(func(w *worker) { w.warmUp(ctx) })
	}
	g.begin = time.Now()
	if gate != nil {
		begin, err := gate(ctx)
		if err != nil {
			return fmt.Errorf("wait for the start signal: %w", err)
		}
		// The signal names a time of day. From here on time is measured from
		// now, so that setting the clock changes nothing.
		g.begin = time.Now().Add(time.Until(begin))
	}
	g.all(func(w *worker) { w.measure(ctx) })
	if ctx.Err() != nil {
		return fmt.Errorf("send requests to %s: %w", g.job.URL, context.Cause(ctx))
	}
	return nil
}

// all has every worker do something and waits until they have.
func (g *generator) all(do func(*worker)) {
	if len(g.workers) == 1 {
		do(g.workers[0])
		return
	}
	var group sync.WaitGroup
	for _, w := range g.workers {
		group.Go(func() { do(w) })
	}
	group.Wait()
}

// worker sends one request at a time over a connection of its own.
type worker struct {
	*generator
	client *client
	idle   time.Time // since when it has nothing to do, zero before its first request
}

func (w *worker) warmUp(ctx context.Context) {
	first := slices.Index(w.workers, w)
	for i := range w.job.Warmup {
		if i > 0 {
			pause(ctx, w.job.Model.ThinkTime)
		}
		if ctx.Err() != nil {
			return
		}
		w.send(ctx, first+i*len(w.workers), time.Time{})
	}
}

func (w *worker) measure(ctx context.Context) {
	if w.job.Model.Open() {
		w.keepSchedule(ctx)
		return
	}
	sleepUntil(ctx, w.begin)
	for {
		i := int(w.next.Add(1)) - 1
		if i >= w.job.Requests {
			return
		}
		if !w.idle.IsZero() {
			pause(ctx, w.job.Model.ThinkTime)
		}
		if ctx.Err() != nil {
			return
		}
		w.send(ctx, w.job.warmups()+i, time.Time{})
	}
}

// keepSchedule sends what is due next whenever the worker has nothing to do.
// One worker waits for the next request to be due, and sends it itself: it is
// handed to nobody, which would take time. The others wait for their turn.
func (w *worker) keepSchedule(ctx context.Context) {
	for {
		w.idle = time.Now()
		w.turn.Lock()
		i := int(w.next.Add(1)) - 1
		if i >= len(w.due) || ctx.Err() != nil {
			w.turn.Unlock()
			return
		}
		due := w.begin.Add(w.due[i])
		sleepUntil(ctx, due)
		w.turn.Unlock()
		if ctx.Err() != nil {
			return
		}
		w.send(ctx, w.job.warmups()+i, due)
	}
}

// send sends one request and writes its record. Its time counts from due, or
// from now when that is zero.
func (w *worker) send(ctx context.Context, seq int, due time.Time) {
	record := &w.records[seq]
	now := time.Now()
	if due.IsZero() {
		due = now
	} else if w.idle.After(due) {
		record.Lag = now.Sub(w.idle)
	} else {
		record.Lag = now.Sub(due)
	}
	record.Intended, record.Start = due.Sub(w.started), now.Sub(w.started)
	w.client.send(ctx, record, now)
	record.Total += record.Start - record.Intended
	w.idle = now // any time but zero: a closed loop has sent one
}

// LagOf returns the distribution of the client's own part in the measured, good
// requests.
func LagOf(records []Record) Lag {
	var lags []time.Duration
	for i := range records {
		if r := &records[i]; !r.Warmup && r.Error == "" {
			lags = append(lags, r.Lag)
		}
	}
	if len(lags) == 0 {
		return Lag{}
	}
	slices.Sort(lags)
	at := func(share float64) time.Duration { return lags[int(share*float64(len(lags)-1))] }
	return Lag{Median: at(0.5), P99: at(0.99), Max: lags[len(lags)-1]}
}

// pause waits for a while or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// The runtime's timers may be late by more than a millisecond, so that the last
// part of a wait is a sleep of the thread.
const coarse = 3 * time.Millisecond

// sleepUntil waits until a moment, or until ctx ends.
func sleepUntil(ctx context.Context, moment time.Time) {
	for {
		left := time.Until(moment)
		switch {
		case left <= 0 || ctx.Err() != nil:
			return
		case left > coarse:
			pause(ctx, left-coarse)
		default:
			sleepThread(left)
		}
	}
}
