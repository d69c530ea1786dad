package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLackingImage(t *testing.T) {
	pod := func(image, state string) unstructured.Unstructured {
		return *parse(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: queue, image: queue}, {name: web, image: "+image+"}]}\nstatus: {containerStatuses: [{name: queue, state: {running: {}}}, {name: web, state: "+state+"}]}")
	}
	wanted := func(image string) bool { return image == "web:v2" }
	for name, test := range map[string]struct{ image, state, want string }{
		"runs":         {"web:v2", `{running: {}}`, ""},
		"starts":       {"web:v2", `{waiting: {reason: ContainerCreating}}`, ""},
		"fails":        {"web:v2", `{waiting: {reason: ErrImagePull, message: "connection refused\n"}}`, "the image web:v2 cannot be had: ErrImagePull (connection refused)"},
		"waits":        {"web:v2", `{waiting: {reason: ImagePullBackOff}}`, "the image web:v2 cannot be had: ImagePullBackOff"},
		"on its way":   {"web:v1", `{waiting: {reason: ImagePullBackOff}}`, ""},
		"wrong letter": {"web:v2", `{waiting: {reason: InvalidImageName}}`, "the image web:v2 cannot be had: InvalidImageName"},
	} {
		err := LackingImage([]unstructured.Unstructured{pod("web:v2", `{running: {}}`), pod(test.image, test.state)}, wanted)
		var image *ImageError
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &image) || err.Error() != test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// A failure ends a wait when it stays, and no other does.
func TestPatient(t *testing.T) {
	broken, other := errors.New("broken"), errors.New("other")
	for name, test := range map[string]struct {
		said []error // one each second
		want error
	}{
		"goes well":  {make([]error, 40), nil},
		"stays":      {repeat(40, broken), broken},
		"first word": {append([]error{broken}, repeat(39, other)...), broken},
		"recovers":   {append(append(repeat(15, broken), nil), repeat(15, broken)...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waiting, say, end := Patient(t.Context())
				for _, err := range test.said {
					say(err)
					time.Sleep(time.Second)
				}
				if got := context.Cause(waiting); !errors.Is(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
				end()
			})
		})
	}
}

func repeat(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
