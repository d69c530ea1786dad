package clusterlink

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// ExportSpec describes a service that other peers may import. Without Host it
// is the Service of the same name and namespace.
type ExportSpec struct {
	Namespace, Name string
	Host            string // DNS name or address, optional
	Port            int
}

func exportRef(namespace, name string) kube.Ref {
	return kube.Ref{APIVersion: apiVersion, Kind: "Export", Namespace: namespace, Name: name}
}

func (s ExportSpec) object() *unstructured.Unstructured {
	spec := map[string]any{"port": int64(s.Port)}
	if s.Host != "" {
		spec["host"] = s.Host
	}
	return object(exportRef(s.Namespace, s.Name), spec)
}

// ApplyExport exports a service and waits until the control plane finds it
// valid.
func ApplyExport(ctx context.Context, cluster *kube.Client, spec ExportSpec) error {
	if err := cluster.Apply(ctx, spec.object()); err != nil {
		return err
	}
	_, err := cluster.Wait(ctx, exportRef(spec.Namespace, spec.Name), "valid", func(export *unstructured.Unstructured) (bool, string) {
		return conditionTrue(export, "ExportValid")
	})
	return err
}

// ObserveExport returns an export, or an error that wraps fs.ErrNotExist.
func ObserveExport(ctx context.Context, cluster *kube.Client, namespace, name string) (ExportSpec, error) {
	found, err := cluster.Get(ctx, exportRef(namespace, name))
	if err != nil {
		return ExportSpec{}, err
	}
	host, _, _ := unstructured.NestedString(found.Object, "spec", "host")
	port, _, _ := unstructured.NestedInt64(found.Object, "spec", "port")
	return ExportSpec{Namespace: namespace, Name: name, Host: host, Port: int(port)}, nil
}

// RemoveExport ends an export.
func RemoveExport(ctx context.Context, cluster *kube.Client, namespace, name string) error {
	return cluster.Delete(ctx, exportRef(namespace, name))
}
