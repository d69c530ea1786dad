package k3s

import (
	"context"
	"fmt"
	"os"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// LoadArchives imports all archives, files on this machine, into each node of
// the cluster that lacks one of the images.
func LoadArchives(ctx context.Context, cluster *kube.Client, images, archives []string) error {
	if len(archives) == 0 {
		return nil
	}
	nodes, err := cluster.Hosts(ctx)
	if err != nil {
		return fmt.Errorf("load images into %s: %w", cluster.URL(), err)
	}
	if len(nodes) == 0 {
		return fmt.Errorf("load images into %s: only a k3s cluster's nodes take image archives; push them to a registry that the cluster reaches", cluster.URL())
	}
	for _, node := range nodes {
		if err := completeImages(ctx, node, images, archives); err != nil {
			return err
		}
	}
	return nil
}

func completeImages(ctx context.Context, node host.Host, images, archives []string) error {
	complete := true
	for _, image := range images {
		present, err := ImagePresent(ctx, node, image)
		if err != nil {
			return err
		}
		complete = complete && present
	}
	if complete {
		return nil
	}
	for _, archive := range archives {
		if err := loadArchive(ctx, node, archive); err != nil {
			return err
		}
	}
	return nil
}

func loadArchive(ctx context.Context, node host.Host, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load images: %w", err)
	}
	defer file.Close()
	return LoadImage(ctx, node, file)
}
