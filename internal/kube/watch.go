package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Change is an object that was made, changed or removed.
type Change struct {
	Seen   time.Time // when the API server told, by the clock of this machine
	Object *unstructured.Unstructured
	Gone   bool  // it was removed, and this is how it was last
	Err    error // why there are no more changes; there is no object then
}

// Watch returns the objects of a kind in a namespace as they are, and then
// every change of them, until ctx ends. Changes have to be taken at once, since
// those that wait are seen later. The last one has the reason when the API server
// ends the watch before, as it does after half an hour.
func (c *Client) Watch(ctx context.Context, apiVersion, kind, namespace, labelSelector string) ([]unstructured.Unstructured, <-chan Change, error) {
	fail := func(err error) ([]unstructured.Unstructured, <-chan Change, error) {
		return nil, nil, fmt.Errorf("watch %s of %s: %w", kind, c.url, err)
	}
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return fail(err)
	}
	found, err := c.kind(ctx, group.WithKind(kind))
	if err != nil {
		return fail(err)
	}
	now, err := c.dynamic.Resource(found.resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelSelector})
	if err != nil {
		return fail(classify(err))
	}
	// A watch has no end, so it must not have the time limit of requests.
	watcher, err := c.watching.Resource(found.resource).Namespace(namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: labelSelector, ResourceVersion: now.GetResourceVersion(),
	})
	if err != nil {
		return fail(classify(err))
	}
	changes := make(chan Change)
	go func() {
		defer close(changes)
		defer watcher.Stop()
		err := handOver(ctx, watcher, changes)
		if ctx.Err() != nil {
			return // nobody wants to know how it ended
		}
		select {
		case changes <- Change{Seen: time.Now(), Err: fmt.Errorf("watch %s of %s: %w", kind, c.url, err)}:
		case <-ctx.Done():
		}
	}()
	return now.Items, changes, nil
}

// handOver hands over every change until the watch or ctx ends, and returns why.
func handOver(ctx context.Context, watcher watch.Interface, changes chan<- Change) error {
	for event := range watcher.ResultChan() {
		change := Change{Seen: time.Now(), Gone: event.Type == watch.Deleted}
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Bookmark {
			continue
		}
		change.Object = object
		select {
		case changes <- change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the API server ended it")
}
