package nebula

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/slackhq/nebula/cert"
)

// StatusSocket is where the daemon on a host tells its Running to everyone who
// connects, as one JSON object. It answers after at most about a second, which
// it gives the lighthouses to answer.
const StatusSocket = "/run/nebula/status.sock"

// Running is what a daemon tells about itself.
type Running struct {
	// Loaded identifies the files that the daemon last read, as Digest does.
	Loaded string `json:"loaded"`

	// Fixed is what only a restart changes.
	Fixed Fixed `json:"fixed"`

	// Certificate is the fingerprint of the certificate in use.
	Certificate string `json:"certificate"`

	// KeyFits is whether the private key's file is there and belongs to the
	// certificate in use.
	KeyFits bool `json:"key_fits"`

	Lighthouses []Contact `json:"lighthouses"`
}

// Contact is what a daemon knows of one of its lighthouses.
type Contact struct {
	Address netip.Addr `json:"address"`
	Tunnel  bool       `json:"tunnel"`  // there is a tunnel to it
	Answers bool       `json:"answers"` // it answered a question for an address, as only lighthouses do
	Echoes  bool       `json:"echoes"`  // it just answered a ping over the overlay
}

// Digest identifies the content of a node's public files.
func Digest(config, ca, certificate []byte) string {
	h := sha256.New()
	for _, content := range [][]byte{config, ca, certificate} {
		sum := sha256.Sum256(content)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Fixed is the part of a configuration that Nebula reads at its start only.
// All else, certificates included, it takes up on SIGHUP.
type Fixed struct {
	Listen       ListenConfig `json:"listen"`
	AmLighthouse bool         `json:"am_lighthouse"`
	Device       string       `json:"device"`
	Network      netip.Prefix `json:"network"`
	Curve        string       `json:"curve"`
	Version      int          `json:"version"`
}

// FixedOf returns what is fixed for a daemon that starts with the
// configuration and the certificate.
func FixedOf(c Config, certificate cert.Certificate) Fixed {
	return Fixed{
		Listen:       c.Listen,
		AmLighthouse: c.Lighthouse.AmLighthouse,
		Device:       c.Tun.Dev,
		Network:      certificate.Networks()[0],
		Curve:        curveName(certificate.Curve()),
		Version:      int(certificate.Version()),
	}
}

// action is what makes a running daemon take up changed files.
type action int

const (
	keep action = iota
	reload
	restart
)

// toBecome returns what a daemon needs to become what is wanted.
func (r Running) toBecome(wanted Running) action {
	switch {
	case r.Fixed != wanted.Fixed:
		return restart
	case r.Loaded != wanted.Loaded:
		return reload
	}
	return keep
}
