package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DropFinalizers removes all finalizers of an object, so that its deletion no
// longer waits for controllers that may be gone. An absent object is no error.
func (c *Client) DropFinalizers(ctx context.Context, ref Ref) error {
	resource, err := c.resource(ctx, ref)
	if err == nil {
		_, err = resource.Patch(ctx, ref.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: FieldManager})
		err = classify(err)
	}
	if err != nil && !absent(err) {
		return fmt.Errorf("drop the finalizers of %s of %s: %w", ref, c.url, err)
	}
	return nil
}
