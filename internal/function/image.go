package function

import (
	"bytes"
	"context"
	"fmt"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// LoadAgent makes sure that the cluster's node has the image of the agent, and
// returns its reference for pods. The image comes from this program and is
// copied to the node once; no registry is asked.
func LoadAgent(ctx context.Context, cluster *kube.Client) (reference string, err error) {
	node := cluster.Host()
	if node == nil {
		return "", fmt.Errorf("load the agent's image into %s: only the node of a k3s cluster takes it", cluster.URL())
	}
	facts, err := node.Facts(ctx)
	if err != nil {
		return "", err
	}
	reference, err = agent.ImageName(facts.Arch)
	if err != nil {
		return "", err
	}
	present, err := k3s.ImagePresent(ctx, node, reference)
	if err != nil || present {
		return reference, err
	}
	archive, err := agent.Image(facts.Arch)
	if err != nil {
		return "", err
	}
	return reference, k3s.LoadImage(ctx, node, bytes.NewReader(archive))
}
