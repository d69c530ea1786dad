package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// image is a container image of one program.
type image struct {
	name    string
	pkg     string   // Go package of the program
	path    string   // of the program in the image, without the leading /
	folders []string // that are there beside those of every image
	user    string   // numeric, "uid:gid"; root when empty

	program string      // file that was built
	files   []imageFile // beside the program, for one that is not static
}

// imageFile is a file of an image: a copy of a file of this machine, or the
// content when there is one.
type imageFile struct {
	path    string // in the image, without the leading /
	source  string
	content []byte
	mode    int64
}

// writeImages writes images to a tarball in the format of "docker save", which
// every containerd reads. The same programs give the same bytes.
func writeImages(file string, images []image, arch string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the images: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	archive := tar.NewWriter(out)
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifest []entry
	for _, i := range images {
		layer, err := i.layer()
		if err != nil {
			return fmt.Errorf("write image %s: %w", i.name, err)
		}
		digest := digest(layer)
		config, err := i.config(digest, arch)
		if err != nil {
			return fmt.Errorf("write image %s: %w", i.name, err)
		}
		e := entry{Config: hexDigest(config) + ".json", RepoTags: []string{i.name}, Layers: []string{hexDigest(layer) + ".tar"}}
		if err := errors.Join(addFile(archive, e.Config, config, 0o644), addFile(archive, e.Layers[0], layer, 0o644)); err != nil {
			return fmt.Errorf("write image %s: %w", i.name, err)
		}
		manifest = append(manifest, e)
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("write the images: %w", err)
	}
	return errors.Join(addFile(archive, "manifest.json", content, 0o644), archive.Close())
}

// layer is the tarball of the image's only layer.
func (i image) layer() ([]byte, error) {
	var out bytes.Buffer
	layer := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, folder := range slices.Concat([]string{"etc/ssl/certs", "tmp", path.Dir(i.path)}, i.folders) {
		if err := addFolders(layer, folder, made); err != nil {
			return nil, err
		}
	}
	for _, file := range append([]imageFile{{path: i.path, source: i.program, mode: 0o755}}, i.files...) {
		content := file.content
		if content == nil {
			var err error
			if content, err = os.ReadFile(file.source); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(addFolders(layer, path.Dir(file.path), made), addFile(layer, file.path, content, file.mode)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), layer.Close()
}

func (i image) config(layer, arch string) ([]byte, error) {
	type config struct {
		Entrypoint []string
		Env        []string
		User       string `json:",omitempty"`
	}
	type rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	return json.Marshal(struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Config       config `json:"config"`
		RootFS       rootFS `json:"rootfs"`
	}{arch, "linux", config{
		Entrypoint: []string{"/" + i.path},
		Env:        []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "SSL_CERT_DIR=/etc/ssl/certs"},
		User:       i.user,
	}, rootFS{"layers", []string{layer}}})
}

// addFolders adds a folder and those above it, each once. Any user may write
// to /tmp alone.
func addFolders(archive *tar.Writer, folder string, made map[string]bool) error {
	parts := strings.Split(folder, "/")
	for n := range parts {
		name := path.Join(parts[:n+1]...)
		if name == "." || made[name] {
			continue
		}
		made[name] = true
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}
		if name == "tmp" {
			header.Mode = 0o1777
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
	}
	return nil
}

func addFile(archive *tar.Writer, name string, content []byte, mode int64) error {
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: mode}); err != nil {
		return err
	}
	_, err := io.Copy(archive, bytes.NewReader(content))
	return err
}

func digest(content []byte) string { return "sha256:" + hexDigest(content) }

func hexDigest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
