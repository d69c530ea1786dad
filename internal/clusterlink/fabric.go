// Package clusterlink joins clusters with ClusterLink: a fabric is one
// certificate authority, a peer is ClusterLink on one cluster with a
// certificate of its fabric, and connections, exports, imports and access
// policies say which services the peers share.
//
// The key of a fabric stays in a file on this machine. Everything else is
// objects in the clusters, which are the record of what exists: applying is
// idempotent, and a certificate in a cluster that still belongs to its fabric
// is kept.
package clusterlink

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterlink-net/clusterlink/pkg/bootstrap"
)

// FabricStatus is a fabric as others may see it.
type FabricStatus struct {
	Name        string
	Certificate string // PEM
	Fingerprint string // hex SHA-256 of the certificate
	Expires     time.Time
}

// Fabric is a certificate authority with its key, for issuing certificates.
type Fabric struct {
	FabricStatus
	authority *bootstrap.Certificate
	roots     *x509.CertPool
}

// FabricDir returns the folder that holds the certificate and the key of a
// fabric, below the folder of the testbed.
func FabricDir(dataDir, name string) string {
	return filepath.Join(dataDir, "keys", "clusterlink", name)
}

// CreateFabric makes the fabric's certificate and key. A fabric that exists in
// this folder is kept, so that a creation that was interrupted can be repeated.
func CreateFabric(ctx context.Context, dataDir, name string) (*Fabric, error) {
	fabric, err := OpenFabric(dataDir, name)
	if !errors.Is(err, fs.ErrNotExist) {
		return fabric, err
	}
	authority, err := certificate(ctx, func() (*bootstrap.Certificate, error) { return bootstrap.CreateFabricCertificate(name) })
	if err != nil {
		return nil, fmt.Errorf("create fabric %s: %w", name, err)
	}
	dir := FabricDir(dataDir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create fabric %s: %w", name, err)
	}
	// The certificate goes last: without it there is no fabric.
	if err := writeFile(filepath.Join(dir, "key.pem"), authority.RawKey()); err != nil {
		return nil, fmt.Errorf("create fabric %s: %w", name, err)
	}
	if err := writeFile(filepath.Join(dir, "cert.pem"), authority.RawCert()); err != nil {
		return nil, fmt.Errorf("create fabric %s: %w", name, err)
	}
	return OpenFabric(dataDir, name)
}

// OpenFabric returns a fabric, or an error that wraps fs.ErrNotExist when its
// certificate or its key is not there.
func OpenFabric(dataDir, name string) (*Fabric, error) {
	dir := FabricDir(dataDir, name)
	certificate, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	authority, err := bootstrap.CertificateFromRaw(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	if err := sameKey(parsed, key); err != nil {
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	}
	fabric := &Fabric{
		FabricStatus: FabricStatus{
			Name:        name,
			Certificate: string(certificate),
			Fingerprint: fingerprint(parsed),
			Expires:     parsed.NotAfter,
		},
		authority: authority,
		roots:     x509.NewCertPool(),
	}
	fabric.roots.AddCert(parsed)
	return fabric, nil
}

// RemoveFabric removes the certificate and the key of a fabric. Peers that
// have a certificate keep it.
func RemoveFabric(dataDir, name string) error {
	if err := os.RemoveAll(FabricDir(dataDir, name)); err != nil {
		return fmt.Errorf("remove fabric %s: %w", name, err)
	}
	// The parents go with the last fabric and with the last key.
	parent := filepath.Join(dataDir, "keys", "clusterlink")
	if os.Remove(parent) == nil {
		_ = os.Remove(filepath.Dir(parent))
	}
	return nil
}

// writeFile replaces a file at once.
func writeFile(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func parseCertificate(content []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.Raw)
	return hex.EncodeToString(sum[:])
}

// sameKey reports an error unless the private key, in PKCS #1 and PEM, belongs
// to the certificate.
func sameKey(certificate *x509.Certificate, key []byte) error {
	block, _ := pem.Decode(key)
	if block == nil {
		return errors.New("the key is not PEM")
	}
	private, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	public, ok := certificate.PublicKey.(*rsa.PublicKey)
	if !ok || !public.Equal(&private.PublicKey) {
		return errors.New("the key does not belong to the certificate")
	}
	return nil
}

// firstCertificate returns the first certificate of a chain in PEM.
func firstCertificate(chain []byte) []byte {
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil
	}
	return bytes.TrimSpace(pem.EncodeToMemory(block))
}

// ID names the fabric and its certificate in short, "NAME@FINGERPRINT".
func (s FabricStatus) ID() string { return s.Name + "@" + s.Fingerprint[:min(12, len(s.Fingerprint))] }

// Is reports whether the fabric is the one that a reference names: the name of
// a fabric, or its ID.
func (s FabricStatus) Is(reference string) bool { return reference == s.Name || reference == s.ID() }

// FabricName returns the name in a reference to a fabric.
func FabricName(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	return name
}
