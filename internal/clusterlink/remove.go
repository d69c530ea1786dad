package clusterlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// operatorPatience is how long the operator may take to remove what it made.
// After that, and at once when it does not run, its finalizer is removed.
const operatorPatience = 20 * time.Second

// RemovePeer removes ClusterLink from the cluster with everything that it and
// its operator made.
func RemovePeer(ctx context.Context, cluster *kube.Client) error {
	if err := removeInstance(ctx, cluster); err != nil {
		return err
	}
	// A namespace that is empty goes at once, one with pods some time after them.
	err := cluster.Delete(ctx, workload.Ref(operatorNamespace, operatorName),
		workload.Ref(SystemNamespace, controlplaneName), workload.Ref(SystemNamespace, dataplaneName))
	if err != nil {
		return err
	}
	if err := endPods(ctx, cluster); err != nil {
		return err
	}
	// Services of imports lie in the namespaces of their users.
	services, err := managedServices(ctx, cluster, "", managedBy)
	if err != nil {
		return err
	}
	kinds, err := definitions()
	if err != nil {
		return err
	}
	program, err := operator("")
	if err != nil {
		return err
	}
	rest := services
	for _, object := range append(kinds, program...) {
		switch object.GetKind() {
		case "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition":
			rest = append(rest, kube.RefOf(object))
		}
	}
	const rbac, controlplaneRole = "rbac.authorization.k8s.io/v1", SystemNamespace + ":" + controlplaneName
	rest = append(rest,
		kube.Ref{APIVersion: rbac, Kind: "ClusterRole", Name: controlplaneRole},
		kube.Ref{APIVersion: rbac, Kind: "ClusterRoleBinding", Name: controlplaneRole})
	return cluster.Delete(ctx, rest...)
}

// removeInstance has the operator remove what it made, or forces the way when
// the operator does not do it.
func removeInstance(ctx context.Context, cluster *kube.Client) error {
	_, err := cluster.Get(ctx, instanceRef())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if operatorRuns(ctx, cluster) {
		patient, cancel := context.WithTimeout(ctx, operatorPatience)
		err := cluster.Delete(patient, instanceRef())
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	if err := cluster.DropFinalizers(ctx, instanceRef()); err != nil {
		return err
	}
	return cluster.Delete(ctx, instanceRef())
}

func operatorRuns(ctx context.Context, cluster *kube.Client) bool {
	deployment, err := cluster.Get(ctx, workload.Ref(operatorNamespace, operatorName))
	if err != nil {
		return false
	}
	ok, _ := workload.Available(deployment)
	return ok
}

const managedBy = "app.kubernetes.io/managed-by=clusterlink.net"

// managedServices names the Services in a namespace, or in all, that
// ClusterLink made and that the selectors select.
func managedServices(ctx context.Context, cluster *kube.Client, namespace string, selectors ...string) ([]kube.Ref, error) {
	services, err := cluster.List(ctx, "v1", "Service", namespace, strings.Join(selectors, ","))
	if err != nil {
		return nil, fmt.Errorf("find the services of imports: %w", err)
	}
	var refs []kube.Ref
	for i := range services {
		refs = append(refs, kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: services[i].GetNamespace(), Name: services[i].GetName()})
	}
	return refs, nil
}
