package ingress

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// balancer is where Knative tells callers that the ingress is. Knative itself
// uses the address, so that a function's Service is a plain one and not an
// alias, which some fabrics cannot follow.
type balancer struct {
	address string
	service string // DNS name inside the cluster
}

func (b balancer) status() map[string]any {
	return map[string]any{"ingress": []any{map[string]any{"ip": b.address, "domainInternal": b.service}}}
}

// report writes the status of a KIngress that is routed as it is now, or for
// which the endpoints of a Service are lacking.
func (c *controller) report(ctx context.Context, object *unstructured.Unstructured, lacking string) error {
	before, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	now := metav1.Now().UTC().Format(time.RFC3339)
	var conditions []any
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured", "Ready"} {
		condition := map[string]any{"type": kind, "status": "True", "lastTransitionTime": now}
		if lacking != "" && kind != "NetworkConfigured" {
			condition["status"], condition["reason"] = "Unknown", "NoEndpoints"
			condition["message"] = "Service " + lacking + " has no pod that is ready."
		}
		for _, entry := range before {
			if old, _ := entry.(map[string]any); old["type"] == kind && old["status"] == condition["status"] {
				condition["lastTransitionTime"] = old["lastTransitionTime"]
			}
		}
		conditions = append(conditions, condition)
	}
	next := object.DeepCopy()
	next.Object["status"] = map[string]any{
		"observedGeneration":  object.GetGeneration(),
		"conditions":          conditions,
		"publicLoadBalancer":  c.public.status(),
		"privateLoadBalancer": c.private.status(),
	}
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

// reported tells whether a KIngress was said to be ready as it is now.
func reported(object *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if condition, _ := entry.(map[string]any); condition["type"] == "Ready" {
			return condition["status"] == "True" && observed == object.GetGeneration()
		}
	}
	return false
}
