package load

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Clients are generators that carry out a job together, in step: each makes its
// warm-up, and when all have, they begin at the same moment.
type Clients []Client

// startMargin is how long before the common start the clients are told of it,
// at least.
const startMargin = 100 * time.Millisecond

// Run has the generators run a job and waits for its records, in which each has
// the number of its client. Each client has the connections of the job's model;
// they share its requests and, in an open loop, its schedule.
func (c Clients) Run(ctx context.Context, job Job) (Result, error) {
	if len(c) == 1 {
		return c[0].Run(ctx, job)
	}
	if job.Requests < len(c) {
		return Result{}, fmt.Errorf("%d requests cannot be shared by %d clients; each needs one at least", job.Requests, len(c))
	}
	results := make([]Result, len(c))
	clocks := make([]Clock, len(c))
	group, ctx := errgroup.WithContext(ctx)
	for i := range c {
		share := job
		share.Client, share.Clients, share.Requests = i, len(c), job.Requests/len(c)
		if i < job.Requests%len(c) {
			share.Requests++
		}
		group.Go(func() (err error) {
			results[i], err = c[i].Run(ctx, share)
			return err
		})
	}
	group.Go(func() (err error) {
		clocks, err = c.start(ctx)
		return err
	})
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	return merge(results, clocks), nil
}

// start waits until every client is ready and has them all begin.
func (c Clients) start(ctx context.Context) ([]Clock, error) {
	clocks := make([]Clock, len(c))
	group, waiting := errgroup.WithContext(ctx)
	for i, client := range c {
		group.Go(func() (err error) {
			if _, err := client.do(waiting, http.MethodGet, "/ready", nil); err != nil {
				return fmt.Errorf("wait for client %d to be ready: %w", i, err)
			}
			if clocks[i], err = client.Clock(waiting); err != nil {
				return fmt.Errorf("read the clock of client %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	margin := startMargin
	for _, clock := range clocks {
		margin = max(margin, 4*clock.Trip)
	}
	begin := time.Now().Add(margin)
	group, ctx = errgroup.WithContext(ctx)
	for i, client := range c {
		group.Go(func() error {
			moment := strconv.FormatInt(begin.Add(clocks[i].Ahead).UnixNano(), 10)
			if _, err := client.do(ctx, http.MethodPost, "/start", []byte(moment)); err != nil {
				return fmt.Errorf("start client %d: %w", i, err)
			}
			return nil
		})
	}
	return clocks, group.Wait()
}

// Clock is what is known of the clock of a client.
type Clock struct {
	Ahead time.Duration // of the clock here, 0 when nothing else can be seen
	Trip  time.Duration // how long asking took
}

// Clock asks the client a few times what time it is and takes the quickest
// answer. A difference that asking may account for is taken for none: clients
// on one node share its clock, which no question tells as exactly.
func (c Client) Clock(ctx context.Context) (Clock, error) {
	best := Clock{}
	for try := range 5 {
		asked := time.Now()
		text, err := c.do(ctx, http.MethodGet, "/clock", nil)
		if err != nil {
			return Clock{}, err
		}
		trip := time.Since(asked)
		nanoseconds, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Clock{}, err
		}
		if try == 0 || trip < best.Trip {
			best = Clock{Ahead: time.Unix(0, nanoseconds).Sub(asked.Add(trip / 2)), Trip: trip}
		}
	}
	if best.Ahead.Abs() <= best.Trip/2 {
		best.Ahead = 0
	}
	return best, nil
}

// merge puts the records of all clients together, by the clock of the first.
func merge(results []Result, clocks []Clock) Result {
	whole := Result{Started: results[0].Started}
	for i, result := range results {
		later := result.Started.Add(clocks[0].Ahead - clocks[i].Ahead).Sub(whole.Started)
		for _, record := range result.Records {
			record.Intended += later
			record.Start += later
			whole.Records = append(whole.Records, record)
		}
		whole.Collections += result.Collections
	}
	whole.Lag = LagOf(whole.Records)
	return whole
}
