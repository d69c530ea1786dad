package k3s

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// LoadImage imports the images of an OCI or Docker archive into the container
// runtime of the host's node, where pods find them without a registry.
func LoadImage(ctx context.Context, h host.Host, archive io.Reader) error {
	_, err := h.Run(ctx, host.Command{Argv: []string{binaryPath, "ctr", "images", "import", "-"}, Stdin: archive})
	if err != nil {
		return fmt.Errorf("load images on %s: %w", h.URL(), err)
	}
	return nil
}

// ImagePresent reports whether the node of the host has an image, by its full
// reference, for example "docker.io/library/busybox:1.37".
func ImagePresent(ctx context.Context, h host.Host, reference string) (bool, error) {
	output, err := h.Run(ctx, host.Command{Argv: []string{binaryPath, "ctr", "images", "list", "--quiet"}})
	if err != nil {
		return false, fmt.Errorf("list the images on %s: %w", h.URL(), err)
	}
	return slices.Contains(strings.Fields(string(output.Stdout)), reference), nil
}
