// Package site carries runs out on a testbed: it brings the load generator into
// the calling cluster as pods, switches the testbed's links, and records what
// the run takes place on.
package site

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// Site is a testbed.
type Site struct {
	Data     datadir.Dir
	Hosts    host.Opener
	Clusters *kube.Opener
}

// Options say where a run takes place, beside its plan.
type Options struct {
	Cluster   string   // URL of the calling cluster
	Namespace string   // of the client pods
	Image     string   // of the load generator; that of this build when empty
	Others    []string // URLs of other clusters to describe in the environment

	Dir          string       // folder of the run
	Inputs       bench.Inputs // that repeat the run
	Verification link.Verification
	Provider     string // version, for the record
	Progress     func(bench.Progress)
}

// removeTimeout bounds how long a run that has ended removes its pods.
const removeTimeout = time.Minute

// ErrCluster is wrapped by errors about opening the calling cluster.
var ErrCluster = errors.New("the calling cluster cannot be used")

// Run carries a plan out. However it ends, no pod of it is left and the links
// are as they were.
func (s Site) Run(ctx context.Context, plan bench.Plan, options Options) (report bench.Report, err error) {
	cluster, err := s.Clusters.Open(ctx, options.Cluster)
	if err != nil {
		return bench.Report{}, fmt.Errorf("%w: %w", ErrCluster, err)
	}
	defer cluster.Close()
	client, err := startPods(ctx, cluster, podSpec{Namespace: options.Namespace, Run: plan.Name, Image: options.Image, Clients: plan.Clients})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		err = errors.Join(err, client.remove(ctx))
	}()
	if err != nil {
		return bench.Report{}, err
	}
	environment, err := s.environment(ctx, cluster, client, options)
	if err != nil {
		return bench.Report{}, err
	}
	clients := client.load()
	runner := bench.Runner{
		Client:      clients,
		Cold:        coldStarts{clusters: s.Clusters, client: clients[0]},
		Links:       links{site: s, verification: options.Verification},
		Dir:         options.Dir,
		Inputs:      options.Inputs,
		Environment: environment,
		Now:         time.Now,
		Progress:    options.Progress,
	}
	return runner.Run(ctx, plan)
}
