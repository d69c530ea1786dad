package knative

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative/ingress"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// Observe returns Knative as the cluster has it, or an error that wraps
// fs.ErrNotExist when there is nothing of it. What a part that was removed by
// hand would say is empty.
func Observe(ctx context.Context, cluster *kube.Client) (Status, error) {
	var status Status
	_, err := cluster.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: Namespace})
	if errors.Is(err, fs.ErrNotExist) {
		// The kinds are removed last.
		if _, other := cluster.Get(ctx, definition("services.serving.knative.dev")); other != nil {
			return Status{}, err
		}
	} else if err != nil {
		return Status{}, err
	}
	if err := status.readControlPlane(ctx, cluster); err != nil {
		return Status{}, err
	}
	if err := status.readSettings(ctx, cluster); err != nil {
		return Status{}, err
	}
	if err := status.readIngress(ctx, cluster); err != nil {
		return Status{}, err
	}
	return status, nil
}

// readControlPlane reads the version, which is empty when a program is missing
// or has no pod.
func (s *Status) readControlPlane(ctx context.Context, cluster *kube.Client) error {
	versions := map[string]bool{}
	for _, name := range []string{"activator", "autoscaler", "webhook", "controller"} {
		deployment, err := cluster.Get(ctx, workload.Ref(Namespace, name))
		if errors.Is(err, fs.ErrNotExist) {
			versions[""] = true
			continue
		}
		if err != nil {
			return err
		}
		s.Version = deployment.GetLabels()[versionLabel]
		versions[s.Version] = true
		if replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); replicas == 0 {
			versions[""] = true
		}
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if len(containers) > 0 {
			container, _ := containers[0].(map[string]any)
			s.CPU, _, _ = unstructured.NestedString(container, "resources", "requests", "cpu")
			s.Memory, _, _ = unstructured.NestedString(container, "resources", "requests", "memory")
		}
	}
	if len(versions) != 1 {
		s.Version = "" // half an upgrade, or a part is missing
	}
	return nil
}

func (s *Status) readSettings(ctx context.Context, cluster *kube.Client) error {
	read := func(name string) (map[string]string, error) {
		object, err := cluster.Get(ctx, settings(name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		data, _, err := unstructured.NestedStringMap(object.Object, "data")
		delete(data, "_example")
		return data, err
	}
	network, err := read("network")
	if err != nil {
		return err
	}
	switch class := network["ingress-class"]; class {
	case "":
	case ingress.Class:
		s.Ingress = "built-in"
	case (Spec{Ingress: "traefik"}).class():
		s.Ingress = "traefik"
	default:
		s.Ingress, s.Class = "none", class
	}
	domains, err := read("domain")
	if err != nil {
		return err
	}
	for domain := range domains {
		s.Domain = domain
	}
	autoscaler, err := read("autoscaler")
	if err != nil {
		return err
	}
	defaults, err := read("defaults")
	if err != nil {
		return err
	}
	return s.parseSettings(autoscaler, defaults)
}

func (s *Status) parseSettings(autoscaler, defaults map[string]string) error {
	var problems []error
	text := func(data map[string]string, key string, parse func(string) error) {
		if value := data[key]; value != "" {
			if err := parse(value); err != nil {
				problems = append(problems, fmt.Errorf("read the setting %s: %w", key, err))
			}
		}
	}
	text(autoscaler, "enable-scale-to-zero", func(v string) (err error) { s.ScaleToZero, err = strconv.ParseBool(v); return err })
	text(autoscaler, "scale-to-zero-grace-period", func(v string) (err error) { s.GracePeriod, err = time.ParseDuration(v); return err })
	text(autoscaler, "stable-window", func(v string) (err error) { s.StableWindow, err = time.ParseDuration(v); return err })
	text(autoscaler, "target-burst-capacity", func(v string) (err error) { s.TargetBurstCapacity, err = strconv.Atoi(v); return err })
	text(defaults, "container-concurrency", func(v string) (err error) { s.ContainerConcurrency, err = strconv.Atoi(v); return err })
	return errors.Join(problems...)
}

func definition(name string) kube.Ref {
	return kube.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name}
}
