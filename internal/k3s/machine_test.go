package k3s_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// machine is a host in memory with the few programs that k3s's installation
// uses, and an API server that answers as its fields say.
type machine struct {
	hosttest.Fake
	api *httptest.Server

	down      atomic.Bool // nobody listens
	nodeReady atomic.Bool
}

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	m.nodeReady.Store(true)
	m.Name = "local://edge"
	m.api = httptest.NewTLSServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.api.Close)
	m.Connect = func(ctx context.Context, network, address string) (net.Conn, error) {
		if m.down.Load() || address != "127.0.0.1:6443" {
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		return (&net.Dialer{}).DialContext(ctx, network, m.api.Listener.Addr().String())
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
			return host.Output{Stdout: []byte(sum(file.Content) + "  " + command.Argv[1] + "\n")}, nil
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
			return host.Output{}, errorsOf(m.Write(ctx, to, file.Mode, strings.NewReader(file.Content)), m.Remove(ctx, from))
		},
		"k3s.new": func(_ context.Context, command host.Command) (host.Output, error) {
			return host.Output{Stdout: []byte(m.Files()[command.Argv[0]].Content)}, nil
		},
	}
	kubeconfig, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []any{map[string]any{"name": "default", "cluster": map[string]any{
			"server":                     "https://127.0.0.1:6443",
			"certificate-authority-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.api.Certificate().Raw}),
		}}},
		"users":    []any{map[string]any{"name": "default", "user": map[string]any{"token": "secret"}}},
		"contexts": []any{map[string]any{"name": "default", "context": map[string]any{"cluster": "default", "user": "default"}}},
	})
	if err == nil {
		err = m.Write(t.Context(), kube.K3sKubeconfig, 0o600, bytes.NewReader(kubeconfig))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) serve(w http.ResponseWriter, r *http.Request) {
	status := "False"
	if m.nodeReady.Load() {
		status = "True"
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
			"status":{"conditions":[{"type":"Available","status":"True"}]}}`,
	}
	answer, ok := answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, answer)
}

// file writes an artifact of this machine.
func file(t *testing.T, name, content string) artifact.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return artifact.File{Path: path, Name: name, SHA256: sum(content)}
}

func newSpec(t *testing.T) k3s.Spec {
	return k3s.Spec{
		Name:         "edge",
		NodeIP:       netip.MustParseAddr("198.19.0.11"),
		Interface:    "nebula1",
		ClusterCIDR:  netip.MustParsePrefix("10.44.0.0/16"),
		ServiceCIDR:  netip.MustParsePrefix("10.45.0.0/16"),
		Disable:      []string{"traefik"},
		Config:       map[string]any{"kubelet-arg": []any{"max-pods=50"}, "service-node-port-range": "30000-30100"},
		Binary:       file(t, "k3s", "k3s version v1.37.2+k3s1 (abc)\n"),
		AirgapImages: []artifact.File{file(t, "images.tar", "one")},
	}
}
