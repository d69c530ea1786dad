package agent

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestImage(t *testing.T) {
	binary := Binary{Content: []byte("a program"), Digest: "0123456789abcdef"}
	archive, err := binary.image("arm64")
	if err != nil {
		t.Fatal(err)
	}
	again, err := binary.image("arm64")
	if err != nil || !bytes.Equal(archive, again) {
		t.Errorf("two images of one agent differ, %v", err)
	}

	tag, err := name.NewTag("testbed.local/agent:0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User != imageUser || config.Config.Entrypoint[0] != "/testbed-agent" {
		t.Errorf("configuration %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	reader := tar.NewReader(files)
	header, err := reader.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil || header.Name != "testbed-agent" || header.Mode != 0o755 || string(content) != "a program" {
		t.Errorf("file %s mode %o %q, %v", header.Name, header.Mode, content, err)
	}
}
