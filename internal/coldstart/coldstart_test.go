package coldstart

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// object is a pod of two containers, as the API server tells of it.
func object(uid string, conditions ...string) *unstructured.Unstructured {
	var all, statuses []any
	for _, condition := range conditions {
		switch condition {
		case "running":
			for range 2 {
				statuses = append(statuses, map[string]any{"state": map[string]any{"running": map[string]any{}}})
			}
		default:
			all = append(all, map[string]any{"type": condition, "status": "True"})
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "hello-" + uid, "uid": uid},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "user-container"}, map[string]any{"name": "queue-proxy"}}},
		"status":   map[string]any{"phase": "Pending", "conditions": all, "containerStatuses": statuses},
	}}
}

func ending(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-12-01T10:00:00Z"
	return o
}

func event(uid, reason, container string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"reason":         reason,
		"involvedObject": map[string]any{"uid": uid, "fieldPath": "spec.containers{" + container + "}"},
	}}
}

// story feeds a watch.
type story struct {
	*Watch
	start time.Time
}

func newStory(pods ...unstructured.Unstructured) *story {
	return &story{Watch: newWatch(Function{"default", "hello"}, pods), start: time.Unix(1790000000, 0)}
}

func (s *story) at(ms int) time.Time { return s.start.Add(time.Duration(ms) * time.Millisecond) }

func (s *story) pod(ms int, o *unstructured.Unstructured) {
	s.take(kube.Change{Seen: s.at(ms), Object: o}, s.takePod)
}

func (s *story) event(ms int, o *unstructured.Unstructured) {
	s.take(kube.Change{Seen: s.at(ms), Object: o}, s.takeEvent)
}

// soon is a context that leaves no time to wait.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestStages(t *testing.T) {
	s := newStory()
	if err := s.AwaitIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Stages(t.Context()); err != nil || got != (Stages{}) {
		t.Errorf("without a pod: got %+v, %v", got, err)
	}
	s.pod(10, object("a"))
	s.pod(12, object("a", "PodScheduled"))
	s.event(40, event("a", "Created", "user-container"))
	s.event(50, event("a", "Started", "user-container"))
	s.event(55, event("b", "Started", "queue-proxy")) // of another pod
	s.event(60, event("a", "Started", "queue-proxy"))
	s.pod(70, object("b")) // a second one does not matter
	if got, err := s.Stages(soon(t)); err != nil || got.Ready != (time.Time{}) {
		t.Errorf("before it is ready: got %+v, %v", got, err)
	}
	s.pod(900, object("a", "PodScheduled", "running"))
	s.pod(1000, object("a", "PodScheduled", "running", "Ready"))
	want := Stages{Pod: "hello-a", Created: s.at(10), Scheduled: s.at(12), Started: s.at(60), Ready: s.at(1000)}
	if got, err := s.Stages(t.Context()); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// The state of containers tells when an event was dropped.
func TestStagesWithoutEvents(t *testing.T) {
	s := newStory()
	s.pod(10, object("a", "PodScheduled"))
	s.event(50, event("a", "Started", "user-container"))
	s.pod(900, object("a", "PodScheduled", "running", "Ready"))
	if got, err := s.Stages(t.Context()); err != nil || got.Started != s.at(900) || got.Scheduled != s.at(10) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAwaitIdle(t *testing.T) {
	s := newStory(*object("old", "Ready"), *ending(object("older")))
	err := s.AwaitIdle(soon(t))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "default/hello still has the pod hello-old:") {
		t.Errorf("got %v", err)
	}
	done := make(chan error)
	go func() { done <- s.AwaitIdle(t.Context()) }()
	s.pod(5, object("new")) // the autoscaler makes one more
	s.pod(6, ending(object("old")))
	s.take(kube.Change{Seen: s.at(7), Object: object("new"), Gone: true}, s.takePod)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// Only what comes from now on is a cold start.
	s.pod(8, ending(object("old")))
	if got, err := s.Stages(t.Context()); err != nil || got != (Stages{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBrokenWatch(t *testing.T) {
	s := newStory(*object("old"))
	broken := errors.New("too old resource version")
	s.take(kube.Change{Err: broken}, s.takePod)
	if err := s.AwaitIdle(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
