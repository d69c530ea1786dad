package load

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// memoryLimit is where the garbage collector starts to run during a job
// although it is held back.
const memoryLimit = 1 << 30

// Generate runs a job to its end. A request that fails is a record with an
// error; Generate itself fails only when the job is impossible or ctx ends.
//
// It holds the garbage collector back and keeps every record until the job is
// over, so that neither collection nor reporting falls into a measurement. A
// process must not run two jobs at a time.
func Generate(ctx context.Context, job Job) (Result, error) {
	if err := job.Validate(); err != nil {
		return Result{}, err
	}
	client := newClient(job)
	defer client.close()
	records := make([]Record, job.Warmup+job.Requests)

	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	for seq := range records {
		if seq > 0 {
			pause(ctx, job.ThinkTime)
		}
		records[seq] = Record{Seq: seq, Warmup: seq < job.Warmup, Start: time.Since(started)}
		client.send(ctx, &records[seq])
		if ctx.Err() != nil {
			return Result{}, fmt.Errorf("send request %d to %s: %w", seq, job.URL, context.Cause(ctx))
		}
	}
	runtime.ReadMemStats(&after)
	return Result{Started: started, Collections: after.NumGC - before.NumGC, Records: records}, nil
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
