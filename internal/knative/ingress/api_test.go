package ingress

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// apiServer speaks as much of the API server's protocol as the controller
// needs: lists and watches of all objects of a resource, and their status.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]map[string]*unstructured.Unstructured // by resource, "services", and name
	watches map[chan []byte]string                           // resource
}

func newAPIServer(t *testing.T) (*apiServer, dynamic.Interface) {
	t.Helper()
	s := &apiServer{objects: map[string]map[string]*unstructured.Unstructured{}, watches: map[chan []byte]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

func resourceOf(object *unstructured.Unstructured) string {
	return map[string]string{"Service": "services", "EndpointSlice": "endpointslices", "Ingress": "ingresses"}[object.GetKind()]
}

// put makes or changes an object.
func (s *apiServer) put(object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(object)
}

func (s *apiServer) change(object *unstructured.Unstructured) {
	resource := resourceOf(object)
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]*unstructured.Unstructured{}
	}
	kind := "ADDED"
	if s.objects[resource][object.GetName()] != nil {
		kind = "MODIFIED"
	}
	s.objects[resource][object.GetName()] = object
	event, _ := json.Marshal(map[string]any{"type": kind, "object": object})
	for watch, of := range s.watches {
		if of == resource {
			watch <- event
		}
	}
}

// status returns that of a KIngress, nil without one.
func (s *apiServer) status(name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, _, _ := unstructured.NestedMap(s.objects["ingresses"][name].Object, "status")
	return status
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch resource := path.Base(r.URL.Path); {
	case r.Method == http.MethodPut && resource == "status":
		s.putStatus(w, r)
	case r.URL.Query().Get("watch") == "true":
		s.watch(w, r, resource)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		items := []any{}
		for _, object := range s.objects[resource] {
			items = append(items, object)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
}

func (s *apiServer) putStatus(w http.ResponseWriter, r *http.Request) {
	var sent unstructured.Unstructured
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects["ingresses"][path.Base(strings.TrimSuffix(r.URL.Path, "/status"))]
	if object.GetGeneration() != sent.GetGeneration() {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409}`))
		return
	}
	next := object.DeepCopy()
	next.Object["status"] = sent.Object["status"]
	s.change(next)
	_ = json.NewEncoder(w).Encode(next)
}

// watch tells what is there, as if it had come after the list, and each change.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	events := make(chan []byte, 1000)
	s.mu.Lock()
	for _, object := range s.objects[resource] {
		event, _ := json.Marshal(map[string]any{"type": "MODIFIED", "object": object})
		events <- event
	}
	s.watches[events] = resource
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, events)
	}()
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event := <-events:
			_, _ = w.Write(append(event, '\n'))
		case <-r.Context().Done():
			return
		}
	}
}
