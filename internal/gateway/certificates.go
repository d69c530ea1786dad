package gateway

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// KeyAlgorithms lists the kinds of keys that certificates can have. The first
// one is ClusterLink's.
var KeyAlgorithms = []string{"rsa-4096", "ecdsa-p256"}

const (
	// validity of certificates. A testbed does not live as long.
	validity = 10 * 365 * 24 * time.Hour
	// backdating lets a host whose clock is slow accept a new certificate.
	backdating = 24 * time.Hour
	// renewal is how long before its end a certificate is made anew.
	renewal = 30 * 24 * time.Hour
)

// Files of a gateway's Secret.
const (
	authorityFile = "ca.pem"
	identityFile  = "tls.pem" // certificate and key
)

// versionAnnotation holds Spec.CertificateVersion on the Secrets.
const versionAnnotation = "testbed.local/certificate-version"

// certificates are what the two gateways trust each other by. The key of their
// authority is forgotten once both have their own certificate.
type certificates struct {
	authority      []byte // PEM
	client, server []byte // certificate and key, PEM
}

// host is the name by which the client's gateway asks the server's for a
// service; the certificate of the latter is for all of them.
func (s Spec) host(service string) string { return service + "." + s.domain() }

func (s Spec) domain() string { return s.Name + ".testbed.local" }

// names returns what the certificates of the two gateways are for.
func (s Spec) names() (client, server string) { return "client." + s.domain(), "*." + s.domain() }

// issue makes the certificates of a pair.
func issue(ctx context.Context, spec Spec, now time.Time) (certificates, error) {
	var made certificates
	authorityKey, err := newKey(ctx, spec.KeyAlgorithm)
	if err != nil {
		return made, err
	}
	authority := template("authority."+spec.domain(), now)
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	if made.authority, err = sign(authority, authority, authorityKey.Public(), authorityKey); err != nil {
		return made, err
	}
	client, server := spec.names()
	for _, side := range []struct {
		name  string
		usage x509.ExtKeyUsage
		into  *[]byte
	}{
		{client, x509.ExtKeyUsageClientAuth, &made.client},
		{server, x509.ExtKeyUsageServerAuth, &made.server},
	} {
		key, err := newKey(ctx, spec.KeyAlgorithm)
		if err != nil {
			return made, err
		}
		leaf := template(side.name, now)
		leaf.DNSNames = []string{side.name}
		leaf.KeyUsage = x509.KeyUsageDigitalSignature
		leaf.ExtKeyUsage = []x509.ExtKeyUsage{side.usage}
		certificate, err := sign(leaf, authority, key.Public(), authorityKey)
		if err != nil {
			return made, err
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return made, fmt.Errorf("make the certificate of %s: %w", side.name, err)
		}
		*side.into = append(certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	}
	return made, nil
}

// newKey makes a key, or stops waiting for it when ctx ends: the search for an
// RSA key takes seconds and cannot be ended.
func newKey(ctx context.Context, algorithm string) (crypto.Signer, error) {
	type result struct {
		key crypto.Signer
		err error
	}
	found := make(chan result, 1) // the search ends without a listener, too
	go func() {
		if algorithm == "ecdsa-p256" {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			found <- result{key, err}
			return
		}
		key, err := rsa.GenerateKey(rand.Reader, 4096)
		found <- result{key, err}
	}()
	select {
	case r := <-found:
		return r.key, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func template(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdating),
		NotAfter:  now.Add(validity),
	}
}

// sign returns a certificate in PEM.
func sign(certificate, authority *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", certificate.Subject.CommonName, err)
	}
	certificate.SerialNumber = serial
	content, err := x509.CreateCertificate(rand.Reader, certificate, authority, public, key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", certificate.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}), nil
}

// roots returns the authority as those that verify want it.
func (c certificates) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.authority)
	return roots
}

// verify says why the certificates cannot serve the pair, if they cannot.
func (c certificates) verify(spec Spec, now time.Time) error {
	if got := c.algorithm(); got != spec.KeyAlgorithm {
		return fmt.Errorf("the keys are %s", got)
	}
	client, _ := spec.names()
	for _, side := range []struct {
		name    string
		content []byte
		usage   x509.ExtKeyUsage
	}{
		{client, c.client, x509.ExtKeyUsageClientAuth},
		{spec.host("any"), c.server, x509.ExtKeyUsageServerAuth},
	} {
		pair, err := tls.X509KeyPair(side.content, side.content) // looks whether they belong together
		if err != nil {
			return fmt.Errorf("certificate of %s: %w", side.name, err)
		}
		for _, when := range []time.Time{now, now.Add(renewal)} {
			_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: side.name, Roots: c.roots(), CurrentTime: when, KeyUsages: []x509.ExtKeyUsage{side.usage}})
			if err != nil {
				return fmt.Errorf("certificate of %s: %w", side.name, err)
			}
		}
	}
	return nil
}

// algorithm returns the kind of the keys, empty when there are none.
func (c certificates) algorithm() string {
	pair, err := tls.X509KeyPair(c.client, c.client)
	if err != nil {
		return ""
	}
	switch pair.PrivateKey.(type) {
	case *rsa.PrivateKey:
		return "rsa-4096"
	case *ecdsa.PrivateKey:
		return "ecdsa-p256"
	}
	return ""
}

// certificates returns those in the clusters when they are good, and others
// when not.
func (p Pair) certificates(ctx context.Context, spec Spec, now time.Time) (certificates, error) {
	found, version, err := p.readCertificates(ctx, spec)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return certificates{}, err
	}
	if err == nil && version == spec.CertificateVersion && found.verify(spec, now) == nil {
		return found, nil
	}
	return issue(ctx, spec, now)
}

// readCertificates returns the certificates that the clusters have. Gateways
// with another version or another authority each are as good as none.
func (p Pair) readCertificates(ctx context.Context, spec Spec) (found certificates, version string, err error) {
	client, err := p.Client.Get(ctx, secretRef(spec, clientName))
	if err != nil {
		return certificates{}, "", err
	}
	server, err := p.Server.Get(ctx, secretRef(spec, serverName))
	if err != nil {
		return certificates{}, "", err
	}
	version = client.GetAnnotations()[versionAnnotation]
	found.authority, found.client = secretFile(client, authorityFile), secretFile(client, identityFile)
	found.server = secretFile(server, identityFile)
	if !bytes.Equal(found.authority, secretFile(server, authorityFile)) || version != server.GetAnnotations()[versionAnnotation] {
		return certificates{}, "", nil
	}
	return found, version, nil
}

func secretRef(spec Spec, side string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: spec.namespace(), Name: side}
}

// secretFile returns a file of a Secret, none when it is not there or damaged.
func secretFile(secret *unstructured.Unstructured, name string) []byte {
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", name)
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return content
}
