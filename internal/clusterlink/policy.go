package clusterlink

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Values that PolicySpec and Requirement take.
var (
	Actions   = []string{"allow", "deny"}
	Operators = []string{"In", "NotIn", "Exists", "DoesNotExist"}
)

// PolicySpec describes who may call what. It counts at the peer where it is,
// for clients of imports and for services of exports alike; what no policy
// allows is denied.
type PolicySpec struct {
	Namespace, Name string // without namespace it is privileged: for all namespaces, and before the others
	Action          string
	From, To        []Selector
}

// Selector selects clients or services by their attributes. An empty one
// selects all.
type Selector struct {
	Labels       map[string]string
	Requirements []Requirement
}

// Requirement is a condition on one attribute.
type Requirement struct {
	Key, Operator string
	Values        []string
}

func policyRef(namespace, name string) kube.Ref {
	kind := "AccessPolicy"
	if namespace == "" {
		kind = "PrivilegedAccessPolicy"
	}
	return kube.Ref{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
}

func (s PolicySpec) object() *unstructured.Unstructured {
	return object(policyRef(s.Namespace, s.Name), map[string]any{
		"action": s.Action, "from": renderSelectors(s.From), "to": renderSelectors(s.To),
	})
}

func renderSelectors(selectors []Selector) []any {
	rendered := make([]any, 0, len(selectors))
	for _, selector := range selectors {
		workload := map[string]any{}
		if len(selector.Labels) > 0 {
			workload["matchLabels"] = anyMap(selector.Labels)
		}
		if len(selector.Requirements) > 0 {
			expressions := make([]any, 0, len(selector.Requirements))
			for _, requirement := range selector.Requirements {
				expression := map[string]any{"key": requirement.Key, "operator": requirement.Operator}
				if len(requirement.Values) > 0 {
					values := make([]any, 0, len(requirement.Values))
					for _, value := range requirement.Values {
						values = append(values, value)
					}
					expression["values"] = values
				}
				expressions = append(expressions, expression)
			}
			workload["matchExpressions"] = expressions
		}
		rendered = append(rendered, map[string]any{"workloadSelector": workload})
	}
	return rendered
}

func parseSelectors(policy *unstructured.Unstructured, field string) []Selector {
	list, _, _ := unstructured.NestedSlice(policy.Object, "spec", field)
	selectors := make([]Selector, 0, len(list))
	for _, entry := range list {
		e, _ := entry.(map[string]any)
		var selector Selector
		selector.Labels, _, _ = unstructured.NestedStringMap(e, "workloadSelector", "matchLabels")
		expressions, _, _ := unstructured.NestedSlice(e, "workloadSelector", "matchExpressions")
		for _, expression := range expressions {
			x, _ := expression.(map[string]any)
			key, _ := x["key"].(string)
			operator, _ := x["operator"].(string)
			values, _, _ := unstructured.NestedStringSlice(x, "values")
			selector.Requirements = append(selector.Requirements, Requirement{Key: key, Operator: operator, Values: values})
		}
		selectors = append(selectors, selector)
	}
	return selectors
}

// ApplyPolicy puts a policy into the cluster.
func ApplyPolicy(ctx context.Context, cluster *kube.Client, spec PolicySpec) error {
	return cluster.Apply(ctx, spec.object())
}

// ObservePolicy returns a policy, or an error that wraps fs.ErrNotExist.
func ObservePolicy(ctx context.Context, cluster *kube.Client, namespace, name string) (PolicySpec, error) {
	found, err := cluster.Get(ctx, policyRef(namespace, name))
	if err != nil {
		return PolicySpec{}, err
	}
	action, _, _ := unstructured.NestedString(found.Object, "spec", "action")
	return PolicySpec{
		Namespace: namespace, Name: name, Action: action,
		From: parseSelectors(found, "from"), To: parseSelectors(found, "to"),
	}, nil
}

// RemovePolicy removes a policy.
func RemovePolicy(ctx context.Context, cluster *kube.Client, namespace, name string) error {
	return cluster.Delete(ctx, policyRef(namespace, name))
}
