package knative

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

// controllerPatience is how long the controller may take to remove what is
// left of functions. After that their finalizers are removed.
const controllerPatience = 30 * time.Second

// groups are those of Knative's kinds.
var groups = []string{"serving.knative.dev", "autoscaling.internal.knative.dev", "networking.internal.knative.dev", "caching.internal.knative.dev"}

// Remove removes Knative from the cluster with all its functions, and waits
// until nothing is left.
func Remove(ctx context.Context, cluster *kube.Client) error {
	kinds, err := installed(ctx, cluster)
	if err != nil {
		return err
	}
	if err := removeFunctions(ctx, cluster, kinds); err != nil {
		return err
	}
	// The webhooks refuse everything once their program is gone.
	if err := cluster.Delete(ctx, webhooks()...); err != nil {
		return err
	}
	rest := ingressRefs()
	for _, name := range []string{"activator", "autoscaler", "controller", "webhook"} {
		rest = append(rest, workload.Ref(Namespace, name))
	}
	if err := cluster.Delete(ctx, rest...); err != nil {
		return err
	}
	// Nobody heeds the finalizers of what is left.
	for _, kind := range kinds {
		if err := letGo(ctx, cluster, kind); err != nil {
			return err
		}
	}
	roles, err := ownRoles(ctx, cluster)
	if err != nil {
		return err
	}
	last := append(roles, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: Namespace})
	for _, kind := range kinds {
		last = append(last, definition(kind.definition))
	}
	return cluster.Delete(ctx, last...)
}

// kind is one of Knative's kinds that the cluster knows.
type kind struct {
	definition, apiVersion, name string
}

// installed lists Knative's kinds.
func installed(ctx context.Context, cluster *kube.Client) ([]kind, error) {
	definitions, err := cluster.List(ctx, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "")
	if err != nil {
		return nil, fmt.Errorf("find Knative's kinds: %w", err)
	}
	var kinds []kind
	for i := range definitions {
		spec, _ := definitions[i].Object["spec"].(map[string]any)
		group, _ := spec["group"].(string)
		names, _ := spec["names"].(map[string]any)
		name, _ := names["kind"].(string)
		versions, _ := spec["versions"].([]any)
		for _, own := range groups {
			if group != own {
				continue
			}
			for _, entry := range versions {
				version, _ := entry.(map[string]any)
				if version["storage"] == true {
					kinds = append(kinds, kind{definitions[i].GetName(), fmt.Sprintf("%s/%v", group, version["name"]), name})
				}
			}
		}
	}
	return kinds, nil
}

// removeFunctions has the controller remove all functions while it runs.
func removeFunctions(ctx context.Context, cluster *kube.Client, kinds []kind) error {
	patient, cancel := context.WithTimeout(ctx, controllerPatience)
	defer cancel()
	for _, kind := range kinds {
		if !strings.HasPrefix(kind.apiVersion, "serving.knative.dev/") {
			continue
		}
		refs, err := kind.objects(ctx, cluster)
		if err == nil {
			err = cluster.Delete(patient, refs...)
		}
		if err != nil && ctx.Err() == nil && patient.Err() != nil {
			return nil // it does not do it; letGo does
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (k kind) objects(ctx context.Context, cluster *kube.Client) ([]kube.Ref, error) {
	list, err := cluster.List(ctx, k.apiVersion, k.name, "", "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find what is left of kind %s: %w", k.name, err)
	}
	var refs []kube.Ref
	for i := range list {
		refs = append(refs, kube.RefOf(&list[i]))
	}
	return refs, nil
}

// letGo removes the finalizers of the objects of a kind.
func letGo(ctx context.Context, cluster *kube.Client, k kind) error {
	refs, err := k.objects(ctx, cluster)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if err := cluster.DropFinalizers(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// ownRoles lists the roles that no namespace takes with it.
func ownRoles(ctx context.Context, cluster *kube.Client) ([]kube.Ref, error) {
	var refs []kube.Ref
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		list, err := cluster.List(ctx, rbac, kind, "", "app.kubernetes.io/name=knative-serving")
		if err != nil {
			return nil, fmt.Errorf("find Knative's roles: %w", err)
		}
		for i := range list {
			refs = append(refs, kube.RefOf(&list[i]))
		}
	}
	return refs, nil
}
