package function

import (
	"bytes"
	"context"
	"fmt"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// LoadAgent makes sure that the cluster's nodes have the image of the agent,
// and returns its reference for pods. The image comes from this program and is
// copied to each node once; no registry is asked. It is that of the server's
// architecture, so nodes of another one are passed over.
func LoadAgent(ctx context.Context, cluster *kube.Client) (reference string, err error) {
	nodes, err := cluster.Hosts(ctx)
	if err != nil {
		return "", fmt.Errorf("load the agent's image: %w", err)
	}
	if len(nodes) == 0 {
		return "", fmt.Errorf("load the agent's image into %s: only the nodes of a k3s cluster take it", cluster.URL())
	}
	arch := ""
	for _, node := range nodes {
		facts, err := node.Facts(ctx)
		if err != nil {
			return "", err
		}
		if arch == "" {
			arch = facts.Arch
		}
		if facts.Arch != arch {
			continue
		}
		if reference, err = loadAgent(ctx, node, arch); err != nil {
			return "", err
		}
	}
	return reference, nil
}

func loadAgent(ctx context.Context, node host.Host, arch string) (reference string, err error) {
	reference, err = agent.ImageName(arch)
	if err != nil {
		return "", err
	}
	present, err := k3s.ImagePresent(ctx, node, reference)
	if err != nil || present {
		return reference, err
	}
	archive, err := agent.Image(arch)
	if err != nil {
		return "", err
	}
	return reference, k3s.LoadImage(ctx, node, bytes.NewReader(archive))
}
