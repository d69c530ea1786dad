package clusterlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// Values that PeerSpec takes.
var (
	Dataplanes = []string{"envoy", "go"}
	Ingresses  = []string{"NodePort", "LoadBalancer", "none"}
	LogLevels  = []string{"trace", "debug", "info", "warning", "error", "fatal"}
)

// Defaults of PeerSpec.
const (
	DefaultRegistry = "ghcr.io/clusterlink-net"
	DefaultTag      = "v0.4.1"
)

// PeerSpec describes ClusterLink on one cluster. A cluster has one peer.
type PeerSpec struct {
	Name        string // a DNS name, by which other peers know this one
	Dataplane   string // one of Dataplanes
	Replicas    int    // of the data plane
	Ingress     string // one of Ingresses
	IngressPort int    // node port or load balancer port; chosen by the cluster when 0
	LogLevel    string // one of LogLevels
	Labels      map[string]string
	Registry    string // of the images, without the trailing slash
	Tag         string // of the images

	// CertificateVersion is any text; certificates are made anew when it
	// differs from that of the certificates in the cluster.
	CertificateVersion string
}

// Gateway is where other peers reach a peer.
type Gateway struct {
	Host string
	Port int
}

// PeerStatus is a peer as it is in its cluster.
type PeerStatus struct {
	Spec    PeerSpec
	Fabric  FabricStatus // whose certificate it trusts
	Expires time.Time    // of its own certificate
	Gateway Gateway      // zero when the peer has no ingress
}

// ApplyPeer makes ClusterLink run on the cluster as a peer of the fabric, and
// waits until it is ready. Archives are image tarballs on this machine, which
// are loaded into the node when it lacks an image of the peer.
func ApplyPeer(ctx context.Context, cluster *kube.Client, fabric *Fabric, spec PeerSpec, archives []string) error {
	var made secrets
	// Certificates take the processor for seconds, so they are made meanwhile.
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return applyOperator(together, cluster, spec, archives) })
	group.Go(func() (err error) {
		made, err = certificates(together, cluster, fabric, spec)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if made != nil {
		if err := cluster.Apply(ctx, made.objects(spec.CertificateVersion)...); err != nil {
			return err
		}
		if err := endPods(ctx, cluster); err != nil {
			return err
		}
	}
	var err error
	if spec.Ingress == "none" {
		err = cluster.Delete(ctx, ingressRef())
	} else {
		err = cluster.Apply(ctx, spec.ingress())
	}
	if err != nil {
		return err
	}
	if err := cluster.Apply(ctx, spec.instance()); err != nil {
		return err
	}
	return awaitPeer(ctx, cluster, spec)
}

// applyOperator brings the operator into the cluster, with the kinds of objects
// that it serves and the images that it starts.
func applyOperator(ctx context.Context, cluster *kube.Client, spec PeerSpec, archives []string) error {
	if err := k3s.LoadArchives(ctx, cluster, spec.Images(), archives); err != nil {
		return err
	}
	kinds, err := definitions()
	if err != nil {
		return err
	}
	program, err := operator(spec.Images()[0])
	if err != nil {
		return err
	}
	if err := cluster.Define(ctx, kinds...); err != nil {
		return err
	}
	return cluster.Apply(ctx, program...)
}

func awaitPeer(ctx context.Context, cluster *kube.Client, spec PeerSpec) error {
	images := spec.Images()
	err := workload.AwaitAvailable(ctx, cluster, SystemNamespace, controlplaneName, spec.taken(images[1], 1))
	if err != nil {
		if !operatorRuns(context.WithoutCancel(ctx), cluster) {
			return workload.Explain(ctx, cluster, operatorNamespace, operatorName, err)
		}
		return err
	}
	if err := workload.AwaitAvailable(ctx, cluster, SystemNamespace, dataplaneName, spec.taken(images[2], spec.Replicas)); err != nil {
		return err
	}
	_, err = cluster.Wait(ctx, instanceRef(), "ready", instanceReady)
	return err
}

// certificates makes those of the peer, or returns nil when those that the
// cluster has are good.
func certificates(ctx context.Context, cluster *kube.Client, fabric *Fabric, spec PeerSpec) (secrets, error) {
	found, version, err := readSecrets(ctx, cluster)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && version == spec.CertificateVersion && found.verify(fabric, spec.Name) == nil {
		return nil, nil
	}
	return issue(ctx, fabric, spec.Name)
}

func readSecrets(ctx context.Context, cluster *kube.Client) (found secrets, version string, err error) {
	found = secrets{}
	for _, name := range secretNames {
		object, err := cluster.Get(ctx, secretRef(name))
		if err != nil {
			return nil, "", err
		}
		if found[name], err = secretData(object); err != nil {
			return nil, "", err
		}
		version = object.GetAnnotations()[versionAnnotation] // the last one has it
	}
	return found, version, nil
}

// endPods ends the pods of the control plane and the data plane. Their
// Deployments, if there are any, start others, which read the certificates anew.
func endPods(ctx context.Context, cluster *kube.Client) error {
	pods, err := cluster.List(ctx, "v1", "Pod", SystemNamespace, "app in (cl-controlplane,cl-dataplane)")
	if err != nil {
		return err
	}
	refs := make([]kube.Ref, 0, len(pods))
	for i := range pods {
		refs = append(refs, kube.Ref{APIVersion: "v1", Kind: "Pod", Namespace: SystemNamespace, Name: pods[i].GetName()})
	}
	return cluster.Delete(ctx, refs...)
}

// ObservePeer returns the peer on the cluster, or an error that wraps
// fs.ErrNotExist when there is nothing of it. What a part that was removed by
// hand would say is empty.
func ObservePeer(ctx context.Context, cluster *kube.Client) (PeerStatus, error) {
	if _, err := cluster.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: operatorNamespace}); err != nil {
		// The kinds are removed last.
		if _, other := cluster.Get(ctx, kube.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "instances.clusterlink.net"}); other != nil {
			return PeerStatus{}, err
		}
	}
	var status PeerStatus
	instance, err := cluster.Get(ctx, instanceRef())
	if err == nil {
		status.Spec = parseInstance(instance)
		_, err = cluster.Get(ctx, workload.Ref(operatorNamespace, operatorName))
	}
	if errors.Is(err, fs.ErrNotExist) {
		status.Spec.Tag = "" // nothing runs the images
	} else if err != nil {
		return PeerStatus{}, err
	}
	if err := status.readCertificate(ctx, cluster); err != nil {
		return PeerStatus{}, err
	}
	if err := status.readIngress(ctx, cluster); err != nil {
		return PeerStatus{}, err
	}
	return status, nil
}

func parseInstance(instance *unstructured.Unstructured) PeerSpec {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(instance.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	replicas, _, _ := unstructured.NestedInt64(instance.Object, "spec", "dataplane", "replicas")
	labels, _, _ := unstructured.NestedStringMap(instance.Object, "spec", "peerLabels")
	return PeerSpec{
		Dataplane: text("dataplane", "type"),
		Replicas:  int(replicas),
		Ingress:   text("ingress", "type"),
		LogLevel:  text("logLevel"),
		Labels:    labels,
		Registry:  text("containerRegistry"),
		Tag:       text("tag"),
	}
}

func (s *PeerStatus) readCertificate(ctx context.Context, cluster *kube.Client) error {
	object, err := cluster.Get(ctx, secretRef(peerSecret))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Spec.CertificateVersion = object.GetAnnotations()[versionAnnotation]
	data, err := secretData(object)
	if err != nil {
		return err
	}
	own, err := parseCertificate(data["cert.pem"])
	if err != nil {
		return fmt.Errorf("read the peer's certificate: %w", err)
	}
	authority, err := parseCertificate(data["ca.pem"])
	if err != nil {
		return fmt.Errorf("read the fabric's certificate: %w", err)
	}
	s.Spec.Name = own.Subject.CommonName
	s.Fabric = FabricStatus{
		Name:        authority.Subject.CommonName,
		Certificate: string(data["ca.pem"]),
		Fingerprint: fingerprint(authority),
		Expires:     authority.NotAfter,
	}
	s.Expires = own.NotAfter
	return nil
}

// readIngress reads how the peer is reached, from what the cluster does rather
// than from what the Instance says: the operator does not follow changes.
func (s *PeerStatus) readIngress(ctx context.Context, cluster *kube.Client) error {
	service, err := cluster.Get(ctx, ingressRef())
	if errors.Is(err, fs.ErrNotExist) {
		s.Spec.Ingress = "none"
		return nil
	}
	if err != nil {
		return err
	}
	s.Spec.Ingress, _, _ = unstructured.NestedString(service.Object, "spec", "type")
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	if len(ports) == 0 {
		return nil
	}
	port, _ := ports[0].(map[string]any)
	switch s.Spec.Ingress {
	case "NodePort":
		number, _ := port["nodePort"].(int64)
		address, err := workload.NodeAddress(ctx, cluster)
		if err != nil {
			return err
		}
		s.Gateway = Gateway{Host: address, Port: int(number)}
	case "LoadBalancer":
		number, _ := port["port"].(int64)
		s.Gateway = Gateway{Host: balancerAddress(service), Port: int(number)}
	}
	s.Spec.IngressPort = s.Gateway.Port
	return nil
}

func balancerAddress(service *unstructured.Unstructured) string {
	ingress, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	if len(ingress) == 0 {
		return ""
	}
	first, _ := ingress[0].(map[string]any)
	if ip, _ := first["ip"].(string); ip != "" {
		return ip
	}
	name, _ := first["hostname"].(string)
	return name
}
