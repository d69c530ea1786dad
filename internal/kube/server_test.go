package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// apiServer speaks as much of the API server's protocol, over TLS, as the
// client needs: discovery by group and version, objects in memory under their
// paths, status errors, logs and the pod proxy.
type apiServer struct {
	*httptest.Server

	mu      sync.Mutex
	kinds   map[string]string         // discovery path: list of resources
	objects map[string]map[string]any // by path
	refuse  func(r *http.Request) (code int, reason string)
	events  chan string // of a watch, which ends with the channel
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{
		kinds: map[string]string{
			"/api/v1": `{"resources":[
				{"name":"namespaces","kind":"Namespace"},
				{"name":"pods","kind":"Pod","namespaced":true},
				{"name":"pods/log","kind":"Pod","namespaced":true},
				{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`,
		},
		objects: map[string]map[string]any{},
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) kubeconfig() []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []any{map[string]any{"name": "default", "cluster": map[string]any{"server": s.URL, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": "default", "user": map[string]any{"token": "secret"}}},
		"contexts": []any{map[string]any{"name": "default", "context": map[string]any{"cluster": "default", "user": "default"}}},
	}
	content, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return content
}

func (s *apiServer) fail(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer secret" {
		s.fail(w, 401, "Unauthorized", "Unauthorized")
		return
	}
	if s.refuse != nil {
		if code, reason := s.refuse(r); code != 0 {
			s.fail(w, code, reason, "refused by the test")
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	if r.URL.Query().Get("watch") == "true" {
		s.watch(w, r)
		return
	}
	if list, ok := s.kinds[path]; ok {
		fmt.Fprint(w, list)
		return
	}
	object, exists := s.objects[path]
	switch {
	case strings.HasSuffix(path, "/log"):
		fmt.Fprintf(w, "container %s, %s lines\n", r.URL.Query().Get("container"), r.URL.Query().Get("tailLines"))
	case strings.Contains(path, "/proxy/"):
		fmt.Fprint(w, "proxied ", path)
	case r.Method == http.MethodPatch:
		s.patch(w, r)
	case r.Method == http.MethodGet && strings.Count(path, "/")%2 == 1:
		s.list(w, r)
	case !exists:
		s.fail(w, 404, "NotFound", path+" not found")
	case r.Method == http.MethodDelete:
		metadata := object["metadata"].(map[string]any)
		if metadata["finalizers"] == nil {
			delete(s.objects, path)
		}
		_ = json.NewEncoder(w).Encode(object)
	default:
		_ = json.NewEncoder(w).Encode(object)
	}
}

// patch is server-side apply of an object whose only owner is the caller.
func (s *apiServer) patch(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	var object map[string]any
	if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
		s.fail(w, 400, "BadRequest", err.Error())
		return
	}
	query := r.URL.Query()
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" || query.Get("fieldManager") != "testbed" || query.Get("force") != "true" {
		s.fail(w, 400, "BadRequest", "not a forced server-side apply by testbed")
		return
	}
	if parts := strings.Split(path, "/"); len(parts) > 5 && parts[3] == "namespaces" {
		if _, ok := s.objects["/api/v1/namespaces/"+parts[4]]; !ok && parts[4] != "default" {
			s.fail(w, 404, "NotFound", "namespaces \""+parts[4]+"\" not found")
			return
		}
	}
	s.objects[path] = object
	_ = json.NewEncoder(w).Encode(object)
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	key, value, selected := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	items := []any{}
	for path, object := range s.objects {
		if filepath.Dir(path) != r.URL.Path {
			continue
		}
		labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
		if !selected || labels[key] == value {
			items = append(items, object)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "42"}, "items": items})
}

// watch tells of the events that the test sends, from the version of lists on.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	if version := r.URL.Query().Get("resourceVersion"); version != "42" {
		s.fail(w, 410, "Expired", "too old resource version: "+version)
		return
	}
	events := s.events
	s.mu.Unlock()
	defer s.mu.Lock()
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			fmt.Fprintln(w, event)
		case <-r.Context().Done():
			return
		}
	}
}

// set changes the server under its lock.
func (s *apiServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// server is a host on which files are read and connections opened.
type server struct {
	host.Host
	files map[string][]byte
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
}

func (s *server) URL() string { return "local://edge" }

func (s *server) Read(_ context.Context, path string) ([]byte, error) {
	if content, ok := s.files[path]; ok {
		return content, nil
	}
	return nil, fmt.Errorf("read %s: %w", path, fs.ErrNotExist)
}

func (s *server) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dial(ctx, network, address)
}

// Open makes a server its own opener.
func (s *server) Open(_ context.Context, url string) (host.Host, error) {
	if url != s.URL() {
		return nil, fmt.Errorf("open %s: %w", url, host.ErrNotExist)
	}
	return s, nil
}

func (s *apiServer) host() *server {
	return &server{
		files: map[string][]byte{kube.K3sKubeconfig: s.kubeconfig()},
		dial:  (&net.Dialer{}).DialContext,
	}
}

func (s *apiServer) open(t *testing.T) *kube.Client {
	t.Helper()
	client, err := kube.NewOpener(s.host()).Open(t.Context(), "k3s+local://edge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
