package server

import (
	"crypto/x509"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	c, err := build(map[string][]string{
		"data-dir": {t.TempDir()}, "node-name": {"edge"}, "node-ip": {"198.18.1.10"}, "tls-san": {"edge.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPKI(t *testing.T) {
	c := testConfig(t)
	now := time.Now()
	first, err := preparePKI(c, now)
	if err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(first.serverCA.cert)
	for _, name := range []string{"198.18.1.10", "127.0.0.1", "10.43.0.1", "edge.example", "kubernetes.default.svc"} {
		// A host whose clock is half a day behind accepts it too.
		_, err := first.apiserver.cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now.Add(-12 * time.Hour)})
		if err != nil {
			t.Errorf("the API server's certificate as %s: %v", name, err)
		}
	}
	clients := x509.NewCertPool()
	clients.AddCert(first.clientCA.cert)
	asClient := x509.VerifyOptions{Roots: clients, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := first.node.cert.Verify(asClient); err != nil {
		t.Errorf("the kubelet's certificate: %v", err)
	}
	if got, want := first.node.cert.Subject.String(), "CN=system:node:edge,O=system:nodes"; got != want {
		t.Errorf("the kubelet is %s, want %s", got, want)
	}
	if info, err := os.Stat(first.admin.keyFile()); err != nil || info.Mode() != 0o600 {
		t.Errorf("the administrator's key: %v, %v, want mode 0600", info.Mode(), err)
	}

	serials := func(p pki) []string {
		return []string{p.serverCA.cert.SerialNumber.String(), p.apiserver.cert.SerialNumber.String(), p.admin.cert.SerialNumber.String()}
	}
	again, err := preparePKI(c, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(serials(first), serials(again)); diff != "" {
		t.Errorf("a second start made new certificates:\n%s", diff)
	}

	c.NodeIP = netip.MustParseAddr("198.18.1.11")
	moved, err := preparePKI(c, now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{serials(first)[0], "new", serials(first)[2]}
	got := serials(moved)
	if got[1] != serials(first)[1] {
		got[1] = "new"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another address needs a new serving certificate alone:\n%s", diff)
	}

	later, err := preparePKI(c, now.Add(leafLife-renewBefore+time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if serials(later)[2] == serials(moved)[2] {
		t.Error("a certificate that is about to expire was not renewed")
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	const hash = "00ff"
	made, err := prepareToken(dir, "", hash)
	if err != nil || made.password == "" {
		t.Fatalf("got %v, %v, want a token", made, err)
	}
	for _, test := range []struct{ name, given, want string }{
		{"none", "", ""},
		{"short", made.password, ""},
		{"full", made.String(), ""},
		{"another password", "secret", "differs from the one"},
		{"another CA", "K10" + "abcd" + "::server:" + made.password, "is for a CA with the hash abcd"},
		{"no user", "K10abcd", "has the form"},
		{"no password", "K10abcd::server", "has no password"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := prepareToken(dir, test.given, hash)
			if test.want == "" {
				if err != nil || got != made {
					t.Errorf("got %v, %v, want %v", got, err, made)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
	content, err := os.ReadFile(dir + "/server/node-token")
	if err != nil || string(content) != "K1000ff::server:"+made.password+"\n" {
		t.Errorf("node-token is %q, %v", content, err)
	}
}
