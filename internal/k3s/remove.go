package k3s

import (
	"context"
	"fmt"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Remove ends the cluster on a host and removes all that it left there, its
// data included. A host without k3s is no error.
func Remove(ctx context.Context, h host.Host) error {
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
