// Package k3stest helps to test what installs k3s: a host in memory with the few
// programs that an installation uses, and an API server.
package k3stest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Machine is a host in memory on which k3s runs as soon as it is installed. Its
// one node is called "edge", and it has the address 198.19.0.11 on nebula1.
type Machine struct {
	hosttest.Fake
	API *httptest.Server

	Down     atomic.Bool // nobody listens
	NotReady atomic.Bool // the node is not
}

// Sum returns the SHA-256 of a text in hexadecimal.
func Sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

// New returns a machine that ends with the test. A k3s program on it is a file
// that holds what "k3s --version" prints.
func New(t *testing.T) *Machine {
	t.Helper()
	m := &Machine{}
	m.Name = "local://edge"
	m.API = httptest.NewTLSServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.API.Close)
	m.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		if m.Down.Load() || address != "127.0.0.1:6443" {
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, m.API.Listener.Addr().String())
	}
	m.Commands = map[string]func(context.Context, host.Command) (host.Output, error){
		"ip": func(context.Context, host.Command) (host.Output, error) {
			return host.Output{Stdout: []byte(`[{"ifname":"lo","addr_info":[{"local":"127.0.0.1"},{"local":"::1"}]},
				{"ifname":"nebula1","addr_info":[{"local":"198.19.0.11"}]}]`)}, nil
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
	return m
}

// StartService starts a service; k3s writes its kubeconfig.
func (m *Machine) StartService(ctx context.Context, service host.Service) error {
	if err := m.Fake.StartService(ctx, service); err != nil || service.Name != "k3s" {
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
	status := "True"
	if m.NotReady.Load() {
		status = "False"
	}
	node := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"edge"},"status":{
		"nodeInfo":{"kubeletVersion":"v1.37.2"},
		"conditions":[{"type":"Ready","status":%q,"reason":"KubeletNotReady","message":"no network","lastHeartbeatTime":%q}]}}`,
		status, time.Now().UTC().Format(time.RFC3339))
	answers := map[string]string{
		"/ping":              "pong",
		"/readyz":            "ok",
		"/api/v1":            `{"resources":[{"name":"nodes","kind":"Node"}]}`,
		"/apis/apps/v1":      `{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`,
		"/api/v1/nodes/edge": node,
		"/api/v1/nodes":      `{"apiVersion":"v1","kind":"NodeList","items":[` + node + `]}`,
		"/apis/apps/v1/namespaces/kube-system/deployments/coredns": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"coredns"},
			"spec":{"replicas":1},"status":{"availableReplicas":1}}`,
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}
