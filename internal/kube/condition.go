package kube

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Condition is what the status of an object says about one side of it. Its
// Status is "True", "False" or "Unknown".
type Condition struct{ Status, Reason, Message string }

// ConditionOf returns a condition of an object, which is zero when its status
// says nothing of that name.
func ConditionOf(object *unstructured.Unstructured, name string) Condition {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] != name {
			continue
		}
		text := func(field string) string {
			value, _ := condition[field].(string)
			return value
		}
		return Condition{Status: text("status"), Reason: text("reason"), Message: text("message")}
	}
	return Condition{}
}

// True tells whether the condition holds.
func (c Condition) True() bool { return c.Status == "True" }

// Said is what the condition says of itself, its reason first.
func (c Condition) Said() string {
	if c.Reason == "" || c.Message == "" {
		return c.Reason + c.Message
	}
	return c.Reason + ": " + c.Message
}
