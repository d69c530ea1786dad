package clusterlink

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFabric makes a fabric and the certificates of a peer, which takes some
// seconds of looking for primes, and checks all that follows from them.
func TestFabric(t *testing.T) {
	dataDir := t.TempDir()
	if _, err := OpenFabric(dataDir, "continuum"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open a fabric that is not there: %v", err)
	}
	fabric, err := CreateFabric(t.Context(), dataDir, "continuum")
	if err != nil {
		t.Fatal(err)
	}
	again, err := CreateFabric(t.Context(), dataDir, "continuum")
	if err != nil || again.Fingerprint != fabric.Fingerprint {
		t.Errorf("create it again: %v, fingerprint %s, want %s", err, again.Fingerprint, fabric.Fingerprint)
	}
	for _, file := range []string{"key.pem", "cert.pem"} {
		info, err := os.Stat(filepath.Join(FabricDir(dataDir, "continuum"), file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if !fabric.Is("continuum") || !fabric.Is(fabric.ID()) || fabric.Is("continuum@000000000000") || FabricName(fabric.ID()) != "continuum" {
		t.Errorf("references to %s", fabric.ID())
	}

	made, err := issue(t.Context(), fabric, "edge")
	if err != nil {
		t.Fatal(err)
	}
	if err := made.verify(fabric, "edge"); err != nil {
		t.Errorf("verify: %v", err)
	}
	t.Run("secrets", func(t *testing.T) {
		read := secrets{}
		for _, object := range made.objects("2026") {
			if read[object.GetName()], err = secretData(object); err != nil {
				t.Fatal(err)
			}
			if version, want := object.GetAnnotations()[versionAnnotation], object.GetName() == peerSecret; (version == "2026") != want {
				t.Errorf("Secret %s has version %q", object.GetName(), version)
			}
		}
		if err := read.verify(fabric, "edge"); err != nil {
			t.Errorf("verify what the cluster holds: %v", err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		other, err := CreateFabric(t.Context(), dataDir, "other")
		if err != nil {
			t.Fatal(err)
		}
		mixed := secrets{}
		for name, data := range made {
			mixed[name] = data
		}
		mixed[dataplaneSecret] = secret{"cert": made[controlplaneSecret]["cert"], "key": made[controlplaneSecret]["key"]}
		for _, test := range []struct {
			name, want string
			err        error
		}{
			{"other fabric", "the cluster belongs to another fabric than other", made.verify(other, "edge")},
			{"other peer", "x509: certificate is valid for edge, not cloud", made.verify(fabric, "cloud")},
			{"half replaced", "certificate cl-dataplane", mixed.verify(fabric, "edge")},
			{"empty", "another fabric", secrets{}.verify(fabric, "edge")},
		} {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("%s: got %v, want %s", test.name, test.err, test.want)
			}
		}
		if err := RemoveFabric(dataDir, "other"); err != nil {
			t.Fatal(err)
		}
	})

	if err := RemoveFabric(dataDir, "continuum"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dataDir); err != nil || len(entries) != 0 {
		t.Errorf("left after removal: %v, %v", entries, err)
	}
}
