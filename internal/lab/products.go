package main

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/lab/server"
)

// product is a file that the lab makes.
type product struct {
	name   string
	cold   string   // how long it takes without a build cache, on 2 cores
	extra  bool     // made only when it is named
	inputs []string // files and folders that it depends on
	build  func(ctx context.Context, b *builder, path string) error
}

// traefik is the module of Traefik, which is built in its own folder: it has
// replacements that another module would have to repeat.
const (
	traefik        = "github.com/traefik/traefik/v3"
	traefikVersion = "v3.6.12"
)

const clusterLink = "github.com/clusterlink-net/clusterlink/cmd/"

func products() []product {
	arch := runtime.GOARCH
	return []product{
		{
			name:   k3sName(arch),
			cold:   "about 12 minutes",
			inputs: []string{"go.mod", "go.sum", "k3s", "server"},
			build: func(ctx context.Context, b *builder, path string) error {
				const version = "k8s.io/component-base/version."
				return b.goBuild(ctx, ".", path, "./k3s",
					"-X "+version+"gitVersion="+server.Version, "-X "+version+"gitMajor=1", "-X "+version+"gitMinor=37")
			},
		},
		{
			name:   "k3s-airgap-images-" + arch + ".tar",
			cold:   "less than a minute",
			inputs: []string{"go.mod", "go.sum", "coredns", "pause", "server/version.go"},
			build: func(ctx context.Context, b *builder, path string) error {
				return b.images(ctx, ".", path, []image{
					{name: server.PauseImage, pkg: "./pause", path: "pause", user: "65535:65535"},
					{name: server.CoreDNSImage, pkg: "./coredns", path: "coredns"},
				})
			},
		},
		{
			name:   "clusterlink-images-" + arch + ".tar",
			cold:   "about 3 minutes",
			inputs: []string{"clusterlink"},
			build: func(ctx context.Context, b *builder, path string) error {
				const registry, tag = "ghcr.io/clusterlink-net/", ":v0.4.1"
				folders := []string{"etc/ssl/private", "var/lib/clink"}
				return b.images(ctx, "clusterlink", path, []image{
					{name: registry + "cl-controlplane" + tag, pkg: clusterLink + "cl-controlplane", path: "usr/local/bin/cl-controlplane", folders: folders},
					{name: registry + "cl-go-dataplane" + tag, pkg: clusterLink + "cl-go-dataplane", path: "usr/local/bin/cl-go-dataplane", folders: folders},
					{name: registry + "cl-operator" + tag, pkg: clusterLink + "cl-operator", path: "cl-operator", user: "65532:65532"},
				})
			},
		},
		{
			name:   "gateway-images-" + arch + ".tar",
			cold:   "seconds",
			inputs: []string{"debian.go"},
			build: func(ctx context.Context, b *builder, path string) error {
				return b.debianImage(ctx, path, "haproxy", image{name: "localhost/haproxy:debian", path: "usr/sbin/haproxy", user: "65532:65532"})
			},
		},
		{
			name:   "knative-serving.yaml",
			cold:   "a few seconds",
			inputs: []string{"knative", "knative.go"},
			build:  func(ctx context.Context, _ *builder, path string) error { return knativeManifest(ctx, path) },
		},
		{
			name:   "knative-images-" + arch + ".tar",
			cold:   "about 6 minutes",
			inputs: []string{"knative", "knative.go"},
			build: func(ctx context.Context, b *builder, path string) error {
				var images []image
				for _, program := range knativePrograms {
					images = append(images, image{name: knativeImage(program), pkg: knativeServing + program, path: "ko-app/" + program, user: "65532:65532"})
				}
				return b.images(ctx, "knative", path, images)
			},
		},
		{
			name:   "knative-conformance",
			cold:   "a minute",
			inputs: []string{"knative", "knative/conformance/ingress_test.go"},
			build: func(ctx context.Context, b *builder, path string) error {
				return b.goTest(ctx, "knative", path, "./conformance")
			},
		},
		{
			name:   "knative-conformance-images-" + arch + ".tar",
			cold:   "half a minute",
			inputs: []string{"knative", "knative.go"},
			build: func(ctx context.Context, b *builder, path string) error {
				var images []image
				for _, name := range conformanceImages {
					images = append(images, image{name: "dev.local/" + conformance + name + ":" + knativeVersion, pkg: conformance + name, path: "ko-app/" + name, user: "65532:65532"})
				}
				return b.images(ctx, "knative", path, images)
			},
		},
		{
			name:   "traefik-images-" + arch + ".tar",
			cold:   "about 8 minutes",
			extra:  true,
			inputs: []string{"traefik"},
			build: func(ctx context.Context, b *builder, path string) error {
				folder, err := moduleFolder(ctx, "traefik", traefik)
				if err != nil {
					return err
				}
				return b.images(ctx, folder, path, []image{{name: "localhost/traefik:" + traefikVersion, pkg: "./cmd/traefik", path: "traefik", user: "65532:65532"}})
			},
		},
	}
}

// k3sName is what k3s's releases call the program.
func k3sName(arch string) string {
	if arch == "amd64" {
		return "k3s"
	}
	return "k3s-" + arch
}

// debianImage writes an image of a program of a Debian package to a tarball.
func (b *builder) debianImage(ctx context.Context, path, name string, made image) error {
	unpacked, err := unpackDebian(ctx, name, filepath.Join(b.temp, name))
	if err != nil {
		return err
	}
	files, err := unpacked.files(made.path)
	if err != nil {
		return err
	}
	made.program, made.files = files[0].source, files[1:]
	return writeImages(path, []image{made}, runtime.GOARCH)
}

// images builds a program for each image and writes them all to one tarball.
func (b *builder) images(ctx context.Context, module, path string, images []image) error {
	for i := range images {
		images[i].program = filepath.Join(b.temp, filepath.Base(images[i].path))
		if err := b.goBuild(ctx, module, images[i].program, images[i].pkg); err != nil {
			return err
		}
	}
	return writeImages(path, images, runtime.GOARCH)
}
