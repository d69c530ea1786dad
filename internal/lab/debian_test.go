package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDebianImage runs a program of a package from nothing but the files of
// its image.
func TestDebianImage(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("this machine is not Debian")
	}
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root")
	}
	out := t.TempDir()
	b, err := newBuilder(context.Background(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	path := filepath.Join(out, "images.tar")
	if err := b.debianImage(context.Background(), path, "haproxy", image{name: "localhost/haproxy:debian", path: "usr/sbin/haproxy"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(out, "image")
	unpack(t, entries(t, content)["layer0"], root)

	version, err := exec.Command("chroot", root, "/usr/sbin/haproxy", "-v").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(version), "HAProxy version 2.") {
		t.Errorf("haproxy -v: %v\n%s", err, version)
	}
	manifest, err := os.ReadFile(filepath.Join(root, "usr/share/testbed/manifest.txt"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %s%s", len(content), version, manifest)
	for _, want := range []string{"package haproxy_2.", "  /usr/sbin/haproxy  package\n", "/libc.so.6  machine\n"} {
		if !strings.Contains(string(manifest), want) {
			t.Errorf("the manifest has no %q", want)
		}
	}
	// The package was unpacked only.
	if _, err := os.Stat("/etc/init.d/haproxy"); err == nil {
		t.Log("this machine has haproxy installed by other means")
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// unpack writes the files of a layer to a folder.
func unpack(t *testing.T, layer []byte, dir string) {
	t.Helper()
	archive := tar.NewReader(bytes.NewReader(layer))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, fs.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
