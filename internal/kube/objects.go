package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// FieldManager is the name under which the provider owns fields.
const FieldManager = "testbed"

// pollInterval is between two looks at a state that is waited for.
const pollInterval = 300 * time.Millisecond

// Apply makes the objects exist with the given fields, by server-side apply;
// fields that others own are taken over. Namespaces and definitions of kinds
// go first, the others in the given order. What is refused because a kind, a
// namespace or a webhook is not there yet is tried again until ctx ends.
func (c *Client) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	for _, object := range sorted {
		if err := c.apply(ctx, object); err != nil {
			return fmt.Errorf("apply %s to %s: %w", RefOf(object), c.url, err)
		}
	}
	return nil
}

// Define makes kinds known to the cluster and waits until the API server serves
// them.
func (c *Client) Define(ctx context.Context, definitions ...*unstructured.Unstructured) error {
	if err := c.Apply(ctx, definitions...); err != nil {
		return err
	}
	for _, definition := range definitions {
		_, err := c.Wait(ctx, RefOf(definition), "established", func(object *unstructured.Unstructured) (bool, string) {
			established := ConditionOf(object, "Established")
			return established.True(), "the API server has not taken it up: " + established.Said()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return 0
	}
	return 1
}

func (c *Client) apply(ctx context.Context, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	object.SetManagedFields(nil) // refused by server-side apply
	object.SetResourceVersion("")
	for {
		resource, err := c.resource(ctx, RefOf(object))
		if err == nil {
			_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
			err = classify(err)
		}
		if err == nil || !absent(err) && !transient(err) {
			return err
		}
		if ended := pause(ctx); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// pause waits for the next look at a state and returns why ctx ended, if it
// did.
func pause(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Get returns an object. One that is not there, or whose kind the cluster
// does not know, is an fs.ErrNotExist.
func (c *Client) Get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	object, err := c.get(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("get %s of %s: %w", ref, c.url, err)
	}
	return object, nil
}

func (c *Client) get(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	resource, err := c.resource(ctx, ref)
	if err != nil {
		return nil, err
	}
	object, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, classify(err)
	}
	return object, nil
}

// List returns the objects of a kind in a namespace, or in all of them when it
// is empty. A kind that the cluster does not know is an fs.ErrNotExist.
func (c *Client) List(ctx context.Context, apiVersion, kind, namespace, labelSelector string) ([]unstructured.Unstructured, error) {
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("list %s of %s: %w", kind, c.url, err)
	}
	found, err := c.kind(ctx, group.WithKind(kind))
	if err != nil {
		return nil, fmt.Errorf("list %s of %s: %w", kind, c.url, err)
	}
	list, err := c.dynamic.Resource(found.resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: labelSelector})
	if err != nil {
		return nil, fmt.Errorf("list %s of %s: %w", kind, c.url, classify(err))
	}
	return list.Items, nil
}

// Delete removes the objects with all that depends on them and waits until
// they are gone. The deletions run side by side, so what must go in an order
// takes several calls. An absent object is no error; one that somebody makes
// again meanwhile, as controllers do who have not heard of the deletion yet, is
// deleted again.
func (c *Client) Delete(ctx context.Context, refs ...Ref) error {
	for _, ref := range refs {
		if err := c.startDelete(ctx, ref); err != nil {
			return fmt.Errorf("delete %s of %s: %w", ref, c.url, err)
		}
	}
	for _, ref := range refs {
		if err := c.awaitGone(ctx, ref); err != nil {
			return fmt.Errorf("delete %s of %s: %w", ref, c.url, err)
		}
	}
	return nil
}

func (c *Client) startDelete(ctx context.Context, ref Ref) error {
	foreground := metav1.DeletePropagationForeground
	for {
		resource, err := c.resource(ctx, ref)
		if err == nil {
			err = classify(resource.Delete(ctx, ref.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
		}
		switch {
		case absent(err):
			return nil
		case err == nil || errors.Is(err, host.ErrUnreachable) || !transient(err):
			return err
		}
		if ended := pause(ctx); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

func (c *Client) awaitGone(ctx context.Context, ref Ref) error {
	for {
		object, err := c.get(ctx, ref)
		switch {
		case absent(err):
			return nil
		case err != nil && (errors.Is(err, host.ErrUnreachable) || !transient(err)):
			return err
		case err == nil && object.GetDeletionTimestamp() == nil:
			if err := c.startDelete(ctx, ref); err != nil {
				return err
			}
		}
		if ended := pause(ctx); ended != nil {
			why := "it is still there"
			if object != nil && len(object.GetFinalizers()) > 0 {
				why += ", held by the finalizers " + strings.Join(object.GetFinalizers(), ", ")
			}
			return fmt.Errorf("%s: %w", why, ended)
		}
	}
}

// Wait polls an object until done says so and returns it as it is then. The
// condition, for example "Available", and what done said last are part of the
// error when ctx ends first.
func (c *Client) Wait(ctx context.Context, ref Ref, condition string, done func(*unstructured.Unstructured) (ok bool, why string)) (*unstructured.Unstructured, error) {
	var last error
	for {
		object, err := c.get(ctx, ref)
		switch {
		case err == nil:
			ok, why := done(object)
			if ok {
				return object, nil
			}
			last = errors.New(why)
		case absent(err):
			last = errors.New("it does not exist")
		case transient(err):
			// The request that ctx cuts off says less than the one before.
			if last == nil || ctx.Err() == nil {
				last = err
			}
		case ctx.Err() == nil:
			return nil, fmt.Errorf("wait for %s of %s to be %s: %w", ref, c.url, condition, err)
		}
		if ended := pause(ctx); ended != nil {
			if last == nil {
				last = errors.New("it was not seen")
			}
			return nil, fmt.Errorf("wait for %s of %s to be %s: %w: %w", ref, c.url, condition, ended, last)
		}
	}
}

// Logs returns the last lines that a container of a pod wrote.
func (c *Client) Logs(ctx context.Context, namespace, pod, container string, lines int) ([]byte, error) {
	request := c.rest.Get().AbsPath("/api/v1/namespaces", namespace, "pods", pod, "log").Param("tailLines", strconv.Itoa(lines))
	if container != "" {
		request.Param("container", container)
	}
	content, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of pod %s/%s of %s: %w", namespace, pod, c.url, classify(err))
	}
	return content, nil
}

// PodProxy returns the base URL of a port of a pod and the client that reaches
// it through the API server. Requests are bounded by their context only.
func (c *Client) PodProxy(namespace, pod string, port int) (baseURL string, client *http.Client) {
	return c.base.JoinPath("/api/v1/namespaces", namespace, "pods", fmt.Sprintf("%s:%d", pod, port), "proxy").String(), c.http
}
