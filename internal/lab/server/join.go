package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// nodePasswordPath is the file of an agent's node, as in k3s. The server keeps
// a hash of it, so that no other machine can become the node.
const nodePasswordPath = "/etc/rancher/node/password"

// joinPath is where agents join. k3s asks at several paths; the stand-in's
// agents know its servers alone.
const joinPath = "/v1-k3s/join"

// request is what an agent joins with. Its keys stay with it.
type request struct {
	Name     string     `json:"name"`
	IP       netip.Addr `json:"ip"`
	Password string     `json:"password"` // of the node

	Serving []byte `json:"serving"` // public keys in PKIX form: the kubelet's as a server,
	Kubelet []byte `json:"kubelet"` // as a client,
	Proxy   []byte `json:"proxy"`   // and kube-proxy's
}

// answer is what an agent needs of its cluster.
type answer struct {
	ServerCA, ClientCA      []byte // certificates in PEM
	Serving, Kubelet, Proxy []byte

	ClusterCIDR    netip.Prefix
	ServiceCIDR    netip.Prefix
	ClusterDNS     netip.Addr
	ClusterDomain  string
	FlannelBackend string
}

// writeJoining writes what the supervisor needs to know of a server.
func writeJoining(c Config, path string) error {
	c.Token = "" // it has a file of its own
	content, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, content, 0o600)
}

// Supervisor answers k3s's own paths on the port of the API server.
type Supervisor struct {
	config Config
	pki    pki
	ca     []byte
	api    *api
}

// NewSupervisor returns the supervisor of the server that wrote the file.
func NewSupervisor(path string) (*Supervisor, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what agents join by: %w", err)
	}
	s := &Supervisor{}
	if err := json.Unmarshal(content, &s.config); err != nil {
		return nil, fmt.Errorf("read what agents join by: %w", err)
	}
	if s.pki, err = preparePKI(s.config, time.Now()); err != nil {
		return nil, err
	}
	if s.ca, err = os.ReadFile(s.pki.serverCA.certFile()); err != nil {
		return nil, fmt.Errorf("read the server's CA: %w", err)
	}
	s.api = newAPI(s.config, s.pki)
	return s, nil
}

// Handler leaves to next what is not k3s's own.
func (s *Supervisor) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ping":
			fmt.Fprint(w, "pong")
		case "/cacerts":
			_, _ = w.Write(s.ca)
		case joinPath:
			s.join(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Supervisor) join(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(filepath.Join(s.config.DataDir, "server/token"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	wanted, err := parseToken(strings.TrimSpace(string(content)))
	_, given, _ := r.BasicAuth()
	if err != nil || subtle.ConstantTimeCompare([]byte(given), []byte(wanted.password)) != 1 {
		http.Error(w, "the token is wrong", http.StatusUnauthorized)
		return
	}
	var joining request
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&joining); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.admit(r.Context(), joining); err != nil {
		status := http.StatusForbidden
		if temporary(err) {
			status = http.StatusServiceUnavailable
		}
		http.Error(w, err.Error(), status)
		return
	}
	answer, err := s.answer(joining, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // the agent asks again
}

// admit checks that the node is a new one, or the one that it was before.
func (s *Supervisor) admit(ctx context.Context, r request) error {
	rejected := fmt.Errorf("node password rejected: a node %q with another password is there already; remove the secret %s of kube-system if it is gone", r.Name, passwordSecret(r.Name))
	if r.Name == s.config.NodeName || r.Name == "" || r.Password == "" {
		return rejected
	}
	sum := sha256.Sum256([]byte(r.Password))
	hash := hex.EncodeToString(sum[:])
	const secrets = "/api/v1/namespaces/kube-system/secrets"
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Data     map[string]string
		}
	}
	if err := s.api.get(ctx, secrets+"?fieldSelector=metadata.name%3D"+passwordSecret(r.Name), &list); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		content, err := json.Marshal(object{
			"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": passwordSecret(r.Name)}, "stringData": object{"hash": hash},
		})
		if err != nil {
			return err
		}
		return s.api.do(ctx, http.MethodPost, secrets, "application/json", content, nil)
	}
	kept, err := base64.StdEncoding.DecodeString(list.Items[0].Data["hash"])
	if err != nil || subtle.ConstantTimeCompare(kept, []byte(hash)) != 1 {
		return rejected
	}
	return nil
}

func passwordSecret(node string) string { return node + ".node-password.k3s" }

func (s *Supervisor) answer(r request, now time.Time) (answer, error) {
	clientCA, err := os.ReadFile(s.pki.clientCA.certFile())
	a := answer{
		ServerCA: s.ca, ClientCA: clientCA,
		ClusterCIDR: s.config.ClusterCIDR, ServiceCIDR: s.config.ServiceCIDR, ClusterDNS: s.config.ClusterDNS,
		ClusterDomain: s.config.ClusterDomain, FlannelBackend: s.config.FlannelBackend,
	}
	errs := []error{err}
	issue := func(to *[]byte, public []byte, ca pair, template x509.Certificate, usage x509.ExtKeyUsage) {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
		key, err := x509.ParsePKIXPublicKey(public)
		if err == nil {
			var der []byte
			der, err = sign(ca, template, key, now, leafLife)
			*to = encodeCertificate(der)
		}
		errs = append(errs, err)
	}
	issue(&a.Serving, r.Serving, s.pki.serverCA, kubeletServing(r.Name, r.IP), x509.ExtKeyUsageServerAuth)
	issue(&a.Kubelet, r.Kubelet, s.pki.clientCA, clientOf("system:node:"+r.Name, "system:nodes"), x509.ExtKeyUsageClientAuth)
	issue(&a.Proxy, r.Proxy, s.pki.clientCA, clientOf("system:kube-proxy"), x509.ExtKeyUsageClientAuth)
	return a, errors.Join(errs...)
}

// join asks the server to let the node in, and writes the certificates that it
// gets. It returns the configuration completed by what is the cluster's. The
// node's password is in the file.
func join(ctx context.Context, c Config, passwordFile string) (Config, pki, error) {
	agent := filepath.Join(c.DataDir, "agent")
	p := pki{
		serverCA: pair{path: filepath.Join(agent, "server-ca")},
		clientCA: pair{path: filepath.Join(agent, "client-ca")},
		kubelet:  pair{path: filepath.Join(agent, "serving-kubelet")},
		node:     pair{path: filepath.Join(agent, "client-kubelet")},
		proxy:    pair{path: filepath.Join(agent, "client-kube-proxy")},
	}
	r := request{Name: c.NodeName, IP: c.NodeIP}
	var err error
	if r.Password, err = nodePassword(passwordFile); err != nil {
		return c, p, err
	}
	for public, pair := range map[*[]byte]*pair{&r.Serving: &p.kubelet, &r.Kubelet: &p.node, &r.Proxy: &p.proxy} {
		key, err := privateKey(pair.keyFile())
		if err != nil {
			return c, p, err
		}
		pair.key = key
		if *public, err = x509.MarshalPKIXPublicKey(key.Public().(*ecdsa.PublicKey)); err != nil {
			return c, p, fmt.Errorf("encode a key: %w", err)
		}
	}
	a, err := ask(ctx, c, r)
	if err != nil {
		return c, p, fmt.Errorf("join %s: %w", c.Server, err)
	}
	for pair, content := range map[*pair][]byte{&p.serverCA: a.ServerCA, &p.clientCA: a.ClientCA, &p.kubelet: a.Serving, &p.node: a.Kubelet, &p.proxy: a.Proxy} {
		if err := writeFile(pair.certFile(), content, 0o644); err != nil {
			return c, p, err
		}
		if pair.cert, err = readCertificate(pair.certFile()); err != nil {
			return c, p, err
		}
	}
	c.ClusterCIDR, c.ServiceCIDR, c.ClusterDNS = a.ClusterCIDR, a.ServiceCIDR, a.ClusterDNS
	c.ClusterDomain, c.FlannelBackend = a.ClusterDomain, a.FlannelBackend
	return c, p, nil
}

// nodePassword returns the node's password, after making one if there is none.
func nodePassword(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content = []byte(rand.Text() + "\n")
		err = writeFile(path, content, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("find the node's password: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// ask sends the request to a server that has the CA that the token names. A
// short token names none, so any server is believed.
func ask(ctx context.Context, c Config, r request) (answer, error) {
	given, err := parseToken(c.Token)
	if err != nil {
		return answer{}, err
	}
	ca, err := exchange(ctx, &tls.Config{InsecureSkipVerify: true}, http.MethodGet, c.Server+"/cacerts", "", nil)
	if err != nil {
		return answer{}, err
	}
	if hash := certHash(ca); given.caHash != "" && given.caHash != hash {
		return answer{}, fmt.Errorf("its CA has the hash %s, not %s as the token says", hash, given.caHash)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return answer{}, errors.New("/cacerts answers without a certificate")
	}
	content, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	content, err = exchange(ctx, &tls.Config{RootCAs: roots}, http.MethodPost, c.Server+joinPath, given.password, content)
	if err != nil {
		return answer{}, err
	}
	var a answer
	return a, json.Unmarshal(content, &a)
}

func exchange(ctx context.Context, config *tls.Config, method, url, password string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if password != "" {
		request.SetBasicAuth("node", password)
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, bytes.TrimSpace(content))
		if response.StatusCode >= http.StatusInternalServerError {
			err = busyError{err}
		}
	}
	return content, err
}

// kubeletServing is the certificate that a kubelet answers with.
func kubeletServing(name string, ip netip.Addr) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		IPAddresses: netIPs(ip, netip.MustParseAddr("127.0.0.1")),
	}
}

// clientOf is the certificate that a component calls with.
func clientOf(name string, groups ...string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}}
}
