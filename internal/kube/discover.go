package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// discover asks the API server how the objects of a kind are addressed. An
// unknown kind is an fs.ErrNotExist.
func discover(ctx context.Context, client rest.Interface, gvk schema.GroupVersionKind) (kind, error) {
	path := "/apis/" + gvk.GroupVersion().String()
	if gvk.Group == "" {
		path = "/api/" + gvk.Version
	}
	body, err := client.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return kind{}, fmt.Errorf("find kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), classify(err))
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return kind{}, fmt.Errorf("find kind %s of %s: %w", gvk.Kind, gvk.GroupVersion(), err)
	}
	for _, resource := range list.APIResources {
		if resource.Kind == gvk.Kind && !strings.Contains(resource.Name, "/") {
			return kind{resource: gvk.GroupVersion().WithResource(resource.Name), namespaced: resource.Namespaced}, nil
		}
	}
	return kind{}, notExist(fmt.Errorf("the cluster has no kind %s of %s", gvk.Kind, gvk.GroupVersion()))
}
