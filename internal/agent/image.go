package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imagePath is where the agent lies in its image. It is the entrypoint, so the
// arguments of a container start with the agent's command.
const imagePath = "/testbed-agent"

// imageUser runs the agent in pods; a number, so that the cluster can tell that
// it is not root.
const imageUser = "65532:65532"

// ImageName returns the reference of the agent's container image for an
// architecture. It changes with the agent, so an image of that name is always
// the right one and needs no registry.
func ImageName(arch string) (string, error) {
	binary, err := For(arch)
	if err != nil {
		return "", err
	}
	return binary.imageName(), nil
}

func (b Binary) imageName() string { return "testbed.local/agent:" + b.Digest[:12] }

// Image returns the agent's container image for an architecture as an archive
// that container runtimes import. It holds the agent and nothing else, and is
// the same for the same agent.
func Image(arch string) ([]byte, error) {
	binary, err := For(arch)
	if err != nil {
		return nil, err
	}
	archive, err := binary.image(arch)
	if err != nil {
		return nil, fmt.Errorf("make the agent's image for linux/%s: %w", arch, err)
	}
	return archive, nil
}

func (b Binary) image(arch string) ([]byte, error) {
	files, err := layer(b.Content)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	// The archive goes to a host once, so compressing takes longer than it saves.
	content, err := tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, err
	}
	config := &v1.ConfigFile{
		OS:           "linux",
		Architecture: arch,
		Config:       v1.Config{Entrypoint: []string{imagePath}, User: imageUser},
	}
	if arch == "arm" {
		config.Variant = "v7"
	}
	image, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		return nil, err
	}
	if image, err = mutate.AppendLayers(image, content); err != nil {
		return nil, err
	}
	tag, err := name.NewTag(b.imageName())
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	if err := tarball.Write(tag, image, &archive); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// layer is a tar file with the agent in it.
func layer(content []byte) ([]byte, error) {
	var files bytes.Buffer
	writer := tar.NewWriter(&files)
	header := &tar.Header{Name: imagePath[1:], Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	err := writer.Close()
	return files.Bytes(), err
}
