// Package function runs the workloads that an experiment calls: one Deployment
// with one Service each, reachable inside the cluster and at a port of its
// node. A built-in function is a role of the testbed's agent and needs no
// registry; any other image works as well.
package function

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// How a function can be run.
const (
	Deployment = "deployment"
	Knative    = "knative"
)

// Runtimes lists how a function can be run, the default first.
var Runtimes = []string{Deployment, Knative}

// Builtins lists the functions that the testbed's agent serves.
var Builtins = []string{"hello-world", "payload-echo", "payload-recv"}

// DefaultPort is the port that built-in functions are served on.
const DefaultPort = 8080

// nameLabel is on everything of a function and tells the pods of one from
// those of others.
const nameLabel = "testbed.local/function"

// builtinAnnotation holds the name of the built-in function on the Deployment.
const builtinAnnotation = "testbed.local/builtin"

// Spec describes a function. Exactly one of Builtin and Image is set.
type Spec struct {
	Namespace, Name string
	Builtin         string
	Image           string
	Args            []string
	Env             map[string]string
	Runtime         string            // one of Runtimes
	Port            int               // of the container, and of the Service of a Deployment
	Replicas        int               // of a Deployment
	Scale           *Scale            // of a Knative service
	NodePort        int               // chosen by the cluster when 0
	Underlay        string            // further address of the node at which the node port has to answer, optional
	Requests        map[string]string // Kubernetes quantities by resource
	Limits          map[string]string
}

// Status is a function as it is in the cluster.
type Status struct {
	Spec      Spec
	ClusterIP string // of the Service of a Deployment, or of a revision's pods
	NodeIP    string
	Routes    *Routes // of a Knative service
}

// servicePort is the port of the function's Services.
func (s Spec) servicePort() int {
	if s.Runtime == Knative {
		return knativePort
	}
	return s.Port
}

// Host is the DNS name of the function inside its cluster.
func (s Spec) Host() string { return s.Name + "." + s.Namespace + ".svc.cluster.local" }

// URL is where pods of the cluster call the function by name.
func (s Status) URL() string { return httpURL(s.Spec.Host(), s.Spec.servicePort()) }

// ClusterIPURL is where pods of the cluster call the function without DNS.
func (s Status) ClusterIPURL() string { return httpURL(s.ClusterIP, s.Spec.servicePort()) }

// NodePortURL is where others call the function, at its node.
func (s Status) NodePortURL() string { return httpURL(s.NodeIP, s.Spec.NodePort) }

// UnderlayURL is where others call the function at its node without the
// overlay. It is empty without Underlay.
func (s Status) UnderlayURL() string {
	if s.Spec.Underlay == "" {
		return ""
	}
	return httpURL(s.Spec.Underlay, s.Spec.NodePort)
}

func httpURL(host string, port int) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}

func deploymentRef(namespace, name string) kube.Ref { return workload.Ref(namespace, name) }

func serviceRef(namespace, name string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name}
}

// Apply makes the function run and waits until its node port answers.
func Apply(ctx context.Context, cluster *kube.Client, spec Spec) error {
	image := spec.Image
	if spec.Builtin != "" {
		var err error
		if image, err = LoadAgent(ctx, cluster); err != nil {
			return err
		}
	}
	if spec.Runtime == Knative {
		return applyKnative(ctx, cluster, spec, image)
	}
	if err := cluster.Apply(ctx, spec.deployment(image), spec.service()); err != nil {
		return err
	}
	if err := workload.AwaitAvailable(ctx, cluster, spec.Namespace, spec.Name, nil); err != nil {
		return err
	}
	return awaitPort(ctx, cluster, spec)
}

// awaitPort waits until the function answers inside its cluster and at its node
// port, which lead to a pod a moment after the pod is available.
func awaitPort(ctx context.Context, cluster *kube.Client, spec Spec) error {
	status, err := Observe(ctx, cluster, spec.Namespace, spec.Name)
	if err != nil {
		return err
	}
	port := strconv.Itoa(status.Spec.NodePort)
	for _, address := range []string{
		net.JoinHostPort(status.ClusterIP, strconv.Itoa(spec.servicePort())),
		net.JoinHostPort(status.NodeIP, port),
	} {
		if err := workload.AwaitPort(ctx, cluster, address); err != nil {
			return err
		}
	}
	if spec.Underlay == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, underlayPatience)
	defer cancel()
	if err := workload.AwaitPort(ctx, cluster, net.JoinHostPort(spec.Underlay, port)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnderlay, err)
	}
	return nil
}

// ErrUnderlay is wrapped by the error of Apply about a node port that does not
// answer at Underlay.
var ErrUnderlay = errors.New("the node port does not answer at the underlay address")

// underlayPatience is how long a node port that answers at the node's own
// address may take to answer at another.
const underlayPatience = 20 * time.Second

func (s Spec) labels() map[string]any { return map[string]any{nameLabel: s.Name} }

func (s Spec) deployment(image string) *unstructured.Unstructured {
	annotations := map[string]any{}
	if s.Builtin != "" {
		annotations[builtinAnnotation] = s.Builtin
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata": map[string]any{
			"name": s.Name, "namespace": s.Namespace, "labels": s.labels(), "annotations": annotations,
		},
		"spec": map[string]any{
			"replicas": int64(s.Replicas),
			"selector": map[string]any{"matchLabels": s.labels()},
			"template": map[string]any{
				"metadata": map[string]any{"labels": s.labels()},
				"spec": map[string]any{
					"containers":                   []any{s.container(image)},
					"automountServiceAccountToken": false,
					"enableServiceLinks":           false,
				},
			},
		},
	}}
}

func (s Spec) container(image string) map[string]any {
	resources := map[string]any{}
	if len(s.Requests) > 0 {
		resources["requests"] = anyMap(s.Requests)
	}
	if len(s.Limits) > 0 {
		resources["limits"] = anyMap(s.Limits)
	}
	container := map[string]any{
		"name":            "function",
		"image":           image,
		"imagePullPolicy": "IfNotPresent",
		"ports":           []any{map[string]any{"name": "http", "containerPort": int64(s.Port), "protocol": "TCP"}},
		"env":             s.environment(),
		"readinessProbe": map[string]any{
			"tcpSocket":     map[string]any{"port": int64(s.Port)},
			"periodSeconds": int64(1),
		},
		"resources": resources,
	}
	if len(s.Args) > 0 {
		container["args"] = anySlice(s.Args)
	}
	if s.Builtin != "" {
		container["args"] = []any{"function", "-builtin", s.Builtin, "-listen", ":" + strconv.Itoa(s.Port)}
		container["readinessProbe"] = map[string]any{
			"httpGet":       map[string]any{"path": "/healthz", "port": int64(s.Port)},
			"periodSeconds": int64(1),
		}
		container["securityContext"] = map[string]any{
			"runAsNonRoot":             true,
			"allowPrivilegeEscalation": false,
			"readOnlyRootFilesystem":   true,
			"capabilities":             map[string]any{"drop": []any{"ALL"}},
		}
	}
	return container
}

func (s Spec) environment() []any {
	env := make([]any, 0, len(s.Env))
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, map[string]any{"name": name, "value": s.Env[name]})
	}
	return env
}

func (s Spec) service() *unstructured.Unstructured {
	port := map[string]any{"name": "http", "port": int64(s.Port), "targetPort": int64(s.Port), "protocol": "TCP"}
	if s.NodePort != 0 {
		port["nodePort"] = int64(s.NodePort)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   map[string]any{"name": s.Name, "namespace": s.Namespace, "labels": s.labels()},
		"spec": map[string]any{
			"type":     "NodePort",
			"selector": s.labels(),
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

func anySlice(list []string) []any {
	converted := make([]any, 0, len(list))
	for _, value := range list {
		converted = append(converted, value)
	}
	return converted
}

// Observe returns a function, or an error that wraps fs.ErrNotExist when there
// is nothing of it. What a part that was removed by hand would say is empty.
func Observe(ctx context.Context, cluster *kube.Client, namespace, name string) (Status, error) {
	status := Status{Spec: Spec{Namespace: namespace, Name: name}}
	deployment, noDeployment := cluster.Get(ctx, deploymentRef(namespace, name))
	if noDeployment == nil {
		var err error
		if status.Spec, err = parseDeployment(deployment); err != nil {
			return Status{}, fmt.Errorf("read function %s/%s of %s: %w", namespace, name, cluster.URL(), err)
		}
	} else if !errors.Is(noDeployment, fs.ErrNotExist) {
		return Status{}, noDeployment
	} else if status, err := observeKnative(ctx, cluster, namespace, name); !errors.Is(err, fs.ErrNotExist) {
		return status, err
	}
	service, noService := cluster.Get(ctx, serviceRef(namespace, name))
	if noService == nil {
		status.readService(service)
		var err error
		status.NodeIP, err = workload.NodeAddress(ctx, cluster)
		return status, err
	}
	if errors.Is(noService, fs.ErrNotExist) && noDeployment == nil {
		noService = nil
	}
	return status, noService
}

func (s *Status) readService(service *unstructured.Unstructured) {
	s.ClusterIP, _, _ = unstructured.NestedString(service.Object, "spec", "clusterIP")
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	if len(ports) == 0 {
		return
	}
	port, _ := ports[0].(map[string]any)
	number, _ := port["port"].(int64)
	nodePort, _ := port["nodePort"].(int64)
	s.Spec.Port, s.Spec.NodePort = int(number), int(nodePort)
}

func parseDeployment(deployment *unstructured.Unstructured) (Spec, error) {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return Spec{}, errors.New("its Deployment has no container")
	}
	container, _ := containers[0].(map[string]any)
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	spec := Spec{
		Namespace: deployment.GetNamespace(),
		Name:      deployment.GetName(),
		Builtin:   deployment.GetAnnotations()[builtinAnnotation],
		Runtime:   Deployment,
		Replicas:  int(replicas),
	}
	spec.readContainer(container)
	return spec, nil
}

// readContainer reads what every runtime's container says.
func (s *Spec) readContainer(container map[string]any) {
	s.Image, _, _ = unstructured.NestedString(container, "image")
	s.Args, _, _ = unstructured.NestedStringSlice(container, "args")
	if s.Builtin != "" {
		s.Image, s.Args = "", nil
	}
	env, _, _ := unstructured.NestedSlice(container, "env")
	for _, entry := range env {
		variable, _ := entry.(map[string]any)
		name, _ := variable["name"].(string)
		value, _ := variable["value"].(string)
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
	s.Requests, _, _ = unstructured.NestedStringMap(container, "resources", "requests")
	s.Limits, _, _ = unstructured.NestedStringMap(container, "resources", "limits")
}

// Remove removes a function and waits until its pods are gone.
func Remove(ctx context.Context, cluster *kube.Client, namespace, name string) error {
	// The one of Knative first: the Service of the function's name is its own.
	if err := cluster.Delete(ctx, knativeRef(namespace, name), podsRef(namespace, name)); err != nil {
		return err
	}
	if err := cluster.Delete(ctx, serviceRef(namespace, name), deploymentRef(namespace, name)); err != nil {
		return err
	}
	pods, err := cluster.List(ctx, "v1", "Pod", namespace, workload.Selector(map[string]string{nameLabel: name}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the pods of function %s: %w", name, err)
	}
	refs := make([]kube.Ref, 0, len(pods))
	for i := range pods {
		refs = append(refs, kube.Ref{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pods[i].GetName()})
	}
	return cluster.Delete(ctx, refs...)
}
