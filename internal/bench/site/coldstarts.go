package site

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/coldstart"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// coldStarts has the requests of a client find no pod.
type coldStarts struct {
	clusters *kube.Opener
	client   load.Client // the only one of the run
}

const (
	// settleTime bounds how long a pod that has answered is given to be called
	// ready, which Kubernetes may do ten seconds later: that says nothing of the
	// request any more.
	settleTime = 3 * time.Second
	// keepInterval is how often a client that waits is asked something, since it
	// ends when nobody does for podIdle.
	keepInterval = time.Minute
)

// Around implements bench.ColdStarts.
func (c coldStarts) Around(ctx context.Context, service bench.Service, patience time.Duration, request func() error) (bench.PodTimes, error) {
	cluster, err := c.clusters.Open(ctx, service.Cluster)
	if err != nil {
		return bench.PodTimes{}, err
	}
	defer cluster.Close()
	watch, err := coldstart.Start(ctx, cluster, coldstart.Function{Namespace: service.Namespace, Name: service.Name})
	if err != nil {
		return bench.PodTimes{}, err
	}
	defer watch.Close()
	if err := c.awaitIdle(ctx, watch, patience); err != nil {
		return bench.PodTimes{}, err
	}
	if err := request(); err != nil {
		return bench.PodTimes{}, err
	}
	settling, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	stages, err := watch.Stages(settling)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return bench.PodTimes{}, err
	}
	clock, err := c.client.Clock(ctx)
	if err != nil {
		return bench.PodTimes{}, fmt.Errorf("read the clock of the client: %w", err)
	}
	return podTimes(stages, clock), nil
}

// awaitIdle waits until the function has no pod, and has the client stay.
func (c coldStarts) awaitIdle(ctx context.Context, watch *coldstart.Watch, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s, the idle_timeout of the load", patience))
	defer cancel()
	for {
		slice, end := context.WithTimeoutCause(ctx, keepInterval, errKeep)
		err := watch.AwaitIdle(slice)
		end()
		if !errors.Is(err, errKeep) {
			return err
		}
		if err := c.client.Healthy(ctx); err != nil {
			return fmt.Errorf("ask the client whether it is there: %w", err)
		}
	}
}

var errKeep = errors.New("the client has to be asked")

// podTimes turns times by the clock here into times by that of the client.
func podTimes(stages coldstart.Stages, clock load.Clock) bench.PodTimes {
	at := func(moment time.Time) time.Time {
		if moment.IsZero() {
			return moment
		}
		return moment.Add(clock.Ahead)
	}
	return bench.PodTimes{
		Created: at(stages.Created), Scheduled: at(stages.Scheduled), Started: at(stages.Started), Ready: at(stages.Ready),
		// What an answer of the client takes to get here, so does one of the API server.
		Within: clock.Trip / 2,
	}
}
