package k3s

import (
	"fmt"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
)

// DefaultVersion is the release that is installed unless another is wanted.
const DefaultVersion = "v1.37.2+k3s1"

// Downloads is where releases are published.
const Downloads = "https://github.com/k3s-io/k3s/releases/download"

// Release returns where a release's program and image archive are published
// for an architecture as GOARCH names it, below Downloads or a mirror of it.
func Release(downloads, version, arch string) (binary, images artifact.Source, err error) {
	// The checksum file of 32-bit ARM has another name than the program.
	suffix, ok := map[string]string{"amd64": "", "arm64": "-arm64", "arm": "-armhf"}[arch]
	if !ok {
		return artifact.Source{}, artifact.Source{}, fmt.Errorf("find k3s %s: it is not published for linux/%s", version, arch)
	}
	base := strings.TrimSuffix(downloads, "/") + "/" + strings.ReplaceAll(version, "+", "%2B") + "/"
	sums := base + "sha256sum-" + arch + ".txt"
	archive := "k3s-airgap-images-" + arch
	return artifact.Source{Location: base + "k3s" + suffix, Sums: []string{sums}},
		artifact.Source{Location: base + archive + ".tar.zst", Sums: []string{sums, base + archive + ".sha256sum"}},
		nil
}
