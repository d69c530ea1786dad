package clusterlink

import (
	"fmt"
	"io/fs"
	"path"

	"github.com/clusterlink-net/clusterlink/config"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const (
	// SystemNamespace is where control plane, data plane and connections live.
	SystemNamespace = "clusterlink-system"

	operatorNamespace = "clusterlink-operator"
	operatorName      = "cl-operator-controller-manager"
	controlplaneName  = "cl-controlplane"
	dataplaneName     = "cl-dataplane"
	instanceName      = "cl-instance"
	ingressService    = "clusterlink"
	apiVersion        = "clusterlink.net/v1alpha1"

	// listenPort is the data plane's port for other peers.
	listenPort = 4443
	// servicePort is the ingress Service's own port.
	servicePort = 443
)

// Images returns the references of the images that a peer runs.
func (s PeerSpec) Images() []string {
	dataplane := "cl-dataplane"
	if s.Dataplane == "go" {
		dataplane = "cl-go-dataplane"
	}
	var images []string
	for _, name := range []string{"cl-operator", "cl-controlplane", dataplane} {
		images = append(images, s.Registry+"/"+name+":"+s.Tag)
	}
	return images
}

// definitions are the kinds that ClusterLink adds to a cluster.
func definitions() ([]*unstructured.Unstructured, error) {
	return manifests("crds")
}

// operator is the program that runs a peer as its Instance says, with its
// namespaces and permissions.
func operator(image string) ([]*unstructured.Unstructured, error) {
	objects, err := manifests("operator")
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "ClusterRole", "ClusterRoleBinding":
			object.SetNamespace("") // the manifests give them one
		case "Deployment":
			containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			if err != nil {
				return nil, err
			}
			for _, container := range containers {
				if c, ok := container.(map[string]any); ok {
					c["image"] = image
				}
			}
			if err := unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers"); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

// manifests reads a folder of the objects that ClusterLink publishes.
func manifests(dir string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(config.ConfigFiles, dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".yaml" {
			return err
		}
		content, err := config.ConfigFiles.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := kube.Parse(content)
		if err != nil {
			return fmt.Errorf("parse ClusterLink's %s: %w", file, err)
		}
		objects = append(objects, parsed...)
		return nil
	})
	return objects, err
}

// instance tells the operator what to run.
func (s PeerSpec) instance() *unstructured.Unstructured {
	ingress := map[string]any{"type": s.Ingress}
	if s.IngressPort != 0 {
		ingress["port"] = int64(s.IngressPort)
	}
	spec := map[string]any{
		"containerRegistry": s.Registry,
		"tag":               s.Tag,
		"namespace":         SystemNamespace,
		"logLevel":          s.LogLevel,
		"dataplane":         map[string]any{"type": s.Dataplane, "replicas": int64(s.Replicas)},
		"ingress":           ingress,
	}
	if len(s.Labels) > 0 {
		spec["peerLabels"] = anyMap(s.Labels)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion,
		"kind":       "Instance",
		"metadata":   map[string]any{"name": instanceName, "namespace": operatorNamespace},
		"spec":       spec,
	}}
}

// ingress is the Service by which other peers reach this one. The operator
// would make it once and never change it, so it is made first and by us.
func (s PeerSpec) ingress() *unstructured.Unstructured {
	port := map[string]any{"name": "https", "port": int64(servicePort), "targetPort": int64(listenPort), "protocol": "TCP"}
	if s.IngressPort != 0 && s.Ingress == "NodePort" {
		port["nodePort"] = int64(s.IngressPort)
	}
	if s.IngressPort != 0 && s.Ingress == "LoadBalancer" {
		port["port"] = int64(s.IngressPort)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   map[string]any{"name": ingressService, "namespace": SystemNamespace},
		"spec": map[string]any{
			"type":     s.Ingress,
			"selector": map[string]any{"app": dataplaneName},
			"ports":    []any{port},
		},
	}}
}

func anyMap(m map[string]string) map[string]any {
	converted := make(map[string]any, len(m))
	for key, value := range m {
		converted[key] = value
	}
	return converted
}

func instanceRef() kube.Ref {
	return kube.Ref{APIVersion: apiVersion, Kind: "Instance", Namespace: operatorNamespace, Name: instanceName}
}

func ingressRef() kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: SystemNamespace, Name: ingressService}
}
