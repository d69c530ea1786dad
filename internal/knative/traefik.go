package knative

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// TraefikError says why the Traefik of a cluster cannot be Knative's ingress.
type TraefikError struct{ problem string }

func (e *TraefikError) Error() string { return e.problem }

// knativeFlag is the argument that turns Traefik's Knative provider on, and
// begins those that set it up. Traefik takes them in any case.
const knativeFlag = "--providers.knative"

// findTraefik returns the Services of the Traefik that routes for Knative, or a
// *TraefikError.
func findTraefik(ctx context.Context, cluster *kube.Client) (public, private *unstructured.Unstructured, err error) {
	var workloads []unstructured.Unstructured
	for _, kind := range []string{"Deployment", "DaemonSet"} {
		list, err := cluster.List(ctx, "apps/v1", kind, "", "")
		if err != nil {
			return nil, nil, fmt.Errorf("find the cluster's Traefik: %w", err)
		}
		workloads = append(workloads, list...)
	}
	settings, err := traefikSettings(workloads)
	if err != nil {
		return nil, nil, err
	}
	service := func(kind string) (*unstructured.Unstructured, error) {
		ref := kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: settings[kind+".namespace"], Name: settings[kind+".name"]}
		object, err := cluster.Get(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &TraefikError{fmt.Sprintf("Traefik's %s%s is the Service %s/%s, which is not there", knativeFlag, "."+kind, ref.Namespace, ref.Name)}
		}
		return object, err
	}
	if public, err = service("publicservice"); err != nil {
		return nil, nil, err
	}
	private, err = service("privateservice")
	return public, private, err
}

// traefikSettings returns how the Knative provider of the Traefik among the
// workloads is set up: the values of its arguments by what follows the flag, in
// lower case.
func traefikSettings(workloads []unstructured.Unstructured) (map[string]string, error) {
	for i := range workloads {
		settings := map[string]string{}
		on := false
		containers, _, _ := unstructured.NestedSlice(workloads[i].Object, "spec", "template", "spec", "containers")
		for _, entry := range containers {
			container, _ := entry.(map[string]any)
			args, _, _ := unstructured.NestedStringSlice(container, "args")
			for _, arg := range args {
				flag, value, _ := strings.Cut(arg, "=")
				rest, ok := strings.CutPrefix(strings.ToLower(flag), knativeFlag)
				on = on || ok && value != "false"
				settings[strings.TrimPrefix(rest, ".")] = value
			}
		}
		if !on {
			continue
		}
		for _, kind := range []string{"publicservice", "privateservice"} {
			if settings[kind+".name"] == "" || settings[kind+".namespace"] == "" {
				return nil, &TraefikError{fmt.Sprintf("%s %s/%s runs Traefik's Knative provider without %s.%s.name and .namespace, so functions would never get an address",
					workloads[i].GetKind(), workloads[i].GetNamespace(), workloads[i].GetName(), knativeFlag, kind)}
			}
		}
		return settings, nil
	}
	return nil, &TraefikError{"no Deployment and no DaemonSet of the cluster runs Traefik with its Knative provider (" + knativeFlag + ")"}
}

// checkTraefik refuses a cluster whose Traefik cannot route for Knative.
func checkTraefik(ctx context.Context, cluster *kube.Client) error {
	public, _, err := findTraefik(ctx, cluster)
	if err != nil {
		return err
	}
	services, err := cluster.List(ctx, "v1", "Service", "", "")
	if err != nil {
		return fmt.Errorf("find who has Traefik's port: %w", err)
	}
	return portTaken(public, services)
}

// portTaken refuses a Service that waits for a port of the nodes which another
// one has: two ingresses want port 80, and the first one got it.
func portTaken(public *unstructured.Unstructured, services []unstructured.Unstructured) error {
	if !balanced(public) || len(addresses(public)) > 0 {
		return nil
	}
	wanted := ports(public)
	for i := range services {
		other := &services[i]
		if !balanced(other) || len(addresses(other)) == 0 {
			continue
		}
		for port := range ports(other) {
			if wanted[port] {
				return &TraefikError{fmt.Sprintf("Service %s/%s of Traefik has no address, since the nodes' port %d is taken by Service %s/%s",
					public.GetNamespace(), public.GetName(), port, other.GetNamespace(), other.GetName())}
			}
		}
	}
	return nil
}

func balanced(service *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	return kind == "LoadBalancer"
}

func addresses(service *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	return list
}

func ports(service *unstructured.Unstructured) map[int64]bool {
	all := map[int64]bool{}
	list, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, entry := range list {
		port, _ := entry.(map[string]any)
		if number, ok := port["port"].(int64); ok {
			all[number] = true
		}
	}
	return all
}
