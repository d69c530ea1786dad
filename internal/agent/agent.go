// Package agent holds the testbed-agent programs that the provider puts on
// hosts and into pods: one small static binary for each supported
// architecture, built by "make agent" and embedded compressed.
package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Binary is the agent for one architecture.
type Binary struct {
	Content []byte
	Digest  string // hex SHA-256 of Content
}

// For returns the agent for an architecture as GOARCH names it: "amd64",
// "arm64" or "arm".
func For(arch string) (Binary, error) {
	packed, err := dist.ReadFile("dist/testbed-agent-linux-" + arch + ".gz")
	if err != nil {
		if entries, _ := fs.Glob(dist, "dist/*.gz"); len(entries) == 0 {
			return Binary{}, fmt.Errorf("find the agent for linux/%s: this provider was built without agents; run \"make agent\" and build it again", arch)
		}
		return Binary{}, fmt.Errorf("find the agent for linux/%s: no agent is built for this architecture", arch)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Binary{}, fmt.Errorf("unpack the agent for linux/%s: %w", arch, err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		return Binary{}, fmt.Errorf("unpack the agent for linux/%s: %w", arch, err)
	}
	sum := sha256.Sum256(content)
	return Binary{Content: content, Digest: hex.EncodeToString(sum[:])}, nil
}
