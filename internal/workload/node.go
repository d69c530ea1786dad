package workload

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// NodeAddress returns the address of the cluster's first server that other nodes
// reach it by, which is also where its node ports listen. Agents may leave, so
// theirs is taken only where there is no other.
func NodeAddress(ctx context.Context, cluster *kube.Client) (string, error) {
	nodes, err := cluster.List(ctx, "v1", "Node", "", "")
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(nodes, func(a, b unstructured.Unstructured) int {
		return cmp.Compare(len(a.GetAnnotations()[kube.HostAnnotation]), len(b.GetAnnotations()[kube.HostAnnotation]))
	})
	for i := range nodes {
		addresses, _, _ := unstructured.NestedSlice(nodes[i].Object, "status", "addresses")
		for _, address := range addresses {
			a, _ := address.(map[string]any)
			if text, _ := a["address"].(string); a["type"] == "InternalIP" && text != "" {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("find the address of a node of %s: no node has an internal address", cluster.URL())
}

// AwaitPort waits until something accepts connections to an address that the
// cluster's host reaches. A cluster without a known host is not asked, since
// the address need not be reachable from here.
func AwaitPort(ctx context.Context, cluster *kube.Client, address string) error {
	if cluster.Host() == nil {
		return nil
	}
	for {
		conn, err := dial(ctx, cluster, address)
		if err == nil {
			return conn.Close()
		}
		again := time.NewTimer(200 * time.Millisecond)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("wait for an answer from %s: %w", address, err)
		}
	}
}

// dial tries for a second: a connection on its way to a pod that is gone stays
// on that way, a new one is led elsewhere.
func dial(ctx context.Context, cluster *kube.Client, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return cluster.Host().Dial(ctx, "tcp", address)
}
