package site

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// podSpec describes the client pods of a run.
type podSpec struct {
	Namespace string
	Run       string // the name of the run, a DNS label
	Image     string // that of this build when empty
	Clients   int    // how many pods there are, 0 for 1
}

const (
	podPort = 8080
	// podIdle is how long a pod whose run was killed goes on before it ends
	// by itself.
	podIdle = 10 * time.Minute
	// podPatience is how long the pods may take to be ready.
	podPatience = 2 * time.Minute

	// RunLabel is on the client pods and holds the name of the run.
	RunLabel = "testbed.local/run"

	// indexLabel is on the pods of an indexed Job.
	indexLabel = "batch.kubernetes.io/job-completion-index"

	// archLabel is on nodes and holds their architecture.
	archLabel = "kubernetes.io/arch"
)

// pods are the client pods of a run: those of one Job, each with an index, which
// the cluster puts on any of its nodes.
type pods struct {
	cluster *kube.Client
	ref     kube.Ref // of the Job
	run     string
	image   string
	arch    string   // of the nodes that have the image, "" when all may
	members []member // by index, once they are ready
}

type member struct {
	Name string `json:"name"`
	Node string `json:"node"` // that it runs on
}

// startPods makes the client pods of a run, in place of those that a killed run
// has left, and waits until they serve. They are there to be removed also when
// that fails.
func startPods(ctx context.Context, cluster *kube.Client, spec podSpec) (*pods, error) {
	p := &pods{cluster: cluster, run: spec.Run, image: spec.Image, members: make([]member, max(spec.Clients, 1)), ref: kube.Ref{
		APIVersion: "batch/v1", Kind: "Job", Namespace: spec.Namespace, Name: "testbed-run-" + spec.Run,
	}}
	if p.image == "" {
		var err error
		if p.image, err = function.LoadAgent(ctx, cluster); err != nil {
			return p, err
		}
		if p.arch, err = serverArch(ctx, cluster); err != nil {
			return p, err
		}
	}
	if err := p.remove(ctx); err != nil {
		return p, err
	}
	if err := cluster.Apply(ctx, p.object()); err != nil {
		return p, fmt.Errorf("start the client: %w", err)
	}
	return p, p.awaitReady(ctx)
}

// serverArch returns the architecture of the server's node, as the node itself
// names it. Nodes of another one do not have the agent's image.
func serverArch(ctx context.Context, cluster *kube.Client) (string, error) {
	nodes, err := cluster.List(ctx, "v1", "Node", "", "")
	if err != nil {
		return "", fmt.Errorf("find the nodes for the client: %w", err)
	}
	for _, node := range nodes {
		// Agents are annotated with their host when they join.
		if url := node.GetAnnotations()[kube.HostAnnotation]; url == "" || url == cluster.Host().URL() {
			return node.GetLabels()[archLabel], nil
		}
	}
	return "", nil
}

func (p *pods) object() *unstructured.Unstructured {
	field := func(path string) map[string]any {
		return map[string]any{"fieldRef": map[string]any{"fieldPath": path}}
	}
	labels := map[string]any{"app.kubernetes.io/name": "testbed-load", RunLabel: p.run}
	count := int64(len(p.members))
	nodes := map[string]any{}
	if p.arch != "" {
		nodes[archLabel] = p.arch
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.ref.APIVersion,
		"kind":       p.ref.Kind,
		"metadata":   map[string]any{"name": p.ref.Name, "namespace": p.ref.Namespace, "labels": labels},
		"spec": map[string]any{
			"completionMode": "Indexed",
			"completions":    count,
			"parallelism":    count,
			"backoffLimit":   int64(0), // a client that ends has ended its run
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"restartPolicy":                 "Never",
					"terminationGracePeriodSeconds": int64(1),
					"automountServiceAccountToken":  false,
					"enableServiceLinks":            false,
					"nodeSelector":                  nodes,
					// Clients side by side take each other's time, so they
					// are spread where there are nodes for it.
					"topologySpreadConstraints": []any{map[string]any{
						"maxSkew":           int64(1),
						"topologyKey":       "kubernetes.io/hostname",
						"whenUnsatisfiable": "ScheduleAnyway",
						"labelSelector":     map[string]any{"matchLabels": map[string]any{RunLabel: p.run}},
					}},
					"containers": []any{map[string]any{
						"name":            "load",
						"image":           p.image,
						"imagePullPolicy": "IfNotPresent",
						"args":            []any{"load", "-listen", fmt.Sprintf(":%d", podPort), "-idle", podIdle.String()},
						"env": []any{
							map[string]any{"name": load.PodIPVariable, "valueFrom": field("status.podIP")},
							map[string]any{"name": load.HostIPVariable, "valueFrom": field("status.hostIP")},
						},
						"ports": []any{map[string]any{"name": "http", "containerPort": int64(podPort), "protocol": "TCP"}},
						// Probes end once the pod has started, so that none
						// falls into a measurement.
						"startupProbe": map[string]any{
							"httpGet":          map[string]any{"path": "/healthz", "port": int64(podPort)},
							"periodSeconds":    int64(1),
							"failureThreshold": int64(60),
						},
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
}

// awaitReady waits until every pod is ready and takes their names and nodes.
func (p *pods) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, podPatience, fmt.Errorf("not ready within %s", podPatience))
	defer cancel()
	_, err := p.cluster.Wait(ctx, p.ref, "ready", func(*unstructured.Unstructured) (bool, string) {
		found, err := p.list(ctx)
		if err != nil {
			return false, err.Error()
		}
		return p.take(found)
	})
	if err != nil {
		return fmt.Errorf("start the client: %w%s", err, p.lastWords())
	}
	return nil
}

func (p *pods) list(ctx context.Context) ([]unstructured.Unstructured, error) {
	return p.cluster.List(ctx, "v1", "Pod", p.ref.Namespace, RunLabel+"="+p.run)
}

// take tells whether all pods are ready, or how the others are.
func (p *pods) take(found []unstructured.Unstructured) (bool, string) {
	ready := map[int]bool{}
	var states []string
	for i := range found {
		object := &found[i]
		index, err := strconv.Atoi(object.GetLabels()[indexLabel])
		if err != nil || index < 0 || index >= len(p.members) || object.GetDeletionTimestamp() != nil {
			continue
		}
		if !kube.ConditionOf(object, "Ready").True() {
			states = append(states, fmt.Sprintf("pod %s: %s", object.GetName(), workload.State(object)))
			continue
		}
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		p.members[index] = member{Name: object.GetName(), Node: node}
		ready[index] = true
	}
	if len(ready) == len(p.members) {
		return true, ""
	}
	return false, fmt.Sprintf("%d of %d pods are ready; %s", len(ready), len(p.members), strings.Join(states, "; "))
}

// lastWords returns the end of the log of a pod, if there is one.
func (p *pods) lastWords() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := p.list(ctx)
	if err != nil {
		return ""
	}
	for i := range found {
		if log, err := p.cluster.Logs(ctx, p.ref.Namespace, found[i].GetName(), "load", 10); err == nil && len(log) > 0 {
			return fmt.Sprintf("; the last log lines of pod %s:\n%s", found[i].GetName(), log)
		}
	}
	return ""
}

// load returns the clients of the generators in the pods.
func (p *pods) load() load.Clients {
	var clients load.Clients
	for _, member := range p.members {
		url, client := p.cluster.PodProxy(p.ref.Namespace, member.Name, podPort)
		clients = append(clients, load.Client{URL: url, HTTP: client})
	}
	return clients
}

// remove removes the Job with its pods and waits until they are gone.
func (p *pods) remove(ctx context.Context) error {
	err := p.cluster.Delete(ctx, p.ref)
	// The Job waits for its pods, but for one that was made at the last moment.
	found, listErr := p.list(ctx)
	for i := range found {
		err = errors.Join(err, p.cluster.Delete(ctx, kube.RefOf(&found[i])))
	}
	if err = errors.Join(err, listErr); err != nil {
		return fmt.Errorf("remove the client: %w", err)
	}
	return nil
}
