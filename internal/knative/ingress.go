package knative

import (
	"context"
	"errors"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative/ingress"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// ingressName is that of everything of the built-in ingress; its Services are
// named after who may use them.
const (
	ingressName    = "testbed-ingress"
	publicService  = ingressName + "-public"
	privateService = ingressName + "-private"
)

// httpPort is that of an ingress's Services.
const httpPort = 80

const rbac = "rbac.authorization.k8s.io/v1"

func ingressRefs() []kube.Ref {
	return []kube.Ref{
		workload.Ref(Namespace, ingressName),
		ref("Service", publicService), ref("Service", privateService),
		ref("ServiceAccount", ingressName),
		{APIVersion: rbac, Kind: "ClusterRole", Name: ingressName},
		{APIVersion: rbac, Kind: "ClusterRoleBinding", Name: ingressName},
	}
}

// applyIngress runs the built-in ingress, or removes it where another one is
// wanted.
func applyIngress(ctx context.Context, cluster *kube.Client, spec Spec) error {
	if spec.Ingress != "built-in" {
		return cluster.Delete(ctx, ingressRefs()...)
	}
	image, err := function.LoadAgent(ctx, cluster)
	if err != nil {
		return err
	}
	if err := cluster.Apply(ctx, ingressServices()...); err != nil {
		return err
	}
	private, err := cluster.Get(ctx, ref("Service", privateService))
	if err != nil {
		return err
	}
	clusterIP, _, _ := unstructured.NestedString(private.Object, "spec", "clusterIP")
	nodeIP, err := workload.NodeAddress(ctx, cluster)
	if err != nil {
		return err
	}
	if err := cluster.Apply(ctx, ingressProgram(image, spec.class(), nodeIP, clusterIP)...); err != nil {
		return err
	}
	return workload.AwaitAvailable(ctx, cluster, Namespace, ingressName, nil)
}

func ingressLabels() map[string]any { return map[string]any{"app": ingressName} }

func ingressMeta(name string) map[string]any {
	return map[string]any{"name": name, "namespace": Namespace, "labels": ingressLabels()}
}

func ingressServices() []*unstructured.Unstructured {
	service := func(name, kind string, port int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1",
			"kind":       "Service",
			"metadata":   ingressMeta(name),
			"spec": map[string]any{
				"type":     kind,
				"selector": ingressLabels(),
				"ports":    []any{map[string]any{"name": "http", "port": int64(httpPort), "targetPort": int64(port), "protocol": "TCP"}},
			},
		}}
	}
	return []*unstructured.Unstructured{
		service(publicService, "NodePort", ingress.PublicPort),
		service(privateService, "ClusterIP", ingress.PrivatePort),
	}
}

// ingressProgram is the Deployment of the ingress with what it may do.
func ingressProgram(image, class, nodeIP, clusterIP string) []*unstructured.Unstructured {
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount", "metadata": ingressMeta(ingressName),
	}}
	meta := map[string]any{"name": ingressName, "labels": ingressLabels()}
	role := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac, "kind": "ClusterRole", "metadata": meta,
		"rules": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"services"}, "verbs": []any{"get", "list", "watch"}},
			map[string]any{"apiGroups": []any{"discovery.k8s.io"}, "resources": []any{"endpointslices"}, "verbs": []any{"get", "list", "watch"}},
			map[string]any{"apiGroups": []any{"networking.internal.knative.dev"}, "resources": []any{"ingresses"}, "verbs": []any{"get", "list", "watch"}},
			map[string]any{"apiGroups": []any{"networking.internal.knative.dev"}, "resources": []any{"ingresses/status"}, "verbs": []any{"update"}},
		},
	}}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": meta,
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ingressName},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": ingressName, "namespace": Namespace}},
	}}
	at := func(address, service string) string {
		return address + "," + service + "." + Namespace + ".svc.cluster.local"
	}
	port := func(name string, number int) any {
		return map[string]any{"name": name, "containerPort": int64(number), "protocol": "TCP"}
	}
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": ingressMeta(ingressName),
		"spec": map[string]any{
			"replicas": int64(1),
			"selector": map[string]any{"matchLabels": ingressLabels()},
			"template": map[string]any{
				"metadata": map[string]any{"labels": ingressLabels()},
				"spec": map[string]any{
					"serviceAccountName": ingressName,
					"enableServiceLinks": false,
					"containers": []any{map[string]any{
						"name":            "ingress",
						"image":           image,
						"imagePullPolicy": "IfNotPresent",
						"args":            []any{"ingress", "-class", class, "-public", at(nodeIP, publicService), "-private", at(clusterIP, privateService)},
						"ports":           []any{port("public", ingress.PublicPort), port("private", ingress.PrivatePort)},
						"readinessProbe": map[string]any{
							"httpGet":       map[string]any{"path": "/healthz", "port": int64(ingress.HealthPort)},
							"periodSeconds": int64(1),
						},
						"resources": map[string]any{"requests": map[string]any{"cpu": "20m", "memory": "32Mi"}},
						"securityContext": map[string]any{
							"runAsNonRoot":             true,
							"allowPrivilegeEscalation": false,
							"readOnlyRootFilesystem":   true,
							"capabilities":             map[string]any{"drop": []any{"ALL"}},
						},
					}},
				},
			},
		},
	}}
	return []*unstructured.Unstructured{account, role, binding, deployment}
}

// readIngress fills in where the ingress is reached, if the cluster has it.
func (s *Status) readIngress(ctx context.Context, cluster *kube.Client) error {
	var public, private *unstructured.Unstructured
	var err error
	switch s.Ingress {
	case "built-in":
		if public, err = cluster.Get(ctx, ref("Service", publicService)); err == nil {
			private, err = cluster.Get(ctx, ref("Service", privateService))
		}
	case "traefik":
		public, private, err = findTraefik(ctx, cluster)
	default:
		return nil
	}
	var missing *TraefikError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &missing) {
		s.Ingress = "" // the class is set and nothing serves it
		return nil
	}
	if err != nil {
		return err
	}
	s.ClusterIP, _, _ = unstructured.NestedString(private.Object, "spec", "clusterIP")
	list, _, _ := unstructured.NestedSlice(public.Object, "spec", "ports")
	for _, entry := range list {
		port, _ := entry.(map[string]any)
		if number, ok := port["nodePort"].(int64); ok && port["port"] == int64(httpPort) {
			s.NodePort = int(number)
		}
	}
	s.NodeIP, err = workload.NodeAddress(ctx, cluster)
	return err
}
