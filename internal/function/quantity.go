package function

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/resource"
)

// CheckQuantity says why a text is no Kubernetes quantity, if it is none.
func CheckQuantity(text string) error {
	if _, err := resource.ParseQuantity(text); err != nil {
		return fmt.Errorf("%q is no quantity such as \"500m\" or \"64Mi\"", text)
	}
	return nil
}

// SameQuantities reports whether two sets of quantities are equal, however they
// are written: the cluster rewrites "0.5" as "500m".
func SameQuantities(a, b map[string]string) bool {
	return maps.EqualFunc(a, b, func(x, y string) bool {
		p, errP := resource.ParseQuantity(x)
		q, errQ := resource.ParseQuantity(y)
		return errP == nil && errQ == nil && p.Cmp(q) == 0
	})
}
