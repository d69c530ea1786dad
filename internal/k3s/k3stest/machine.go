// Package k3stest helps to test what installs k3s: hosts in memory with the few
// programs that an installation uses, and an API server.
package k3stest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Machine is a host in memory on which k3s runs as soon as it is installed.
type Machine struct {
	hosttest.Fake
	API *httptest.Server // of a server

	Down     atomic.Bool // nobody listens
	NotReady atomic.Bool // the nodes are not
	Replaced atomic.Bool // nebula1 is another device than before

	server  *Machine // whose cluster the machine belongs to
	address string

	mu        sync.Mutex
	nodes     map[string]map[string]any // of a server, by name
	passwords map[string]string         // of the nodes, by name
}

// Opener opens machines by their URLs.
type Opener []*Machine

// Open returns the machine of that name.
func (o Opener) Open(_ context.Context, url string) (host.Host, error) {
	for _, machine := range o {
		if machine.URL() == url {
			return machine, nil
		}
	}
	return nil, fmt.Errorf("open %s: %w", url, host.ErrNotExist)
}

// Sum returns the SHA-256 of a text in hexadecimal.
func Sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

// New returns a machine that ends with the test: "local://edge", whose address
// is 198.19.0.11 on nebula1, and whose node is called "edge". A k3s program on
// it is a file that holds what "k3s --version" prints.
func New(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{address: "198.19.0.11", nodes: map[string]map[string]any{}, passwords: map[string]string{}}
	m.Name = "local://edge"
	m.server = m
	m.register("edge")
	m.API = httptest.NewTLSServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.API.Close)
	m.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		if m.Down.Load() || address != "127.0.0.1:6443" {
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, m.API.Listener.Addr().String())
	}
	m.Commands = m.commands()
	return m
}

// NewAgent returns a machine that joins the server's cluster as soon as an
// agent is installed. It has the address on nebula1.
func NewAgent(server *Machine, url, address string) *Machine {
	m := &Machine{server: server, address: address}
	m.Name = url
	m.Commands = m.commands()
	return m
}

func (m *Machine) commands() map[string]func(context.Context, host.Command) (host.Output, error) {
	return map[string]func(context.Context, host.Command) (host.Output, error){
		"ip": func(context.Context, host.Command) (host.Output, error) {
			index := 7
			if m.Replaced.Load() {
				index++
			}
			return host.Output{Stdout: fmt.Appendf(nil, `[{"ifname":"lo","ifindex":1,"link_type":"loopback","addr_info":[{"local":"127.0.0.1"},{"local":"::1"}]},
				{"ifname":"nebula1","ifindex":%d,"link_type":"none","addr_info":[{"local":%q}]}]`, index, m.address)}, nil
		},
		"sha256sum": func(_ context.Context, command host.Command) (host.Output, error) {
			file, ok := m.Files()[command.Argv[1]]
			if !ok {
				return host.Output{}, &host.ExitError{Argv: command.Argv, Code: 1}
			}
			return host.Output{Stdout: []byte(Sum(file.Content) + "  " + command.Argv[1] + "\n")}, nil
		},
		"ls": func(_ context.Context, command host.Command) (host.Output, error) {
			var names bytes.Buffer
			for file := range m.Files() {
				if path.Dir(file) == command.Argv[2] {
					fmt.Fprintln(&names, path.Base(file))
				}
			}
			if names.Len() == 0 {
				return host.Output{}, &host.ExitError{Argv: command.Argv, Code: 2}
			}
			return host.Output{Stdout: names.Bytes()}, nil
		},
		"mv": func(ctx context.Context, command host.Command) (host.Output, error) {
			from, to := command.Argv[2], command.Argv[3]
			file := m.Files()[from]
			return host.Output{}, errors.Join(m.Write(ctx, to, file.Mode, strings.NewReader(file.Content)), m.Remove(ctx, from))
		},
		"testbed-agent": func(ctx context.Context, command host.Command) (host.Output, error) {
			if command.Argv[1] != "k3s-sweep" {
				return host.Output{}, &host.ExitError{Argv: command.Argv, Code: 2}
			}
			return host.Output{}, errors.Join(m.Remove(ctx, "/etc/rancher"), m.Remove(ctx, "/var/lib/rancher"), m.Remove(ctx, "/usr/local/bin/k3s"))
		},
		"k3s.new": func(_ context.Context, command host.Command) (host.Output, error) {
			return host.Output{Stdout: []byte(m.Files()[command.Argv[0]].Content)}, nil
		},
	}
}

// Nodes returns the names of the nodes that a server knows.
func (m *Machine) Nodes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.nodes))
}

// ForgetNode removes a node from a server, as kubectl delete node does.
func (m *Machine) ForgetNode(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
}

// StartService starts a service: a server writes its kubeconfig, an agent
// joins.
func (m *Machine) StartService(ctx context.Context, service host.Service) error {
	if err := m.Fake.StartService(ctx, service); err != nil {
		return err
	}
	switch service.Name {
	case "k3s":
		return m.startServer(ctx)
	case "k3s-agent":
		return m.join(ctx)
	}
	return nil
}

// RestartService starts a service again.
func (m *Machine) RestartService(ctx context.Context, name string) error {
	if err := m.Fake.RestartService(ctx, name); err != nil || name != "k3s-agent" {
		return err
	}
	return m.join(ctx)
}

// join makes the node of an agent that has the token, unless the name belongs
// to a node with another password.
func (m *Machine) join(ctx context.Context) error {
	var config struct {
		Name   string `json:"node-name"`
		Server string `json:"server"`
	}
	files := m.Files()
	if err := yaml.Unmarshal([]byte(files["/etc/rancher/k3s/config.yaml"].Content), &config); err != nil {
		return err
	}
	const passwordFile = "/etc/rancher/node/password"
	password := files[passwordFile].Content
	if password == "" {
		password = rand.Text()
		if err := m.Write(ctx, passwordFile, 0o600, strings.NewReader(password)); err != nil {
			return err
		}
	}
	switch {
	case config.Server != "https://"+m.server.address+":6443":
		m.Log("k3s-agent", "nobody answers at "+config.Server+"\n")
	case files["/etc/rancher/k3s/token"].Content != nodeToken:
		m.Log("k3s-agent", "the token is wrong\n")
	case !m.server.admit(config.Name, password):
		m.Log("k3s-agent", "Node password rejected, duplicate hostname\n")
	default:
		m.server.register(config.Name)
	}
	return nil
}

func (m *Machine) admit(name, password string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passwords[name] == "" {
		m.passwords[name] = password
	}
	return m.passwords[name] == password
}

func (m *Machine) register(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[name] = map[string]any{}
}

// nodeToken is what a server lets agents join with.
const nodeToken = "K10abc::server:secret\n"

func (m *Machine) startServer(ctx context.Context) error {
	if err := m.Write(ctx, "/var/lib/rancher/k3s/server/node-token", 0o600, strings.NewReader(nodeToken)); err != nil {
		return err
	}
	kubeconfig, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []any{map[string]any{"name": "default", "cluster": map[string]any{
			"server":                     "https://127.0.0.1:6443",
			"certificate-authority-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.API.Certificate().Raw}),
		}}},
		"users":    []any{map[string]any{"name": "default", "user": map[string]any{"token": "secret"}}},
		"contexts": []any{map[string]any{"name": "default", "context": map[string]any{"cluster": "default", "user": "default"}}},
	})
	if err != nil {
		return err
	}
	return m.Write(ctx, kube.K3sKubeconfig, 0o600, bytes.NewReader(kubeconfig))
}

func (m *Machine) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/nodes/"); ok {
		m.serveNode(w, r, name)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/secrets/"); ok {
		m.serveSecret(w, r, strings.TrimSuffix(name, ".node-password.k3s"))
		return
	}
	answers := map[string]any{
		"/ping":   "pong",
		"/readyz": "ok",
		"/api/v1": map[string]any{"resources": []any{
			map[string]any{"name": "nodes", "kind": "Node"},
			map[string]any{"name": "pods", "kind": "Pod", "namespaced": true},
			map[string]any{"name": "secrets", "kind": "Secret", "namespaced": true},
		}},
		"/apis/apps/v1": map[string]any{"resources": []any{map[string]any{"name": "deployments", "kind": "Deployment", "namespaced": true}}},
		"/api/v1/nodes": map[string]any{"apiVersion": "v1", "kind": "NodeList", "items": m.allNodes()},
		"/api/v1/pods":  map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{}},
		"/apis/apps/v1/namespaces/kube-system/deployments/coredns": map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "coredns"},
			"spec": map[string]any{"replicas": 1}, "status": map[string]any{"availableReplicas": 1},
		},
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	send(w, answer)
}

func send(w io.Writer, answer any) {
	if text, ok := answer.(string); ok {
		_, _ = io.WriteString(w, text)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (m *Machine) allNodes() []any {
	all := []any{}
	for _, name := range m.Nodes() {
		m.mu.Lock()
		all = append(all, m.node(name))
		m.mu.Unlock()
	}
	return all
}

// node returns a node as the API shows it.
func (m *Machine) node(name string) map[string]any {
	status := "True"
	if m.NotReady.Load() {
		status = "False"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "annotations": m.nodes[name]},
		"status": map[string]any{
			"nodeInfo": map[string]any{"kubeletVersion": "v1.37.2"},
			"conditions": []any{map[string]any{
				"type": "Ready", "status": status, "reason": "KubeletNotReady", "message": "no network",
				"lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339),
			}},
		},
	}
}

func (m *Machine) serveNode(w http.ResponseWriter, r *http.Request, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nodes[name] == nil {
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodDelete:
		delete(m.nodes, name)
	case http.MethodPatch:
		var applied struct {
			Metadata struct {
				Annotations map[string]any `json:"annotations"`
			} `json:"metadata"`
		}
		content, err := io.ReadAll(r.Body)
		if err == nil {
			err = yaml.Unmarshal(content, &applied)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		maps.Copy(m.nodes[name], applied.Metadata.Annotations)
	}
	send(w, m.node(name))
}

func (m *Machine) serveSecret(w http.ResponseWriter, r *http.Request, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passwords[node] == "" {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodDelete {
		delete(m.passwords, node)
	}
	send(w, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": node + ".node-password.k3s", "namespace": "kube-system"}})
}
