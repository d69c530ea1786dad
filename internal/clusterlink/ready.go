package clusterlink

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// instanceReady reports whether an Instance's status says that the peer works,
// and if not, what is missing. The data plane's ServiceReady condition does
// not count: nothing ever makes the Service it looks for.
func instanceReady(instance *unstructured.Unstructured) (ok bool, why string) {
	wanted := [][2]string{{"controlplane", "DeploymentReady"}, {"dataplane", "DeploymentReady"}}
	if ingress, _, _ := unstructured.NestedString(instance.Object, "spec", "ingress", "type"); ingress != "none" {
		wanted = append(wanted, [2]string{"ingress", "ServiceReady"})
	}
	for _, want := range wanted {
		component, name := want[0], want[1]
		condition, found, _ := unstructured.NestedMap(instance.Object, "status", component, "conditions", name)
		if !found {
			return false, fmt.Sprintf("the operator has not said %s of the %s yet", name, component)
		}
		if condition["status"] != "True" {
			return false, fmt.Sprintf("%s of the %s is %v: %v", name, component, condition["reason"], condition["message"])
		}
	}
	return true, ""
}

// taken reports whether the operator has brought a Deployment up to the spec:
// its image, its log level and its number of replicas.
func (s PeerSpec) taken(image string, replicas int) func(*unstructured.Unstructured) (bool, string) {
	return func(deployment *unstructured.Unstructured) (bool, string) {
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if len(containers) == 0 {
			return false, "it has no container"
		}
		container, _ := containers[0].(map[string]any)
		args, _, _ := unstructured.NestedStringSlice(container, "args")
		got, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
		if container["image"] != image || !slices.Contains(args, s.LogLevel) || got != int64(replicas) {
			return false, "the operator has not updated it yet"
		}
		return true, ""
	}
}

// conditionTrue reports whether a condition of an object's status is true, and
// if not, what it says.
func conditionTrue(object *unstructured.Unstructured, name string) (ok bool, why string) {
	switch condition := kube.ConditionOf(object, name); {
	case condition.True():
		return true, ""
	case condition.Status == "":
		return false, "the control plane has not said " + name + " yet"
	case condition.Message != "":
		return false, condition.Message
	default:
		return false, name + " is " + condition.Status
	}
}
