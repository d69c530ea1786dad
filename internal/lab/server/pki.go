package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 365 * 24 * time.Hour

	// Leaves are renewed at a start when less than this is left of them.
	renewBefore = 120 * 24 * time.Hour

	// Certificates are valid from before they are made, since other hosts'
	// clocks may be behind.
	backdate = 24 * time.Hour
)

// pair is a certificate with its key, each in a file of its own.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
	path string // of both files, without .crt and .key
}

func (p pair) certFile() string { return p.path + ".crt" }
func (p pair) keyFile() string  { return p.path + ".key" }

// pki are the certificates of a server, in the files that k3s has them in.
type pki struct {
	serverCA, clientCA, headerCA pair

	apiserver, kubelet                                                 pair // serving
	admin, controller, scheduler, proxy, node, apiToKubelet, authProxy pair // clients

	serviceKey string // file of the key that signs service account tokens
}

// preparePKI makes the certificates that are missing, no longer fit or are
// about to expire. CAs that were there before, also foreign ones, are kept.
func preparePKI(c Config, now time.Time) (pki, error) {
	var (
		p     pki
		errs  []error
		tls   = filepath.Join(c.DataDir, "server/tls")
		agent = filepath.Join(c.DataDir, "agent")
	)
	authority := func(ca *pair, name string) {
		var err error
		*ca, err = certificate(filepath.Join(tls, name), nil, x509.Certificate{
			Subject:               pkix.Name{CommonName: "k3s-" + name},
			IsCA:                  true,
			BasicConstraintsValid: true,
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		}, now)
		errs = append(errs, err)
	}
	authority(&p.serverCA, "server-ca")
	authority(&p.clientCA, "client-ca")
	authority(&p.headerCA, "request-header-ca")
	if err := errors.Join(errs...); err != nil {
		return pki{}, err
	}

	leaf := func(to *pair, path string, ca pair, template x509.Certificate, usage x509.ExtKeyUsage) {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
		var err error
		*to, err = certificate(path, &ca, template, now)
		errs = append(errs, err)
	}
	client := func(to *pair, path string, ca pair, name string, groups ...string) {
		leaf(to, path, ca, clientOf(name, groups...), x509.ExtKeyUsageClientAuth)
	}
	client(&p.admin, filepath.Join(tls, "client-admin"), p.clientCA, "system:admin", "system:masters")
	client(&p.controller, filepath.Join(tls, "client-controller"), p.clientCA, "system:kube-controller-manager", "system:masters")
	client(&p.scheduler, filepath.Join(tls, "client-scheduler"), p.clientCA, "system:kube-scheduler")
	client(&p.proxy, filepath.Join(agent, "client-kube-proxy"), p.clientCA, "system:kube-proxy")
	client(&p.node, filepath.Join(agent, "client-kubelet"), p.clientCA, "system:node:"+c.NodeName, "system:nodes")
	client(&p.apiToKubelet, filepath.Join(tls, "client-kube-apiserver"), p.clientCA, "kube-apiserver", "system:masters")
	client(&p.authProxy, filepath.Join(tls, "client-auth-proxy"), p.headerCA, "system:auth-proxy")

	names, ips := apiNames(c)
	leaf(&p.apiserver, filepath.Join(tls, "serving-kube-apiserver"), p.serverCA,
		x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, DNSNames: names, IPAddresses: ips}, x509.ExtKeyUsageServerAuth)
	leaf(&p.kubelet, filepath.Join(agent, "serving-kubelet"), p.serverCA,
		kubeletServing(c.NodeName, c.NodeIP), x509.ExtKeyUsageServerAuth)

	p.serviceKey = filepath.Join(tls, "service.key")
	_, err := privateKey(p.serviceKey)
	return p, errors.Join(append(errs, err)...)
}

// apiNames are the names and addresses that clients call the API server by.
func apiNames(c Config) ([]string, []net.IP) {
	names := []string{c.NodeName, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + c.ClusterDomain}
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), c.NodeIP, c.Advertise, nth(c.ServiceCIDR, 1)}
	for _, san := range c.TLSSANs {
		if ip, err := netip.ParseAddr(san); err == nil {
			addrs = append(addrs, ip)
		} else {
			names = append(names, san)
		}
	}
	return names, netIPs(addrs...)
}

func netIPs(addrs ...netip.Addr) []net.IP {
	var ips []net.IP
	for _, addr := range addrs {
		ips = append(ips, addr.AsSlice())
	}
	return ips
}

// certificate returns the pair at path when it is as the template wants it,
// and makes a new one otherwise. Without a CA it is self-signed.
func certificate(path string, ca *pair, template x509.Certificate, now time.Time) (pair, error) {
	p := pair{path: path}
	key, err := privateKey(p.keyFile())
	if err != nil {
		return pair{}, err
	}
	p.key = key
	if p.cert, err = readCertificate(p.certFile()); err == nil && fits(p, ca, template, now) {
		return p, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pair{}, err
	}

	signer, life := pair{cert: &template, key: p.key}, caLife
	if ca != nil {
		signer, life = *ca, leafLife
	}
	der, err := sign(signer, template, p.key.Public(), now, life)
	if err != nil {
		return pair{}, fmt.Errorf("sign %s: %w", p.certFile(), err)
	}
	if err := writeFile(p.certFile(), encodeCertificate(der), 0o644); err != nil {
		return pair{}, err
	}
	p.cert, err = x509.ParseCertificate(der)
	return p, err
}

// sign makes a certificate of a key as the template wants it.
func sign(ca pair, template x509.Certificate, key crypto.PublicKey, now time.Time, life time.Duration) (der []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(life)
	return x509.CreateCertificate(rand.Reader, &template, ca.cert, key, ca.key)
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// fits reports whether a certificate serves as the template's would.
func fits(p pair, ca *pair, template x509.Certificate, now time.Time) bool {
	if ca == nil {
		return true
	}
	return p.cert.CheckSignatureFrom(ca.cert) == nil &&
		now.Add(renewBefore).Before(p.cert.NotAfter) &&
		p.key.Public().(*ecdsa.PublicKey).Equal(p.cert.PublicKey) &&
		p.cert.Subject.CommonName == template.Subject.CommonName &&
		slices.Equal(p.cert.Subject.Organization, template.Subject.Organization) &&
		slices.Equal(p.cert.DNSNames, template.DNSNames) &&
		slices.EqualFunc(p.cert.IPAddresses, template.IPAddresses, net.IP.Equal)
}

// privateKey returns the key at path, after making one if there is none.
func privateKey(path string) (*ecdsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("read a key: %s is not PEM", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w", path, err)
	}
	return key, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("read a certificate: %s is not PEM", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s: %w", path, err)
	}
	return cert, nil
}

// certHash is the hash that a token pins a CA by.
func certHash(certPEM []byte) string {
	sum := sha256.Sum256(certPEM)
	return hex.EncodeToString(sum[:])
}

// writeFile replaces a file at once and makes its parent folders.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	next := path + ".new"
	if err := os.WriteFile(next, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(os.Chmod(next, mode), os.Rename(next, path)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
