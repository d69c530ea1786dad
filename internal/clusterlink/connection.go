package clusterlink

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// ConnectionSpec describes what a peer knows of another one.
type ConnectionSpec struct {
	Peer     string // name in the other peer's certificate
	Gateways []Gateway
}

func connectionRef(peer string) kube.Ref {
	return kube.Ref{APIVersion: apiVersion, Kind: "Peer", Namespace: SystemNamespace, Name: peer}
}

func (s ConnectionSpec) object() *unstructured.Unstructured {
	gateways := make([]any, 0, len(s.Gateways))
	for _, gateway := range s.Gateways {
		gateways = append(gateways, map[string]any{"host": gateway.Host, "port": int64(gateway.Port)})
	}
	return object(connectionRef(s.Peer), map[string]any{"gateways": gateways})
}

// ApplyConnection makes the cluster's peer know another one, and waits until
// it reaches it.
func ApplyConnection(ctx context.Context, cluster *kube.Client, spec ConnectionSpec) error {
	if err := cluster.Apply(ctx, spec.object()); err != nil {
		return err
	}
	_, err := cluster.Wait(ctx, connectionRef(spec.Peer), "reachable", func(peer *unstructured.Unstructured) (bool, string) {
		return conditionTrue(peer, "PeerReachable")
	})
	if err == nil && cluster.Host() == nil {
		return nil
	}
	// The condition may still be that of former gateways, and says no more
	// than yes or no; asking the gateways ourselves tells.
	if asked := heartbeat(ctx, cluster, spec); err == nil || asked != nil {
		err = asked
	}
	return err
}

// ObserveConnection returns what the cluster's peer knows of another one, or an
// error that wraps fs.ErrNotExist.
func ObserveConnection(ctx context.Context, cluster *kube.Client, peer string) (ConnectionSpec, error) {
	found, err := cluster.Get(ctx, connectionRef(peer))
	if err != nil {
		return ConnectionSpec{}, err
	}
	return ConnectionSpec{Peer: peer, Gateways: gateways(found)}, nil
}

func gateways(peer *unstructured.Unstructured) []Gateway {
	list, _, _ := unstructured.NestedSlice(peer.Object, "spec", "gateways")
	var all []Gateway
	for _, entry := range list {
		e, _ := entry.(map[string]any)
		host, _ := e["host"].(string)
		port, _ := e["port"].(int64)
		all = append(all, Gateway{Host: host, Port: int(port)})
	}
	return all
}

// RemoveConnection makes the cluster's peer forget another one.
func RemoveConnection(ctx context.Context, cluster *kube.Client, peer string) error {
	return cluster.Delete(ctx, connectionRef(peer))
}

// object renders one of ClusterLink's objects.
func object(ref kube.Ref, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": ref.Name}
	if ref.Namespace != "" {
		metadata["namespace"] = ref.Namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ref.APIVersion, "kind": ref.Kind, "metadata": metadata, "spec": spec,
	}}
}

// heartbeat waits until each gateway answers for the peer.
func heartbeat(ctx context.Context, cluster *kube.Client, spec ConnectionSpec) error {
	caller, err := newCaller(ctx, cluster, spec.Peer)
	if err != nil {
		return err
	}
	defer caller.close()
	for _, gateway := range spec.Gateways {
		if err := caller.heartbeat(ctx, gateway); err != nil {
			return fmt.Errorf("reach peer %s at %s: %w", spec.Peer, gateway, err)
		}
	}
	return nil
}
