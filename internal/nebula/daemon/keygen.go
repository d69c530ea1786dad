package daemon

import (
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slackhq/nebula/cert"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// keygen makes the host's private key, unless there is one of the curve, and
// writes its public half in PEM. The private key never leaves the file.
func keygen(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("nebula keygen", flag.ContinueOnError)
	name := flags.String("curve", nebula.Curves[0], fmt.Sprintf("one of %q", nebula.Curves))
	path := flags.String("key", filepath.Join(nebula.Dir, "host.key"), "private key `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	curve, err := nebula.ParseCurve(*name)
	if err != nil {
		return err
	}
	key, err := loadKey(*path, curve)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = makeKey(*path, curve)
	}
	if err != nil {
		return fmt.Errorf("make the private key: %w", err)
	}
	_, err = out.Write(cert.MarshalPublicKeyToPEM(curve, key.PublicKey().Bytes()))
	return err
}

func agreement(curve cert.Curve) ecdh.Curve {
	if curve == cert.Curve_P256 {
		return ecdh.P256()
	}
	return ecdh.X25519()
}

// loadKey returns the key in the file. A key of another curve counts as none,
// and so does a file without a key.
func loadKey(path string, curve cert.Curve) (*ecdh.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	raw, _, found, err := cert.UnmarshalPrivateKeyFromPEM(content)
	if err != nil || found != curve {
		return nil, fs.ErrNotExist
	}
	return agreement(curve).NewPrivateKey(raw)
}

func makeKey(path string, curve cert.Curve) (*ecdh.PrivateKey, error) {
	key, err := agreement(curve).GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(cert.MarshalPrivateKeyToPEM(curve, key.Bytes()))
	if err = errors.Join(err, temporary.Close()); err != nil {
		return nil, err
	}
	return key, os.Rename(temporary.Name(), path)
}
