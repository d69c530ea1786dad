package nebula

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slackhq/nebula/cert"
)

// now is the present, because Nebula takes no CA into its pool that has ended.
var now = time.Now()

func caSpec() CASpec {
	return CASpec{
		Name:     "lab",
		Networks: []netip.Prefix{netip.MustParsePrefix("198.19.0.0/24")},
		Groups:   []string{"k3s", "edge"},
		Duration: 1000 * time.Hour,
		Curve:    "25519",
		Version:  2,
	}
}

func newCA(t *testing.T, spec CASpec) *CA {
	t.Helper()
	ca, err := NewCA(spec, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestCA(t *testing.T) {
	for _, curve := range Curves {
		for _, version := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s version %d", curve, version), func(t *testing.T) {
				spec := caSpec()
				spec.Curve, spec.Version = curve, version
				ca := newCA(t, spec)
				c := ca.Certificate
				if want := now.Add(-24 * time.Hour).Truncate(time.Second); !c.NotBefore().Equal(want) {
					t.Errorf("NotBefore is %s, want a day before it was made: %s", c.NotBefore(), want)
				}
				if want := now.Add(spec.Duration).Truncate(time.Second); !c.NotAfter().Equal(want) {
					t.Errorf("NotAfter is %s, want %s", c.NotAfter(), want)
				}
				if !c.IsCA() || !c.CheckSignature(c.PublicKey()) {
					t.Error("it is not a CA that signed itself")
				}
				if !spec.matches(ca.Spec()) || ca.Spec().Duration != spec.Duration {
					t.Errorf("Spec() is %+v, want %+v", ca.Spec(), spec)
				}
			})
		}
	}
}

func TestCASpecCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*CASpec)
		want   string
	}{
		{"slash", func(s *CASpec) { s.Name = "a/b" }, `name: "a/b" names a file`},
		{"no name", func(s *CASpec) { s.Name = "" }, "name: "},
		{"no duration", func(s *CASpec) { s.Duration = 0 }, "duration: 0s is no time to live"},
		{"curve", func(s *CASpec) { s.Curve = "ed448" }, `curve: "ed448" is no curve of Nebula`},
		{"version", func(s *CASpec) { s.Version = 3 }, "version: there is no version 3"},
		{"IPv6", func(s *CASpec) {
			s.Version = 1
			s.Networks = []netip.Prefix{netip.MustParsePrefix("2001:2::/48")}
		}, "networks: 2001:2::/48 is IPv6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := caSpec()
			test.change(&spec)
			_, err := NewCA(spec, now)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCAFile(t *testing.T) {
	dataDir := t.TempDir()
	path := KeyFile(dataDir, "lab")
	made, err := MakeCA(caSpec(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("the key file has mode %v, want 0600", info.Mode())
	}
	text, err := made.Certificate.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "PRIVATE") {
		t.Error("the certificate holds a private key")
	}

	// A making that was interrupted after the file was there goes on with it.
	again, err := MakeCA(caSpec(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Certificate.Signature(), again.Certificate.Signature()); diff != "" {
		t.Errorf("another certificate (-made +again):\n%s", diff)
	}
	if got := FindCA(dataDir, text); got != path {
		t.Errorf("FindCA() is %q, want %q", got, path)
	}

	other := caSpec()
	other.Groups = nil
	_, err = MakeCA(other, path, now)
	var field *FieldError
	if !errors.As(err, &field) || field.Field != "key_file" {
		t.Errorf("making another CA over it: got %v, want an error about key_file", err)
	}

	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, want the key file only", entries)
	}
	if err := RemoveCA(dataDir, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dataDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty data folder is still there: %v", err)
	}
	if err := RemoveCA(dataDir, path); err != nil {
		t.Errorf("remove it again: %v", err)
	}
	if _, err := LoadCA(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("load it then: got %v, want fs.ErrNotExist", err)
	}
}

func TestRemoveCALeavesOtherFiles(t *testing.T) {
	dataDir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		spec := caSpec()
		spec.Name = name
		if _, err := MakeCA(spec, KeyFile(dataDir, name), now); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveCA(dataDir, KeyFile(dataDir, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCA(KeyFile(dataDir, "b")); err != nil {
		t.Error(err)
	}
}

func TestLoadCARefusesAnotherKey(t *testing.T) {
	a, b := newCA(t, caSpec()), newCA(t, caSpec())
	path := filepath.Join(t.TempDir(), "key")
	if err := (&CA{a.Certificate, b.key}).Save(path); err != nil {
		t.Fatal(err)
	}
	_, err := LoadCA(path)
	if err == nil || !strings.Contains(err.Error(), "belongs to another certificate") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, cert.MarshalPublicKeyToPEM(cert.Curve_CURVE25519, make([]byte, 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCA(path); err == nil {
		t.Error("took a public key for a private one")
	}
}
