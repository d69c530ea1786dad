package clusterlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// Schemes by which an import chooses among its sources for a new connection.
var Schemes = []string{"round-robin", "random", "static"}

// Source is a service that a peer exports.
type Source struct {
	Peer, Namespace, Export string
}

// ImportSpec describes a service of other peers that pods of this cluster call
// by a name of its own.
type ImportSpec struct {
	Namespace, Name string
	Port            int // that pods call
	TargetPort      int // that the data plane listens on; chosen by the control plane when 0
	Scheme          string
	Sources         []Source
}

// ImportStatus is an import as it is in the cluster.
type ImportStatus struct {
	Spec      ImportSpec
	ClusterIP string // of the Service that the import's name leads to
}

// Address is the name and port that pods call.
func (s ImportSpec) Address() string {
	return net.JoinHostPort(s.Name+"."+s.Namespace+".svc.cluster.local", strconv.Itoa(s.Port))
}

// SourceError says which source of an import cannot be used.
type SourceError struct {
	Index int
	Err   error
}

func (e *SourceError) Error() string { return e.Err.Error() }

func (e *SourceError) Unwrap() error { return e.Err }

var errNotExported = errors.New("it exports no such service")

func importRef(namespace, name string) kube.Ref {
	return kube.Ref{APIVersion: apiVersion, Kind: "Import", Namespace: namespace, Name: name}
}

func (s ImportSpec) object() *unstructured.Unstructured {
	sources := make([]any, 0, len(s.Sources))
	for _, source := range s.Sources {
		sources = append(sources, map[string]any{"peer": source.Peer, "exportNamespace": source.Namespace, "exportName": source.Export})
	}
	spec := map[string]any{"port": int64(s.Port), "lbScheme": s.Scheme, "sources": sources}
	if s.TargetPort != 0 {
		spec["targetPort"] = int64(s.TargetPort)
	}
	return object(importRef(s.Namespace, s.Name), spec)
}

// ApplyImport imports a service and waits until it has its address. A source
// that its peer does not export is a *SourceError, and then nothing is made.
func ApplyImport(ctx context.Context, cluster *kube.Client, spec ImportSpec) error {
	for i, source := range spec.Sources {
		if err := checkSource(ctx, cluster, source); err != nil {
			return &SourceError{Index: i, Err: err}
		}
	}
	if err := cluster.Apply(ctx, spec.object()); err != nil {
		return err
	}
	_, err := cluster.Wait(ctx, importRef(spec.Namespace, spec.Name), "valid", func(imported *unstructured.Unstructured) (bool, string) {
		for _, condition := range []string{"ImportTargetPortValid", "ImportServiceValid"} {
			if ok, why := conditionTrue(imported, condition); !ok {
				return false, why
			}
		}
		return true, ""
	})
	if err != nil {
		return err
	}
	service, err := importService(ctx, cluster, spec.Namespace, spec.Name)
	if err != nil {
		return err
	}
	service, err = cluster.Wait(ctx, kube.RefOf(service), "updated", func(service *unstructured.Unstructured) (bool, string) {
		ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
		if len(ports) == 1 {
			if port, ok := ports[0].(map[string]any); ok && port["port"] == int64(spec.Port) {
				return true, ""
			}
		}
		return false, "the control plane has not updated its port yet"
	})
	if err != nil {
		return err
	}
	// The data plane listens a moment after the import is valid.
	address, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
	return workload.AwaitPort(ctx, cluster, net.JoinHostPort(address, strconv.Itoa(spec.Port)))
}

// checkSource asks the peer of a source whether it exports the service. The
// control plane itself never tells: connections to the import just end.
func checkSource(ctx context.Context, cluster *kube.Client, source Source) error {
	peer, err := cluster.Get(ctx, connectionRef(source.Peer))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no connection to a peer %s", cluster.URL(), source.Peer)
	}
	if err != nil || cluster.Host() == nil {
		return err
	}
	caller, err := newCaller(ctx, cluster, source.Peer)
	if err != nil {
		return err
	}
	defer caller.close()
	for _, gateway := range gateways(peer) {
		if err = caller.exported(ctx, gateway, source.Namespace, source.Export); err == nil {
			return nil
		}
	}
	return fmt.Errorf("ask peer %s for the export %s of namespace %s: %w", source.Peer, source.Export, source.Namespace, err)
}

// importService returns the Service with the cluster's address of an import,
// which is in the system namespace wherever the import is.
func importService(ctx context.Context, cluster *kube.Client, namespace, name string) (*unstructured.Unstructured, error) {
	refs, err := managedServices(ctx, cluster, SystemNamespace, importSelectors(namespace, name)...)
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("find the service of import %s/%s: %w", namespace, name, fs.ErrNotExist)
	}
	return cluster.Get(ctx, refs[0])
}

func importSelectors(namespace, name string) []string {
	return []string{managedBy, "clusterlink.net/import-name=" + name, "clusterlink.net/import-namespace=" + namespace}
}

// ObserveImport returns an import, or an error that wraps fs.ErrNotExist. An
// import whose Service the control plane has yet to make has no address.
func ObserveImport(ctx context.Context, cluster *kube.Client, namespace, name string) (ImportStatus, error) {
	found, err := cluster.Get(ctx, importRef(namespace, name))
	if err != nil {
		return ImportStatus{}, err
	}
	status := ImportStatus{Spec: parseImport(found)}
	service, err := importService(ctx, cluster, namespace, name)
	if errors.Is(err, fs.ErrNotExist) {
		return status, nil
	}
	if err != nil {
		return ImportStatus{}, err
	}
	status.ClusterIP, _, _ = unstructured.NestedString(service.Object, "spec", "clusterIP")
	return status, nil
}

func parseImport(found *unstructured.Unstructured) ImportSpec {
	spec := ImportSpec{Namespace: found.GetNamespace(), Name: found.GetName()}
	port, _, _ := unstructured.NestedInt64(found.Object, "spec", "port")
	target, _, _ := unstructured.NestedInt64(found.Object, "spec", "targetPort")
	spec.Port, spec.TargetPort = int(port), int(target)
	spec.Scheme, _, _ = unstructured.NestedString(found.Object, "spec", "lbScheme")
	sources, _, _ := unstructured.NestedSlice(found.Object, "spec", "sources")
	for _, source := range sources {
		s, _ := source.(map[string]any)
		peer, _ := s["peer"].(string)
		namespace, _ := s["exportNamespace"].(string)
		export, _ := s["exportName"].(string)
		spec.Sources = append(spec.Sources, Source{Peer: peer, Namespace: namespace, Export: export})
	}
	return spec
}

// RemoveImport ends an import and removes its Services, which the control
// plane does unless it is gone.
func RemoveImport(ctx context.Context, cluster *kube.Client, namespace, name string) error {
	if err := cluster.Delete(ctx, importRef(namespace, name)); err != nil {
		return err
	}
	services, err := managedServices(ctx, cluster, "", importSelectors(namespace, name)...)
	if err != nil {
		return err
	}
	return cluster.Delete(ctx, services...)
}
