package ingress

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// object reads one in YAML.
func object(t *testing.T, text string, values ...any) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, values...), &content); err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: content}
	// As an API server gives numbers.
	text2, err := o.MarshalJSON()
	if err == nil {
		err = o.UnmarshalJSON(text2)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func serviceObject(t *testing.T, name string) *unstructured.Unstructured {
	return object(t, `
apiVersion: v1
kind: Service
metadata: {namespace: default, name: %s}
spec:
  clusterIP: 10.145.0.9
  ports: [{name: http, port: 80}, {name: metrics, port: 9090}]
`, name)
}

// sliceObject has a service answered at an address.
func sliceObject(t *testing.T, service, address string) *unstructured.Unstructured {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return object(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: default, name: %s-x, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: metrics, port: 9}, {name: http, port: %s}]
endpoints:
- {addresses: [192.0.2.1], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [%s], conditions: {ready: true}}
`, service, port, host)
}

// ingressObject routes the host f to a service.
func ingressObject(t *testing.T, name, class, service string, generation int) *unstructured.Unstructured {
	return object(t, `
apiVersion: networking.internal.knative.dev/v1alpha1
kind: Ingress
metadata: {namespace: default, name: %s, generation: %d, annotations: {networking.knative.dev/ingress.class: %s}}
spec:
  rules:
  - hosts: [f]
    visibility: ExternalIP
    http: {paths: [{splits: [{serviceNamespace: default, serviceName: %s, servicePort: 80, percent: 100}]}]}
`, name, generation, class, service)
}

// runController has a controller follow an API server with objects, and serves
// what it routes.
func runController(t *testing.T, objects ...*unstructured.Unstructured) (api *apiServer, url string) {
	t.Helper()
	api, client := newAPIServer(t)
	for _, object := range objects {
		api.put(object)
	}
	c := &controller{
		client: client, proxy: newProxy(), class: Class,
		public:  balancer{"198.18.31.11", "public.knative-serving.svc.cluster.local"},
		private: balancer{"10.145.0.8", "private.knative-serving.svc.cluster.local"},
	}
	server := httptest.NewServer(c.proxy.public())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; server.Close() })
	return api, server.URL
}

// await returns the status of the KIngress f once a condition is as wanted.
func await(t *testing.T, api *apiServer, kind, want string) map[string]any {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		status := api.status("f")
		if condition(status, kind) == want {
			return status
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status is %v, want %s %s", status, kind, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// condition says "True 1" of the condition of a status and its generation.
func condition(status map[string]any, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, entry := range conditions {
		if c, _ := entry.(map[string]any); c["type"] == kind {
			return fmt.Sprint(c["status"], " ", status["observedGeneration"])
		}
	}
	return ""
}

// TestController wants a KIngress to be routed and reported with addresses that
// Knative and its suite understand, and those of others to be left alone.
func TestController(t *testing.T) {
	api, url := runController(t, serviceObject(t, "one"), sliceObject(t, "one", backend(t, "one")),
		ingressObject(t, "f", Class, "one", 3), ingressObject(t, "other", "somebody.else", "one", 1))
	status := await(t, api, "Ready", "True 3")
	for _, kind := range []string{"LoadBalancerReady", "NetworkConfigured"} {
		if got := condition(status, kind); got != "True 3" {
			t.Errorf("%s is %q, want True 3", kind, got)
		}
	}
	delete(status, "conditions")
	want := map[string]any{
		"observedGeneration":  int64(3),
		"publicLoadBalancer":  map[string]any{"ingress": []any{map[string]any{"ip": "198.18.31.11", "domainInternal": "public.knative-serving.svc.cluster.local"}}},
		"privateLoadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": "10.145.0.8", "domainInternal": "private.knative-serving.svc.cluster.local"}}},
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := call(t, url, "f", "/"); !strings.HasPrefix(got, "one ") {
		t.Errorf("got %q, want the function", got)
	}
	if other := api.status("other"); other != nil {
		t.Errorf("the KIngress of another class has the status %v", other)
	}
}

// TestUpdate wants a new version to take over when its pods are there, and the
// old one to answer until then. That pods go later undoes nothing.
func TestUpdate(t *testing.T) {
	api, url := runController(t, serviceObject(t, "one"), sliceObject(t, "one", backend(t, "one")), ingressObject(t, "f", Class, "one", 1))
	await(t, api, "Ready", "True 1")
	api.put(serviceObject(t, "two"))
	api.put(ingressObject(t, "f", Class, "two", 2))
	status := await(t, api, "Ready", "Unknown 2")
	if !strings.Contains(fmt.Sprint(status["conditions"]), "Service default/two:80 has no pod that is ready.") {
		t.Errorf("the status does not say what is missing: %v", status["conditions"])
	}
	if got := call(t, url, "f", "/"); !strings.HasPrefix(got, "one ") {
		t.Errorf("got %q before the new version has a pod, want the old one", got)
	}
	api.put(sliceObject(t, "two", backend(t, "two")))
	await(t, api, "Ready", "True 2")
	if got := call(t, url, "f", "/"); !strings.HasPrefix(got, "two ") {
		t.Errorf("got %q, want the new version", got)
	}
	empty := sliceObject(t, "two", "192.0.2.1:80")
	empty.Object["endpoints"] = []any{}
	api.put(empty)
	deadline := time.Now().Add(10 * time.Second)
	for call(t, url, "f", "/") != "503 Service Unavailable" {
		if time.Now().After(deadline) {
			t.Fatal("the pod has gone and the function answers")
		}
		time.Sleep(time.Millisecond)
	}
	await(t, api, "Ready", "True 2")
}

// TestResolve wants endpoints by the port that is asked for.
func TestResolve(t *testing.T) {
	c := &controller{proxy: newProxy(), objects: map[schema.GroupVersionResource]map[string]*unstructured.Unstructured{services: {}, endpointSlices: {}}}
	for _, o := range []*unstructured.Unstructured{
		serviceObject(t, "one"), serviceObject(t, "none"), serviceObject(t, "ending"),
		object(t, "{apiVersion: v1, kind: Service, metadata: {namespace: default, name: alias}, spec: {type: ExternalName, externalName: elsewhere.test, ports: [{name: http2, port: 80}]}}"),
	} {
		c.objects[services][key(o)] = o
	}
	ending := sliceObject(t, "ending", "192.0.2.7:8012")
	ending.Object["endpoints"] = ending.Object["endpoints"].([]any)[:1]
	for _, o := range []*unstructured.Unstructured{sliceObject(t, "one", "192.0.2.7:8012"), ending} {
		c.objects[endpointSlices][key(o)] = o
	}
	for _, test := range []struct{ split, want string }{
		{"{serviceName: one, servicePort: 80}", "192.0.2.7:8012"},
		{"{serviceName: one, servicePort: http}", "192.0.2.7:8012"},
		{"{serviceName: one, servicePort: metrics}", "192.0.2.7:9"},
		{"{serviceName: one, servicePort: 81}", ""},
		{"{serviceName: ending, servicePort: 80}", "192.0.2.1:8012"},
		{"{serviceName: none, servicePort: 80}", ""},
		{"{serviceName: nobody, servicePort: 80}", ""},
		{"{serviceName: alias, servicePort: 80}", "elsewhere.test:80 h2c"},
	} {
		var s split
		if err := yaml.Unmarshal([]byte(test.split), &s); err != nil {
			t.Fatal(err)
		}
		s.Namespace = "default"
		to := c.resolver().resolve(s)
		var got []string
		for _, e := range to.endpoints {
			got = append(got, e.address)
		}
		if to.h2c {
			got = append(got, "h2c")
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s leads to %q, want %q", test.split, text, test.want)
		}
	}
}
