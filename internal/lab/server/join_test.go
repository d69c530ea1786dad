package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// secretsAPI answers like an API server that has secrets alone.
type secretsAPI struct {
	mu      sync.Mutex
	secrets map[string]string // the hash by name
}

func (a *secretsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Method == http.MethodPost {
		var secret struct {
			Metadata   struct{ Name string }
			StringData map[string]string
		}
		if err := json.NewDecoder(r.Body).Decode(&secret); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.secrets[secret.Metadata.Name] = secret.StringData["hash"]
		_ = json.NewEncoder(w).Encode(object{})
		return
	}
	items := []object{}
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if hash, ok := a.secrets[name]; ok {
		items = append(items, object{"metadata": object{"name": name}, "data": object{"hash": base64.StdEncoding.EncodeToString([]byte(hash))}})
	}
	_ = json.NewEncoder(w).Encode(object{"items": items})
}

// startSupervisor serves a server's own paths, and returns it with the URL and
// the token.
func startSupervisor(t *testing.T) (s *Supervisor, api *secretsAPI, url, fullToken string) {
	t.Helper()
	c, err := build(map[string][]string{
		"node-name": {"edge"}, "node-ip": {"198.18.1.10"}, "data-dir": {t.TempDir()}, "cluster-cidr": {"10.44.0.0/16"}, "service-cidr": {"10.45.0.0/16"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := preparePKI(c, time.Now()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.DataDir, "server/join.json")
	if err := writeJoining(c, file); err != nil {
		t.Fatal(err)
	}
	if s, err = NewSupervisor(file); err != nil {
		t.Fatal(err)
	}
	made, err := prepareToken(c.DataDir, "", certHash(s.ca))
	if err != nil {
		t.Fatal(err)
	}
	api = &secretsAPI{secrets: map[string]string{}}
	listener := httptest.NewUnstartedServer(s.Handler(api))
	listener.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{s.pki.apiserver.cert.Raw}, PrivateKey: s.pki.apiserver.key}}}
	listener.StartTLS()
	t.Cleanup(listener.Close)
	s.api.base = listener.URL
	return s, api, listener.URL, made.String()
}

func agentConfig(t *testing.T, name, url, token string) (Config, string) {
	dir := t.TempDir()
	return Config{DataDir: dir, NodeName: name, NodeIP: netip.MustParseAddr("198.18.1.11"), Server: url, Token: token}, filepath.Join(dir, "password")
}

func TestJoin(t *testing.T) {
	s, _, url, token := startSupervisor(t)
	c, password := agentConfig(t, "b", url, token)
	for range 2 { // a restart joins again
		got, p, err := join(t.Context(), c, password)
		if err != nil {
			t.Fatal(err)
		}
		if got.ClusterCIDR != s.config.ClusterCIDR || got.ClusterDNS != s.config.ClusterDNS || got.ClusterDomain != "cluster.local" || got.FlannelBackend != "vxlan" {
			t.Errorf("configuration %+v", got)
		}
		roots := func(ca pair) *x509.CertPool {
			pool := x509.NewCertPool()
			pool.AddCert(ca.cert)
			return pool
		}
		for _, test := range []struct {
			pair  pair
			ca    pair
			usage x509.ExtKeyUsage
			name  string
		}{
			{p.node, s.pki.clientCA, x509.ExtKeyUsageClientAuth, "system:node:b"},
			{p.proxy, s.pki.clientCA, x509.ExtKeyUsageClientAuth, "system:kube-proxy"},
			{p.kubelet, s.pki.serverCA, x509.ExtKeyUsageServerAuth, "b"},
		} {
			_, err := test.pair.cert.Verify(x509.VerifyOptions{Roots: roots(test.ca), KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if err != nil || test.pair.cert.Subject.CommonName != test.name {
				t.Errorf("certificate of %s: %s, %v", test.name, test.pair.cert.Subject, err)
			}
		}
		if !p.kubelet.cert.IPAddresses[0].Equal(net.IP(c.NodeIP.AsSlice())) || p.node.cert.Subject.Organization[0] != "system:nodes" {
			t.Errorf("certificates %v, %v", p.kubelet.cert.IPAddresses, p.node.cert.Subject)
		}
	}
}

func TestJoinRefused(t *testing.T) {
	_, api, url, token := startSupervisor(t)
	first, password := agentConfig(t, "b", url, token)
	if _, _, err := join(t.Context(), first, password); err != nil {
		t.Fatal(err)
	}
	other := "K10" + strings.Repeat("0", 64) + token[strings.Index(token, "::"):]
	for _, test := range []struct{ name, token, want string }{
		{"b", token, `node password rejected: a node "b" with another password is there already; remove the secret b.node-password.k3s`},
		{"edge", token, "node password rejected"},
		{"c", token + "x", "the token is wrong"},
		{"c", other, "its CA has the hash"},
	} {
		c, password := agentConfig(t, test.name, url, test.token)
		if _, _, err := join(t.Context(), c, password); err == nil || !strings.Contains(err.Error(), test.want) || temporary(err) {
			t.Errorf("%s: got error %v, want one with %q", test.name, err, test.want)
		}
	}
	delete(api.secrets, "b.node-password.k3s")
	c, password := agentConfig(t, "b", url, token)
	if _, _, err := join(t.Context(), c, password); err != nil {
		t.Errorf("a new node b after the old one's secret was removed: %v", err)
	}
	c.Server = "https://127.0.0.1:1"
	if _, _, err := join(t.Context(), c, password); !temporary(err) {
		t.Errorf("got error %v, want a temporary one while nobody answers", err)
	}
}
