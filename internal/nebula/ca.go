package nebula

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slackhq/nebula/cert"
)

// clockSkew is how far certificates reach back before the moment of their
// making: boards without a battery-backed clock start in the past.
const clockSkew = 24 * time.Hour

// Curves are the names of the curves that certificates can use, as
// nebula-cert spells them.
var Curves = []string{"25519", "P256"}

// ParseCurve turns a name of Curves into Nebula's own value.
func ParseCurve(name string) (cert.Curve, error) {
	switch name {
	case "25519":
		return cert.Curve_CURVE25519, nil
	case "P256":
		return cert.Curve_P256, nil
	}
	return 0, &FieldError{"curve", fmt.Errorf("%q is no curve of Nebula; use one of %q", name, Curves)}
}

// curveName is the inverse of ParseCurve.
func curveName(curve cert.Curve) string {
	if curve == cert.Curve_P256 {
		return "P256"
	}
	return "25519"
}

// CASpec says what a certificate authority may sign.
type CASpec struct {
	Name     string
	Networks []netip.Prefix // of hosts' overlay addresses; any when empty
	Groups   []string       // that hosts may be in; any when empty
	Duration time.Duration  // from now on
	Curve    string         // one of Curves
	Version  int            // 1 or 2, of its own and of the hosts' certificates
}

// Check returns what is wrong with the specification, as a *FieldError.
func (s CASpec) Check() error {
	if s.Name == "" || s.Name != filepath.Base(s.Name) || len(s.Name) > cert.MaxNameLength {
		return &FieldError{"name", fmt.Errorf("%q names a file; use up to %d characters and no slash", s.Name, cert.MaxNameLength)}
	}
	if s.Duration <= 0 {
		return &FieldError{"duration", fmt.Errorf("%s is no time to live; use a positive duration, for example \"8760h\"", s.Duration)}
	}
	if s.Version != 1 && s.Version != 2 {
		return &FieldError{"version", fmt.Errorf("there is no version %d of Nebula's certificates; use 1 or 2", s.Version)}
	}
	for _, network := range s.Networks {
		if s.Version == 1 && !network.Addr().Is4() {
			return &FieldError{"networks", fmt.Errorf("%s is IPv6, which certificates of version 1 cannot hold; use version 2", network)}
		}
	}
	_, err := ParseCurve(s.Curve)
	return err
}

// CA is a certificate authority with its private key.
type CA struct {
	Certificate cert.Certificate
	key         []byte
}

// NewCA makes a key and the certificate that it signs for itself.
func NewCA(spec CASpec, now time.Time) (*CA, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	curve, err := ParseCurve(spec.Curve)
	if err != nil {
		return nil, err
	}
	public, key, err := signingKey(curve)
	if err != nil {
		return nil, fmt.Errorf("make the key of CA %q: %w", spec.Name, err)
	}
	tbs := cert.TBSCertificate{
		Version:   cert.Version(spec.Version),
		Name:      spec.Name,
		Networks:  spec.Networks,
		Groups:    sorted(spec.Groups),
		IsCA:      true,
		NotBefore: now.Add(-clockSkew).Truncate(time.Second),
		NotAfter:  now.Add(spec.Duration).Truncate(time.Second),
		PublicKey: public,
		Curve:     curve,
	}
	certificate, err := tbs.Sign(nil, curve, key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of CA %q: %w", spec.Name, err)
	}
	return &CA{certificate, key}, nil
}

// signingKey makes a key pair as CAs need it, in Nebula's raw form.
func signingKey(curve cert.Curve) (public, private []byte, err error) {
	if curve == cert.Curve_CURVE25519 {
		return ed25519.GenerateKey(rand.Reader)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if public, err = key.PublicKey.Bytes(); err != nil {
		return nil, nil, err
	}
	private, err = key.Bytes()
	return public, private, err
}

// Spec returns the specification that the CA was made from.
func (ca *CA) Spec() CASpec {
	c := ca.Certificate
	return CASpec{
		Name:     c.Name(),
		Networks: c.Networks(),
		Groups:   c.Groups(),
		Duration: c.NotAfter().Sub(c.NotBefore()) - clockSkew,
		Curve:    curveName(c.Curve()),
		Version:  int(c.Version()),
	}
}

// matches reports whether a CA made from one specification can stand for the
// other, whose duration may differ.
func (s CASpec) matches(other CASpec) bool {
	return s.Name == other.Name && s.Curve == other.Curve && s.Version == other.Version &&
		slices.Equal(sortedPrefixes(s.Networks), sortedPrefixes(other.Networks)) &&
		slices.Equal(sorted(s.Groups), sorted(other.Groups))
}

// Save writes the private key and the certificate into one file that only its
// owner can read. It never replaces a file.
func (ca *CA) Save(path string) error {
	certificate, err := ca.Certificate.MarshalPEM()
	if err != nil {
		return fmt.Errorf("encode the certificate of CA %q: %w", ca.Certificate.Name(), err)
	}
	content := append(cert.MarshalSigningPrivateKeyToPEM(ca.Certificate.Curve(), ca.key), certificate...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save the key of CA %q: %w", ca.Certificate.Name(), err)
	}
	// CreateTemp makes files of mode 0600. The link appears with the whole
	// content at once, and fails where something is already.
	temporary, err := os.CreateTemp(filepath.Dir(path), ".ca-*")
	if err != nil {
		return fmt.Errorf("save the key of CA %q: %w", ca.Certificate.Name(), err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Link(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save the key of CA %q: %w", ca.Certificate.Name(), err)
	}
	return nil
}

// LoadCA reads what Save wrote. Its error wraps fs.ErrNotExist when there is
// no such file.
func LoadCA(path string) (*CA, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load the CA's key: %w", err)
	}
	key, rest, curve, err := cert.UnmarshalSigningPrivateKeyFromPEM(content)
	if err != nil {
		return nil, fmt.Errorf("load the CA's key from %s: %w", path, err)
	}
	certificate, _, err := cert.UnmarshalCertificateFromPEM(rest)
	if err != nil {
		return nil, fmt.Errorf("load the CA's certificate from %s, where it follows the key: %w", path, err)
	}
	if err := certificate.VerifyPrivateKey(curve, key); err != nil {
		return nil, fmt.Errorf("load the CA from %s: its key belongs to another certificate: %w", path, err)
	}
	return &CA{certificate, key}, nil
}

// MakeCA makes the CA and saves it at path. A file that holds such a CA
// already, left by a making that was interrupted, is taken as it is.
func MakeCA(spec CASpec, path string, now time.Time) (*CA, error) {
	made, err := NewCA(spec, now)
	if err != nil {
		return nil, err
	}
	err = made.Save(path)
	if !errors.Is(err, fs.ErrExist) {
		return made, err
	}
	found, err := LoadCA(path)
	if err != nil {
		return nil, err
	}
	if !found.Spec().matches(spec) || found.Certificate.Expired(now) {
		return nil, &FieldError{"key_file", fmt.Errorf("%s holds another CA, %q; import that one, choose another name or file, or remove the file", path, found.Certificate.Name())}
	}
	return found, nil
}

// KeyFile is where the key of a CA is unless told otherwise.
func KeyFile(dataDir, name string) string {
	return filepath.Join(dataDir, "keys", "nebula", name+".key")
}

// FindCA returns the key file below dataDir of the CA with this certificate,
// or "" when there is none.
func FindCA(dataDir string, certificate []byte) string {
	paths, _ := filepath.Glob(KeyFile(dataDir, "*")) // errs for bad patterns only
	for _, path := range paths {
		ca, err := LoadCA(path)
		if err != nil {
			continue // another CA's trouble
		}
		if text, err := ca.Certificate.MarshalPEM(); err == nil && bytes.Equal(text, certificate) {
			return path
		}
	}
	return ""
}

// RemoveCA removes the key file, and the folders of dataDir that held nothing
// else. An absent file is no error.
func RemoveCA(dataDir, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the CA's key: %w", err)
	}
	for dir := filepath.Dir(path); strings.HasPrefix(dir+"/", dataDir+"/"); dir = filepath.Dir(dir) {
		_ = os.Remove(dir) // stays when there is more in it
	}
	return nil
}

// ParseCertificate reads one certificate in PEM.
func ParseCertificate(pem []byte) (cert.Certificate, error) {
	certificate, _, err := cert.UnmarshalCertificateFromPEM(pem)
	if err != nil {
		return nil, fmt.Errorf("read a Nebula certificate: %w", err)
	}
	return certificate, nil
}

func sorted(list []string) []string {
	return slices.Sorted(slices.Values(list))
}

func sortedPrefixes(list []netip.Prefix) []netip.Prefix {
	return slices.SortedFunc(slices.Values(list), netip.Prefix.Compare)
}
