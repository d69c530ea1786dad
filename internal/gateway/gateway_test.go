package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	pair = Spec{
		Name: "edge-cloud",
		Services: map[string]Service{
			"hello-world": {Namespace: "default", Name: "hello-world", Port: 8080, ListenPort: 80},
			"echo":        {Namespace: "apps", Name: "payload-echo", Port: 9090, ListenPort: 8000},
		},
		Image: "localhost/haproxy:debian", KeyAlgorithm: "ecdsa-p256", CertificateVersion: "1",
	}
	keys = certificates{authority: []byte("authority"), client: []byte("client"), server: []byte("server")}
	day  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// TestRender compares all objects with golden files.
func TestRender(t *testing.T) {
	fixed := pair
	fixed.NodePort = 30443
	for name, objects := range map[string][]*unstructured.Unstructured{
		"client": append(clientSide(pair, keys, "198.19.0.12:30443").objects(pair), pair.clientServices()...),
		"server": append(serverSide(pair, keys).objects(pair), fixed.gatewayService()),
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, object := range objects {
				content, err := yaml.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString("---\n" + string(content))
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestListenPorts wants a service to keep its port when others come.
func TestListenPorts(t *testing.T) {
	services := map[string]Service{}
	for _, name := range []string{"b", "d"} {
		services[name] = Service{}
	}
	before := listenPorts(services)
	services["a"], services["c"] = Service{}, Service{}
	after := listenPorts(services)
	if len(after) != 4 || after["b"] != before["b"] || after["d"] != before["d"] {
		t.Errorf("the ports %v became %v", before, after)
	}
	seen := map[int]bool{}
	for i := range 3000 {
		services[strings.Repeat("x", i%50)+string(rune('a'+i%26))+time.Duration(i).String()] = Service{}
	}
	for name, port := range listenPorts(services) {
		if seen[port] || port < 10000 || port >= 30000 {
			t.Fatalf("%s has port %d, which is taken or out of range", name, port)
		}
		seen[port] = true
	}
}

// TestDigest wants pods to be replaced when a certificate or the configuration
// changes.
func TestDigest(t *testing.T) {
	first, err := issue(t.Context(), pair, day)
	if err != nil {
		t.Fatal(err)
	}
	second, err := issue(t.Context(), pair, day)
	if err != nil {
		t.Fatal(err)
	}
	fewer := pair
	fewer.Services = map[string]Service{"echo": pair.Services["echo"]}
	digests := map[string]bool{}
	for _, side := range []side{
		serverSide(pair, first), serverSide(pair, second), serverSide(fewer, first),
		clientSide(pair, first, "198.19.0.12:30443"), clientSide(pair, first, "198.19.0.12:30444"),
	} {
		digests[side.digest()] = true
	}
	if len(digests) != 5 {
		t.Errorf("5 configurations have %d digests", len(digests))
	}
	if once, again := serverSide(pair, first), serverSide(pair, first); once.digest() != again.digest() {
		t.Error("the same configuration has two digests")
	}
}

func TestCertificates(t *testing.T) {
	made, err := issue(t.Context(), pair, day)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.verify(pair, day); err != nil {
		t.Error(err)
	}
	other, err := issue(t.Context(), pair, day)
	if err != nil {
		t.Fatal(err)
	}
	renamed, rsa := pair, pair
	renamed.Name, rsa.KeyAlgorithm = "fog-cloud", "rsa-4096"
	swapped := made
	swapped.client, swapped.server = made.server, made.client
	foreign := made
	foreign.server = other.server
	for name, test := range map[string]struct {
		keys certificates
		spec Spec
		now  time.Time
		want string
	}{
		"none":          {certificates{}, pair, day, "the keys are "},
		"other name":    {made, renamed, day, "not client.fog-cloud.testbed.local"},
		"other keys":    {made, rsa, day, "the keys are ecdsa-p256"},
		"other fabric":  {foreign, pair, day, "certificate signed by unknown authority"},
		"swapped":       {swapped, pair, day, "client.edge-cloud.testbed.local"},
		"ends soon":     {made, pair, day.Add(validity - 20*24*time.Hour), "has expired"},
		"slow clock":    {made, pair, day.Add(-23 * time.Hour), ""},
		"too slow":      {made, pair, day.Add(-25 * time.Hour), "not yet valid"},
		"no client key": {certificates{authority: made.authority, client: made.authority, server: made.server}, pair, day, "the keys are "},
	} {
		err := test.keys.verify(test.spec, test.now)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestMutualTLS wants both ends to be content with each other, and neither with
// the certificate of another pair.
func TestMutualTLS(t *testing.T) {
	ours, err := issue(t.Context(), pair, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := issue(t.Context(), pair, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		client certificates
		ok     bool
	}{"same pair": {ours, true}, "other pair": {theirs, false}} {
		identity, err := tls.X509KeyPair(ours.server, ours.server)
		if err != nil {
			t.Fatal(err)
		}
		own, err := tls.X509KeyPair(test.client.client, test.client.client)
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		server := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{identity}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.roots()})
		go func() {
			if server.Handshake() == nil {
				_, _ = server.Write([]byte("x"))
			}
			_ = a.Close()
		}()
		client := tls.Client(b, &tls.Config{ServerName: pair.host("hello-world"), RootCAs: ours.roots(), Certificates: []tls.Certificate{own}})
		_, err = io.ReadAll(client)
		_ = b.Close()
		if ok := err == nil || strings.Contains(err.Error(), "EOF"); ok != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKeys wants RSA keys to be as long as ClusterLink's.
func TestKeys(t *testing.T) {
	spec := pair
	spec.KeyAlgorithm = KeyAlgorithms[0]
	made, err := issue(t.Context(), spec, day)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.verify(spec, day); err != nil {
		t.Error(err)
	}
	identity, err := tls.X509KeyPair(made.server, made.server)
	if err != nil {
		t.Fatal(err)
	}
	if got := identity.Leaf.PublicKeyAlgorithm; got != x509.RSA {
		t.Errorf("the key is %s", got)
	}
}

// TestServicesRecord wants what is written beside the configuration to be read
// back as it was.
func TestServicesRecord(t *testing.T) {
	objects := serverSide(pair, keys).objects(pair)
	text, _, _ := unstructured.NestedString(objects[2].Object, "data", servicesFile)
	var services map[string]Service
	if err := json.Unmarshal([]byte(text), &services); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pair.Services, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}
