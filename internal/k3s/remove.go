package k3s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Remove ends the cluster of that name on a host and removes all that it left
// there, its data included. A host without k3s is no error; a k3s that is
// another cluster by now is left alone.
func Remove(ctx context.Context, h host.Host, name string) error {
	status, err := h.Service(ctx, serviceName)
	switch {
	case errors.Is(err, host.ErrNotExist): // what it left may be there still
	case err != nil:
		return fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
	case !slices.ContainsFunc(status.Service.Env, func(entry string) bool { return strings.HasPrefix(entry, identityKey+"="+name+",") }):
		return nil
	}
	if err := h.StopService(ctx, serviceName); err != nil {
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
