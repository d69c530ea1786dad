package site

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// podSpec describes the client pod of a run.
type podSpec struct {
	Namespace string
	Run       string // the name of the run, a DNS label
	Image     string // that of this build when empty
}

const (
	podPort = 8080
	// podIdle is how long a pod whose run was killed goes on before it ends
	// by itself.
	podIdle = 10 * time.Minute
	// podPatience is how long a pod may take to be ready.
	podPatience = 2 * time.Minute

	// RunLabel is on the client pod and holds the name of the run.
	RunLabel = "testbed.local/run"
)

// pod is a client pod.
type pod struct {
	cluster *kube.Client
	ref     kube.Ref
	image   string
	node    string // that it runs on
}

// startPod makes the client pod of a run, in place of one that a killed run
// has left, and waits until it serves. The pod is there to be removed also when
// that fails.
func startPod(ctx context.Context, cluster *kube.Client, spec podSpec) (*pod, error) {
	p := &pod{cluster: cluster, image: spec.Image, ref: kube.Ref{
		APIVersion: "v1", Kind: "Pod", Namespace: spec.Namespace, Name: "testbed-run-" + spec.Run,
	}}
	if p.image == "" {
		var err error
		if p.image, err = function.LoadAgent(ctx, cluster); err != nil {
			return p, err
		}
	}
	if err := p.remove(ctx); err != nil {
		return p, err
	}
	if err := cluster.Apply(ctx, p.object(spec.Run)); err != nil {
		return p, fmt.Errorf("start the client: %w", err)
	}
	return p, p.awaitReady(ctx)
}

func (p *pod) object(run string) *unstructured.Unstructured {
	field := func(path string) map[string]any {
		return map[string]any{"fieldRef": map[string]any{"fieldPath": path}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.ref.APIVersion,
		"kind":       p.ref.Kind,
		"metadata": map[string]any{
			"name": p.ref.Name, "namespace": p.ref.Namespace,
			"labels": map[string]any{"app.kubernetes.io/name": "testbed-load", RunLabel: run},
		},
		"spec": map[string]any{
			"restartPolicy":                 "Never",
			"terminationGracePeriodSeconds": int64(1),
			"automountServiceAccountToken":  false,
			"enableServiceLinks":            false,
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
				// Probes end once the pod has started, so that none falls into
				// a measurement.
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
	}}
}

func (p *pod) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, podPatience, fmt.Errorf("not ready within %s", podPatience))
	defer cancel()
	state := ""
	object, err := p.cluster.Wait(ctx, p.ref, "ready", func(object *unstructured.Unstructured) (bool, string) {
		state = workload.State(object)
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, condition := range conditions {
			if c, ok := condition.(map[string]any); ok && c["type"] == "Ready" && c["status"] == "True" {
				return true, ""
			}
		}
		return false, state
	})
	if err != nil {
		return fmt.Errorf("start the client: %w%s", err, p.lastWords())
	}
	p.node, _, _ = unstructured.NestedString(object.Object, "spec", "nodeName")
	return nil
}

// lastWords returns the end of the pod's log, if there is one.
func (p *pod) lastWords() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	log, err := p.cluster.Logs(ctx, p.ref.Namespace, p.ref.Name, "load", 10)
	if err != nil || len(log) == 0 {
		return ""
	}
	return "; its last log lines:\n" + string(log)
}

// load returns the client of the generator in the pod.
func (p *pod) load() load.Client {
	url, client := p.cluster.PodProxy(p.ref.Namespace, p.ref.Name, podPort)
	return load.Client{URL: url, HTTP: client}
}

// remove removes the pod and waits until it is gone.
func (p *pod) remove(ctx context.Context) error {
	if err := p.cluster.Delete(ctx, p.ref); err != nil {
		return fmt.Errorf("remove the client: %w", err)
	}
	return nil
}
