package k3s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Remove ends the server of the cluster of that name on a host and removes all
// that it left there, its data included. A host without k3s is no error; a k3s
// that is another cluster by now is left alone.
func Remove(ctx context.Context, h host.Host, name string) error {
	return remove(ctx, h, serverService, name+",")
}

// RemoveAgent is Remove for an agent of the cluster of that name. The cluster
// is not told; Leave does that too.
func RemoveAgent(ctx context.Context, h host.Host, cluster string) error {
	return remove(ctx, h, agentService, cluster+",")
}

// remove removes a node that the service runs and whose identity has the
// prefix.
func remove(ctx context.Context, h host.Host, service, prefix string) error {
	for _, name := range []string{serverService, agentService} {
		status, err := h.Service(ctx, name)
		switch {
		case errors.Is(err, host.ErrNotExist): // what it left may be there still
		case errors.Is(err, host.ErrForeign):
			return nil // the machine's own k3s
		case err != nil:
			return fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
		case name != service, !slices.ContainsFunc(status.Service.Env, func(entry string) bool { return strings.HasPrefix(entry, identityKey+"="+prefix) }):
			return nil
		}
	}
	if err := h.StopService(ctx, service); err != nil {
		return fmt.Errorf("stop k3s on %s: %w", h.URL(), err)
	}
	// Pods outlive the service, and only the host can find them.
	agent, err := h.Agent(ctx)
	if err != nil {
		return fmt.Errorf("remove k3s from %s: %w", h.URL(), err)
	}
	if _, err := h.Run(ctx, host.Command{Argv: []string{agent, "k3s-sweep"}}); err != nil {
		return fmt.Errorf("remove k3s from %s: %w", h.URL(), err)
	}
	return nil
}
