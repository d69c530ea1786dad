package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

var (
	ingresses = schema.GroupVersionResource{Group: "networking.internal.knative.dev", Version: "v1alpha1", Resource: "ingresses"}
	services  = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// controller keeps a proxy's table as the cluster wants it.
type controller struct {
	client          dynamic.Interface
	proxy           *proxy
	class           string
	public, private string // addresses that Knative tells callers

	objects map[schema.GroupVersionResource]map[string]*unstructured.Unstructured
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
	events := make(chan event)
	for _, resource := range []schema.GroupVersionResource{services, ingresses} {
		go c.follow(ctx, resource, events)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			c.take(e)
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
		if len(c.objects) == 2 { // both lists are known
			c.route(ctx)
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
// routed now.
func (c *controller) route(ctx context.Context) {
	next := &table{public: map[string][]route{}, private: map[string][]route{}}
	var routed []*unstructured.Unstructured
	for _, name := range sortedByAge(c.objects[ingresses]) {
		object := c.objects[ingresses][name]
		if object.GetAnnotations()[classAnnotation] != c.class || object.GetDeletionTimestamp() != nil {
			continue
		}
		var wanted spec
		content, err := json.Marshal(object.Object["spec"])
		if err == nil {
			err = json.Unmarshal(content, &wanted)
		}
		var hash string
		if err == nil {
			hash, err = wanted.hash(object.GetNamespace(), object.GetName())
		}
		if err != nil {
			log.Printf("read ingress %s: %v", name, err)
			continue
		}
		next.add(wanted, hash, c.resolve)
		routed = append(routed, object)
	}
	next.order()
	c.proxy.table.Store(next)
	for _, object := range routed {
		if err := c.report(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			log.Printf("report ingress %s: %v", key(object), err)
		}
	}
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

// resolve says where a split's requests go. A Service that is not there yet
// has no address, so that connecting fails until it is.
func (c *controller) resolve(s split) target {
	t := target{percent: s.Percent, append: s.AppendHeaders}
	service := c.objects[services][s.Namespace+"/"+s.Name]
	if service == nil {
		return t
	}
	host, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
	if host == "" || host == "None" {
		// Named, the cluster's DNS has the addresses of an external or headless one.
		host, _, _ = unstructured.NestedString(service.Object, "spec", "externalName")
		if host == "" {
			host = s.Name + "." + s.Namespace + ".svc"
		}
	}
	number := int64(s.Port.IntValue())
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, entry := range ports {
		port, _ := entry.(map[string]any)
		name, _ := port["name"].(string)
		listed, _ := port["port"].(int64)
		if name != s.Port.StrVal && listed != number {
			continue
		}
		number = listed
		protocol, _ := port["appProtocol"].(string)
		t.h2c = protocol == "kubernetes.io/h2c" || protocol == "" && (strings.HasPrefix(name, "http2") || strings.HasPrefix(name, "h2c"))
	}
	t.address = net.JoinHostPort(host, strconv.FormatInt(number, 10))
	return t
}

// report writes the status of a KIngress that is routed as it is now.
func (c *controller) report(ctx context.Context, object *unstructured.Unstructured) error {
	next := object.DeepCopy()
	now := metav1.Now().UTC().Format(time.RFC3339)
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	since := map[string]any{}
	for _, entry := range conditions {
		if condition, ok := entry.(map[string]any); ok && condition["status"] == "True" {
			name, _ := condition["type"].(string)
			since[name] = condition["lastTransitionTime"]
		}
	}
	var wanted []any
	for _, name := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		began := since[name]
		if began == nil {
			began = now
		}
		wanted = append(wanted, map[string]any{"type": name, "status": "True", "lastTransitionTime": began})
	}
	balancer := func(address string) any {
		return map[string]any{"ingress": []any{map[string]any{"ip": address}}}
	}
	status := map[string]any{
		"observedGeneration":  object.GetGeneration(),
		"conditions":          wanted,
		"publicLoadBalancer":  balancer(c.public),
		"privateLoadBalancer": balancer(c.private),
	}
	next.Object["status"] = status
	if equality.Semantic.DeepEqual(object.Object["status"], next.Object["status"]) {
		return nil
	}
	updated, err := c.client.Resource(ingresses).Namespace(object.GetNamespace()).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update the status: %w", err)
	}
	c.objects[ingresses][key(updated)] = updated
	return nil
}
