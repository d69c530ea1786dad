package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteImages wants the same bytes twice, and the entries that containerd
// reads.
func TestWriteImages(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	images := []image{
		{name: "localhost/one:1", path: "usr/local/bin/one", program: program, folders: []string{"var/lib/one"}},
		{name: "localhost/two:1", path: "two", program: program, user: "65532:65532"},
	}
	var made [2][]byte
	for i := range made {
		path := filepath.Join(dir, "images.tar")
		if err := writeImages(path, images, "amd64"); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = content
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same images gave other bytes")
	}

	outer := entries(t, made[0])
	wantManifest := `[{"Config":"` + hexDigest(outer["config0"]) + `.json","RepoTags":["localhost/one:1"],"Layers":["` + hexDigest(outer["layer0"]) + `.tar"]},` +
		`{"Config":"` + hexDigest(outer["config1"]) + `.json","RepoTags":["localhost/two:1"],"Layers":["` + hexDigest(outer["layer1"]) + `.tar"]}]`
	if diff := cmp.Diff(wantManifest, string(outer["manifest.json"])); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	wantConfig := `{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/two"],"Env":["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin","SSL_CERT_DIR=/etc/ssl/certs"],"User":"65532:65532"},` +
		`"rootfs":{"type":"layers","diff_ids":["` + digest(outer["layer1"]) + `"]}}`
	if diff := cmp.Diff(wantConfig, string(outer["config1"])); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// entries reads a tarball; configurations and layers are named by their order.
func entries(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	archive := tar.NewReader(bytes.NewReader(content))
	counts := map[string]int{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		name := header.Name
		if kind := map[string]string{".json": "config", ".tar": "layer"}[filepath.Ext(name)]; kind != "" && name != "manifest.json" {
			name = kind + string(rune('0'+counts[kind]))
			counts[kind]++
		}
		if found[name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}
