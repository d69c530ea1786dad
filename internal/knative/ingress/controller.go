package ingress

import (
	"context"
	"encoding/json"
	"log"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

var (
	ingresses      = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "ingresses"}
	services       = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// controller keeps a proxy's table as the cluster wants it.
type controller struct {
	client          dynamic.Interface
	proxy           *proxy
	class           string
	public, private balancer

	objects map[schema.GroupVersionResource]map[string]*unstructured.Unstructured
	settled map[string]version // by KIngress
}

// version is a KIngress as it was when all its services had endpoints. It stays
// in place while those of a later one are awaited, so that no request is lost.
type version struct {
	spec spec
	hash string
}

// event is a change of an object, or the list of all of them.
type event struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
	gone     bool
	all      []unstructured.Unstructured // in place of one object
}

// run follows the cluster until ctx ends.
func (c *controller) run(ctx context.Context) {
	c.objects = map[schema.GroupVersionResource]map[string]*unstructured.Unstructured{}
	c.settled = map[string]version{}
	events := make(chan event)
	followed := []schema.GroupVersionResource{services, endpointSlices, ingresses}
	for _, resource := range followed {
		go c.follow(ctx, resource, events)
	}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			c.take(e)
		case <-again:
		}
		// What else has come already is taken in the same step.
		for more := true; more; {
			select {
			case e := <-events:
				c.take(e)
			default:
				more = false
			}
		}
		again = nil
		if len(c.objects) == len(followed) && !c.route(ctx) {
			again = time.After(retryInterval)
		}
	}
}

func key(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

func (c *controller) take(e event) {
	if e.object == nil {
		c.objects[e.resource] = map[string]*unstructured.Unstructured{}
		for i := range e.all {
			c.objects[e.resource][key(&e.all[i])] = &e.all[i]
		}
		return
	}
	if e.gone {
		delete(c.objects[e.resource], key(e.object))
		return
	}
	c.objects[e.resource][key(e.object)] = e.object
}

// retryInterval is between two attempts to follow a resource.
const retryInterval = time.Second

// follow sends all objects of a resource and then each change, again and again.
func (c *controller) follow(ctx context.Context, resource schema.GroupVersionResource, events chan<- event) {
	for ctx.Err() == nil {
		if err := c.followOnce(ctx, resource, events); err != nil && ctx.Err() == nil {
			log.Printf("follow %s: %v", resource.Resource, err)
			select {
			case <-time.After(retryInterval):
			case <-ctx.Done():
			}
		}
	}
}

func (c *controller) followOnce(ctx context.Context, resource schema.GroupVersionResource, events chan<- event) error {
	send := func(e event) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	list, err := c.client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	send(event{resource: resource, all: list.Items})
	changes, err := c.client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		object, ok := change.Object.(*unstructured.Unstructured)
		if !ok || change.Type == watch.Error {
			return apierrors.FromObject(change.Object)
		}
		send(event{resource: resource, object: object, gone: change.Type == watch.Deleted})
	}
	return nil
}

// route puts a new table in place and then tells Knative which KIngresses are
// routed now. It returns false when it could not tell.
func (c *controller) route(ctx context.Context) bool {
	next := &table{public: map[string][]route{}, private: map[string][]route{}}
	resolver := c.resolver()
	settled := map[string]version{}
	lacking := map[string]string{} // what is awaited, by KIngress
	for _, name := range sortedByAge(c.objects[ingresses]) {
		object := c.objects[ingresses][name]
		if object.GetAnnotations()[classAnnotation] != c.class || object.GetDeletionTimestamp() != nil {
			continue
		}
		wanted, err := parse(object)
		if err != nil {
			log.Printf("read ingress %s: %v", name, err)
			continue
		}
		before, known := c.settled[name]
		lacking[name] = resolver.lacking(wanted.spec)
		switch {
		case lacking[name] == "":
			settled[name] = wanted
		case known && before.hash != wanted.hash:
			settled[name], wanted = before, before
		case known || reported(object):
			// Its pods have gone since, which does not undo that it is routed.
			settled[name], lacking[name] = wanted, ""
		}
		next.add(wanted.spec, wanted.hash, resolver.resolve)
	}
	next.order()
	c.proxy.table.Store(next)
	c.proxy.backends.keep(next.endpoints())
	c.settled = settled
	told := true
	for name, service := range lacking {
		err := c.report(ctx, c.objects[ingresses][name], service)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			log.Printf("report ingress %s: %v", name, err)
			told = false
		}
	}
	return told
}

func parse(object *unstructured.Unstructured) (version, error) {
	var v version
	content, err := json.Marshal(object.Object["spec"])
	if err == nil {
		err = json.Unmarshal(content, &v.spec)
	}
	if err == nil {
		v.hash, err = v.spec.hash(object.GetNamespace(), object.GetName())
	}
	return v, err
}

// sortedByAge returns the keys of objects, the oldest object first, so that a
// host in dispute stays with the one that had it.
func sortedByAge(objects map[string]*unstructured.Unstructured) []string {
	keys := make([]string, 0, len(objects))
	for name := range objects {
		keys = append(keys, name)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if order := objects[a].GetCreationTimestamp().Compare(objects[b].GetCreationTimestamp().Time); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	return keys
}
