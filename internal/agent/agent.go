// Package agent holds the testbed-agent programs that the provider puts on
// hosts and into pods: one small static binary for each supported
// architecture, built by "make agent" and embedded compressed.
package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

// Binary is the agent for one architecture.
type Binary struct {
	Content []byte
	Digest  string // names the build
}

// For returns the agent for an architecture as GOARCH names it: "amd64",
// "arm64" or "arm".
func For(arch string) (Binary, error) {
	packed, err := packed(arch)
	if err != nil {
		return Binary{}, err
	}
	content, err := unpack(packed)
	if err != nil {
		return Binary{}, fmt.Errorf("unpack the agent for linux/%s: %w", arch, err)
	}
	return Binary{Content: content, Digest: digest(packed)}, nil
}

// Packed is the agent for one architecture as it is embedded and sent.
type Packed struct {
	Content []byte // gzip
	Sum     string // SHA256 of Content, in hexadecimal
	Size    int64  // of the unpacked program, in bytes
	Digest  string // names the build
}

// PackedFor returns the packed agent for an architecture as GOARCH names it.
func PackedFor(arch string) (Packed, error) {
	content, err := packed(arch)
	if err != nil {
		return Packed{}, err
	}
	sum := sha256.Sum256(content)
	return Packed{
		Content: content,
		Sum:     hex.EncodeToString(sum[:]),
		// The last four bytes of the format.
		Size:   int64(binary.LittleEndian.Uint32(content[len(content)-4:])),
		Digest: hex.EncodeToString(sum[:8]), // as digest has it
	}, nil
}

func packed(arch string) ([]byte, error) {
	packed, err := dist.ReadFile("dist/testbed-agent-linux-" + arch + ".gz")
	if err != nil {
		if entries, _ := fs.Glob(dist, "dist/*.gz"); len(entries) == 0 {
			return nil, fmt.Errorf("find the agent for linux/%s: this provider was built without agents; run \"make agent\" and build it again", arch)
		}
		return nil, fmt.Errorf("find the agent for linux/%s: no agent is built for this architecture", arch)
	}
	return packed, nil
}

func unpack(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

func digest(packed []byte) string {
	sum := sha256.Sum256(packed)
	return hex.EncodeToString(sum[:8])
}
