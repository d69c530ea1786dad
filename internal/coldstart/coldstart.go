// Package coldstart waits until a Knative function has no pod, and tells when
// the next one came up.
//
// Kubernetes dates what happens to a pod to the second, and its kubelet looks
// for containers that have started once a second. So what is told here are
// arrivals: the moment at which the API server told of a change, for the start
// of containers that of the event which the kubelet sends from the spot. That is
// also when Knative, which watches the same objects, can know of it.
package coldstart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Function names a Knative function of a cluster.
type Function struct{ Namespace, Name string }

func (f Function) String() string { return f.Namespace + "/" + f.Name }

// Stages are when a pod came up, by the clock of this machine. What was not
// seen is zero.
type Stages struct {
	Pod       string    // its name, "" when there was none
	Created   time.Time // the pod exists, without a node
	Scheduled time.Time // it has a node
	Started   time.Time // the last of its containers runs
	Ready     time.Time // Kubernetes lets it have requests
}

// Watch follows the pods of one function.
type Watch struct {
	function Function
	stop     context.CancelFunc
	ended    chan struct{} // when nothing is taken in any more

	mu      sync.Mutex
	changed chan struct{}        // closed at the next change
	alive   map[types.UID]string // names of the pods that get requests, now or later
	next    *pod                 // the first one that came since there was none
	broken  error
}

// Start begins to watch a function, until it is closed or ctx ends. It is an
// error when the function never loses its last pod.
func Start(ctx context.Context, cluster *kube.Client, f Function) (*Watch, error) {
	if err := check(ctx, cluster, f); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	// Events come first, so that none of a pod is missed that is seen.
	_, events, err := cluster.Watch(ctx, "v1", "Event", f.Namespace, "")
	var pods []unstructured.Unstructured
	var changes <-chan kube.Change
	if err == nil {
		pods, changes, err = cluster.Watch(ctx, "v1", "Pod", f.Namespace, serviceLabel+"="+f.Name)
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("watch function %s: %w", f, err)
	}
	w := newWatch(f, pods)
	w.stop = stop
	go w.follow(ctx, changes, events)
	return w, nil
}

func newWatch(f Function, pods []unstructured.Unstructured) *Watch {
	w := &Watch{function: f, ended: make(chan struct{}), changed: make(chan struct{}), alive: map[types.UID]string{}}
	for i := range pods {
		if lives(&pods[i]) {
			w.alive[pods[i].GetUID()] = pods[i].GetName()
		}
	}
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.stop()
	<-w.ended
}

func (w *Watch) follow(ctx context.Context, changes, events <-chan kube.Change) {
	defer close(w.ended)
	for {
		select {
		case change, ok := <-changes:
			if !ok {
				return
			}
			w.take(change, w.takePod)
		case change, ok := <-events:
			if !ok {
				return
			}
			w.take(change, w.takeEvent)
		case <-ctx.Done():
			return
		}
	}
}

// take takes in a change and tells those who wait for one.
func (w *Watch) take(change kube.Change, how func(kube.Change)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if change.Err != nil {
		w.broken = change.Err
	} else {
		how(change)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// until waits until done, which is called under the lock, says so.
func (w *Watch) until(ctx context.Context, done func() bool) error {
	for {
		w.mu.Lock()
		ok, broken, changed := done(), w.broken, w.changed
		w.mu.Unlock()
		switch {
		case ok:
			return nil
		case broken != nil:
			return broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// AwaitIdle waits until the function has no pod but such as are being removed,
// which get no requests any more.
func (w *Watch) AwaitIdle(ctx context.Context) error {
	var left []string
	err := w.until(ctx, func() bool {
		left = slices.Sorted(maps.Values(w.alive))
		if len(left) == 0 {
			w.next = nil
		}
		return len(left) == 0
	})
	if err != nil {
		return &BusyError{w.function, left, err}
	}
	return nil
}

// BusyError says that a function does not lose its pods.
type BusyError struct {
	Function Function
	Pods     []string
	cause    error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("function %s still has the pod %s: %v; a function loses its last pod when nobody has called it for the stable_window and the scale_to_zero_grace_period of its testbed_knative", e.Function, strings.Join(e.Pods, ", "), e.cause)
}

func (e *BusyError) Unwrap() error { return e.cause }

// Stages returns what was seen of the pod that came since the function was
// idle. It waits until that pod is ready, or ctx ends; for no pod it does not
// wait.
func (w *Watch) Stages(ctx context.Context) (Stages, error) {
	var stages Stages
	err := w.until(ctx, func() bool {
		if w.next == nil {
			return true
		}
		stages = w.next.Stages
		return !stages.Started.IsZero() && !stages.Ready.IsZero()
	})
	if ctx.Err() != nil {
		return stages, nil //nolint:nilerr // as far as it came
	}
	return stages, err
}

// pod is one that comes up.
type pod struct {
	Stages
	uid        types.UID
	containers int             // in its specification
	started    map[string]bool // of them, as the kubelet's events name them
}

// takePod takes in a change of a pod.
func (w *Watch) takePod(change kube.Change) {
	object := change.Object
	if change.Gone || !lives(object) {
		delete(w.alive, object.GetUID())
	} else {
		if len(w.alive) == 0 && w.next == nil {
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
			w.next = &pod{uid: object.GetUID(), containers: len(containers), started: map[string]bool{}}
			w.next.Pod, w.next.Created = object.GetName(), change.Seen
		}
		w.alive[object.GetUID()] = object.GetName()
	}
	if w.next == nil || w.next.uid != object.GetUID() {
		return
	}
	for _, stage := range []struct {
		at      *time.Time
		reached bool
	}{
		{&w.next.Scheduled, kube.ConditionOf(object, "PodScheduled").True()},
		{&w.next.Started, running(object)}, // in case an event was dropped
		{&w.next.Ready, kube.ConditionOf(object, "Ready").True()},
	} {
		if stage.reached && stage.at.IsZero() {
			*stage.at = change.Seen
		}
	}
}

// takeEvent takes in what the kubelet does with a container.
func (w *Watch) takeEvent(change kube.Change) {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(change.Object.Object, path...)
		return value
	}
	if w.next == nil || change.Gone || text("reason") != "Started" || types.UID(text("involvedObject", "uid")) != w.next.uid {
		return
	}
	field := text("involvedObject", "fieldPath")
	if !strings.HasPrefix(field, "spec.containers{") {
		return // one that has to end before the others start
	}
	w.next.started[field] = true
	if len(w.next.started) == w.next.containers && w.next.Started.IsZero() {
		w.next.Started = change.Seen
	}
}

// lives tells whether a pod gets requests, or will.
func lives(object *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return object.GetDeletionTimestamp() == nil && phase != "Failed" && phase != "Succeeded"
}

// running tells whether all containers of a pod run.
func running(object *unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
	statuses, _, _ := unstructured.NestedSlice(object.Object, "status", "containerStatuses")
	for _, entry := range statuses {
		status, _ := entry.(map[string]any)
		if _, ok, _ := unstructured.NestedMap(status, "state", "running"); !ok {
			return false
		}
	}
	return len(statuses) > 0 && len(statuses) == len(containers)
}

const (
	serviceLabel = "serving.knative.dev/service"
	minScale     = "autoscaling.knative.dev/min-scale"
)

// check finds out whether the function ever loses its last pod.
func check(ctx context.Context, cluster *kube.Client, f Function) error {
	object, err := cluster.Get(ctx, kube.Ref{APIVersion: "serving.knative.dev/v1", Kind: "Service", Namespace: f.Namespace, Name: f.Name})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cluster %s has no Knative function %s; make it with runtime = \"knative\", and apply again if it was removed by hand", cluster.URL(), f)
	}
	if err != nil {
		return err
	}
	annotations, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
	if least, _ := strconv.Atoi(annotations[minScale]); least > 0 {
		return fmt.Errorf("function %s always keeps %d pods; set scale = { min = 0 } of its testbed_function", f, least)
	}
	settings, err := cluster.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "knative-serving", Name: "config-autoscaler"})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a Knative of another make, which has its own settings
	}
	if err != nil {
		return err
	}
	if allowed, _, _ := unstructured.NestedString(settings.Object, "data", "enable-scale-to-zero"); strings.EqualFold(allowed, "false") {
		return fmt.Errorf("function %s keeps its last pod, since Knative of cluster %s does not scale to zero; set scale_to_zero of its testbed_knative to true", f, cluster.URL())
	}
	return nil
}
