package function

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// explainTime bounds the questions that are asked after a wait has ended.
const explainTime = 10 * time.Second

// Names and ports of Knative.
const (
	serving = "serving.knative.dev"
	// knativePort is that of every Service of a Knative function.
	knativePort = 80
	// podPort is where the queue-proxy of a pod takes HTTP/1.1.
	podPort = 8012
)

// LongestKnativeName is how long the name of a Knative function may be, so that
// the Service of its revisions' pods is named after it.
const LongestKnativeName = 63 - len("-00001-private")

// ReservedPort tells whether the port of a container is one that the queue-proxy
// beside it listens on.
func ReservedPort(port int) bool {
	return slices.Contains([]int{8008, podPort, 8013, 8022, 9090, 9091}, port)
}

// ReservedVariable tells whether Knative itself sets an environment variable.
func ReservedVariable(name string) bool {
	return slices.Contains([]string{"PORT", "K_SERVICE", "K_CONFIGURATION", "K_REVISION"}, name)
}

// Scale is how many pods a Knative function has.
type Scale struct {
	Min     int // 0 lets the last pod go when nobody calls
	Max     int // 0 is unlimited
	Initial int // pods that a new revision starts with

	Concurrency         int  // requests at once in a pod; 0 is unlimited
	TargetBurstCapacity *int // the cluster's setting when nil
}

// Routes is where a Knative function is reached, besides its pods.
type Routes struct {
	Host           string // that callers outside the cluster ask the ingress for
	Revision       string // that answers now
	PrivateService string // DNS name of the Service of the revision's pods
}

func knativeRef(namespace, name string) kube.Ref {
	return kube.Ref{APIVersion: serving + "/v1", Kind: "Service", Namespace: namespace, Name: name}
}

// podsRef is the Service that leads callers outside the cluster to the pods,
// past ingress and activator.
func podsRef(namespace, name string) kube.Ref { return serviceRef(namespace, name+"-pods") }

// applyKnative makes the function run as a Knative service.
func applyKnative(ctx context.Context, cluster *kube.Client, spec Spec, image string) error {
	if _, err := cluster.Get(ctx, kube.Ref{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "services." + serving}); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cluster %s has no Knative; declare a testbed_knative and let the function depend on it", cluster.URL())
		}
		return err
	}
	if err := cluster.Apply(ctx, spec.knativeService(image), spec.podsService()); err != nil {
		return explainWebhook(ctx, cluster, err)
	}
	waiting, say, end := workload.Patient(ctx)
	defer end()
	_, err := cluster.Wait(waiting, knativeRef(spec.Namespace, spec.Name), "ready", func(object *unstructured.Unstructured) (bool, string) {
		ok, why := knativeReady(object)
		if !ok {
			say(knativeFailure(waiting, cluster, object, spec.Image))
		}
		return ok, why
	})
	if err != nil {
		return explainKnative(ctx, cluster, spec, err)
	}
	if spec.Scale.Min == 0 {
		return nil // its pods may be gone already
	}
	return awaitPort(ctx, cluster, spec)
}

// explainKnative adds what the revision's pods lack.
func explainKnative(ctx context.Context, cluster *kube.Client, spec Spec, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	object, getErr := cluster.Get(patient, knativeRef(spec.Namespace, spec.Name))
	if getErr != nil {
		return err
	}
	revision := newestRevision(object)
	if revision == "" {
		return err
	}
	return workload.Explain(ctx, cluster, spec.Namespace, revision+"-deployment", err)
}

// knativeReady reports whether a Knative object is ready as it is specified
// now, and if not, what it says.
func knativeReady(object *unstructured.Unstructured) (ok bool, why string) {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if observed < object.GetGeneration() {
		return false, "its latest change is not taken up yet"
	}
	switch ready := kube.ConditionOf(object, "Ready"); {
	case ready.True():
		return true, ""
	case ready.Status == "":
		return false, "it says nothing about itself yet"
	default:
		return false, "it is not ready: " + ready.Said()
	}
}

// containerMissing is the reason by which a revision says that its image is in
// no registry that Knative can ask.
const containerMissing = "ContainerMissing"

// knativeFailure says what has gone wrong with the newest revision of a Knative
// service that is not ready, nil when it is on its way. Knative itself says
// that pods lack their image only after many minutes.
func knativeFailure(ctx context.Context, cluster *kube.Client, object *unstructured.Unstructured, image string) error {
	name := newestRevision(object)
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if name == "" || observed < object.GetGeneration() {
		return nil
	}
	revision, err := cluster.Get(ctx, kube.Ref{APIVersion: serving + "/v1", Kind: "Revision", Namespace: object.GetNamespace(), Name: name})
	if err != nil {
		return nil //nolint:nilerr // the next look finds it out
	}
	ready := kube.ConditionOf(revision, "Ready")
	switch {
	case ready.Status == "False" && ready.Reason == containerMissing:
		return &workload.ImageError{Image: image, Reason: ready.Reason, Message: ready.Message}
	case ready.Status == "False":
		return errors.New(ready.Said())
	}
	pods, err := cluster.List(ctx, "v1", "Pod", object.GetNamespace(), serving+"/revision="+name)
	if err != nil {
		return nil //nolint:nilerr // the next look finds it out
	}
	return workload.LackingImage(pods, func(string) bool { return true })
}

// newestRevision names the revision of a Knative service as it is specified
// last.
func newestRevision(object *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(object.Object, "status", "latestCreatedRevisionName")
	return name
}

// explainWebhook adds why Knative's webhook does not answer, without which the
// API server takes no function.
func explainWebhook(ctx context.Context, cluster *kube.Client, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	const namespace, name = "knative-serving", "webhook"
	webhook, getErr := cluster.Get(patient, workload.Ref(namespace, name))
	if getErr != nil && !errors.Is(getErr, fs.ErrNotExist) {
		return err
	}
	why := "it is gone"
	if getErr == nil {
		var ok bool
		if ok, why = workload.Up(webhook); ok {
			return err
		}
	}
	err = fmt.Errorf("the webhook of Knative, Deployment %s/%s, is not up: %s: %w", namespace, name, why, err)
	return workload.Explain(ctx, cluster, namespace, name, err)
}

func (s Spec) knativeService(image string) *unstructured.Unstructured {
	container := s.container(image)
	// Knative names and probes the port itself.
	container["ports"] = []any{map[string]any{"containerPort": int64(s.Port), "protocol": "TCP"}}
	container["name"] = "user-container"
	if probe, ok := container["readinessProbe"].(map[string]any); ok {
		delete(probe, "periodSeconds")
	}
	const scaling = "autoscaling.knative.dev/"
	annotations := map[string]any{
		scaling + "min-scale":     strconv.Itoa(s.Scale.Min),
		scaling + "max-scale":     strconv.Itoa(s.Scale.Max),
		scaling + "initial-scale": strconv.Itoa(s.Scale.Initial),
		// Without it the activator and the queue-proxy end the body of a request
		// as soon as the answer begins, and now and then cut the answer off.
		"features.knative.dev/http-full-duplex": "Enabled",
	}
	if s.Scale.TargetBurstCapacity != nil {
		annotations[scaling+"target-burst-capacity"] = strconv.Itoa(*s.Scale.TargetBurstCapacity)
	}
	meta := map[string]any{"name": s.Name, "namespace": s.Namespace, "labels": s.labels()}
	if s.Builtin != "" {
		meta["annotations"] = map[string]any{builtinAnnotation: s.Builtin}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": serving + "/v1",
		"kind":       "Service",
		"metadata":   meta,
		"spec": map[string]any{
			"template": map[string]any{
				"metadata": map[string]any{"labels": s.labels(), "annotations": annotations},
				"spec": map[string]any{
					"containerConcurrency": int64(s.Scale.Concurrency),
					"enableServiceLinks":   false,
					"containers":           []any{container},
				},
			},
		},
	}}
}

func (s Spec) podsService() *unstructured.Unstructured {
	port := map[string]any{"name": "http", "port": int64(knativePort), "targetPort": int64(podPort), "protocol": "TCP"}
	if s.NodePort != 0 {
		port["nodePort"] = int64(s.NodePort)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   map[string]any{"name": s.Name + "-pods", "namespace": s.Namespace, "labels": s.labels()},
		"spec": map[string]any{
			"type":     "NodePort",
			"selector": map[string]any{serving + "/service": s.Name},
			"ports":    []any{port},
		},
	}}
}

// observeKnative returns a function that Knative runs, or an error that wraps
// fs.ErrNotExist.
func observeKnative(ctx context.Context, cluster *kube.Client, namespace, name string) (Status, error) {
	object, err := cluster.Get(ctx, knativeRef(namespace, name))
	if err != nil {
		return Status{}, err
	}
	var status Status
	if status.Spec, err = parseKnative(object); err != nil {
		return Status{}, fmt.Errorf("read function %s/%s of %s: %w", namespace, name, cluster.URL(), err)
	}
	routes := &Routes{Host: hostOfURL(object)}
	routes.Revision, _, _ = unstructured.NestedString(object.Object, "status", "latestReadyRevisionName")
	if routes.Revision != "" {
		private := routes.Revision + "-private"
		routes.PrivateService = private + "." + namespace + ".svc.cluster.local"
		if service, err := cluster.Get(ctx, serviceRef(namespace, private)); err == nil {
			status.ClusterIP, _, _ = unstructured.NestedString(service.Object, "spec", "clusterIP")
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Status{}, err
		}
	}
	status.Routes = routes
	pods, err := cluster.Get(ctx, podsRef(namespace, name))
	if err == nil {
		service := Status{}
		service.readService(pods)
		status.Spec.NodePort = service.Spec.NodePort
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Status{}, err
	}
	status.NodeIP, err = workload.NodeAddress(ctx, cluster)
	return status, err
}

// hostOfURL returns the host that the ingress routes to the function.
func hostOfURL(object *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(object.Object, "status", "url")
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return parsed.Host
}

func parseKnative(object *unstructured.Unstructured) (Spec, error) {
	template, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
	containers, _, _ := unstructured.NestedSlice(template, "spec", "containers")
	if len(containers) == 0 {
		return Spec{}, errors.New("its Knative service has no container")
	}
	container, _ := containers[0].(map[string]any)
	spec := Spec{
		Namespace: object.GetNamespace(),
		Name:      object.GetName(),
		Builtin:   object.GetAnnotations()[builtinAnnotation],
		Runtime:   Knative,
		Scale:     &Scale{},
	}
	spec.readContainer(container)
	ports, _, _ := unstructured.NestedSlice(container, "ports")
	if len(ports) > 0 {
		port, _ := ports[0].(map[string]any)
		number, _ := port["containerPort"].(int64)
		spec.Port = int(number)
	}
	concurrency, _, _ := unstructured.NestedInt64(template, "spec", "containerConcurrency")
	spec.Scale.Concurrency = int(concurrency)
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	const scaling = "autoscaling.knative.dev/"
	for key, into := range map[string]*int{"min-scale": &spec.Scale.Min, "max-scale": &spec.Scale.Max, "initial-scale": &spec.Scale.Initial} {
		if text, ok := annotations[scaling+key]; ok {
			number, err := strconv.Atoi(text)
			if err != nil {
				return Spec{}, fmt.Errorf("read its annotation %s: %w", key, err)
			}
			*into = number
		}
	}
	if text, ok := annotations[scaling+"target-burst-capacity"]; ok {
		number, err := strconv.Atoi(text)
		if err != nil {
			return Spec{}, fmt.Errorf("read its target burst capacity: %w", err)
		}
		spec.Scale.TargetBurstCapacity = &number
	}
	return spec, nil
}
