package knative

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

func parse(t *testing.T, text string, values ...any) []unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Parse(fmt.Appendf(nil, text, values...))
	if err != nil {
		t.Fatal(err)
	}
	var list []unstructured.Unstructured
	for _, object := range objects {
		// As the API server gives numbers.
		content, err := object.MarshalJSON()
		if err == nil {
			err = object.UnmarshalJSON(content)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, *object)
	}
	return list
}

func traefikRunning(t *testing.T, args string) []unstructured.Unstructured {
	return parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: kube-system, name: other}
spec: {template: {spec: {containers: [{name: other, args: [--port=80]}]}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: kube-system, name: traefik}
spec: {template: {spec: {containers: [{name: traefik, args: [%s]}]}}}
`, args)
}

func TestTraefikSettings(t *testing.T) {
	const public, private = "--providers.knative.publicService.name=a, --providers.knative.publicService.namespace=b", "--providers.knative.privateservice.name=c, --providers.knative.privateservice.namespace=d"
	got, err := traefikSettings(traefikRunning(t, "--providers.knative, "+public+", "+private))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"publicservice.name": "a", "publicservice.namespace": "b", "privateservice.name": "c", "privateservice.namespace": "d"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for args, want := range map[string]string{
		"--providers.kubernetesingress": "no Deployment and no DaemonSet of the cluster runs Traefik with its Knative provider (--providers.knative)",
		"--providers.knative=false":     "no Deployment and no DaemonSet of the cluster runs Traefik with its Knative provider (--providers.knative)",
		public:                          "DaemonSet kube-system/traefik runs Traefik's Knative provider without --providers.knative.privateservice.name and .namespace, so functions would never get an address",
	} {
		_, err := traefikSettings(traefikRunning(t, args))
		var refused *TraefikError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", args, err)
		} else if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

// TestPortTaken wants two ingresses that claim port 80 to be told apart from
// one that has it.
func TestPortTaken(t *testing.T) {
	const service = `
apiVersion: v1
kind: Service
metadata: {namespace: %s, name: web}
spec: {type: %s, ports: [{port: 80}, {port: %d}]}
status: {loadBalancer: {ingress: [%s]}}
`
	one := func(namespace, kind string, port int, address string) unstructured.Unstructured {
		return parse(t, service, namespace, kind, port, address)[0]
	}
	const has = "{ip: 198.18.31.11}"
	for _, test := range []struct {
		name   string
		public unstructured.Unstructured
		others []unstructured.Unstructured
		want   string
	}{
		{"alone", one("traefik", "LoadBalancer", 443, ""), nil, ""},
		{"served", one("traefik", "LoadBalancer", 443, has), []unstructured.Unstructured{one("kourier", "LoadBalancer", 443, has)}, ""},
		{"a port of the node", one("traefik", "NodePort", 443, ""), []unstructured.Unstructured{one("kourier", "LoadBalancer", 443, has)}, ""},
		{"beside one inside", one("traefik", "LoadBalancer", 443, ""), []unstructured.Unstructured{one("web", "ClusterIP", 443, "")}, ""},
		{"taken", one("traefik", "LoadBalancer", 443, ""), []unstructured.Unstructured{one("kourier", "LoadBalancer", 8443, has)}, "port 80 is taken by Service kourier/web"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := portTaken(&test.public, append(test.others, test.public))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
