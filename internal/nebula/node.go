package nebula

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"github.com/slackhq/nebula/cert"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Dir holds the files of a node on its host.
const Dir = "/etc/nebula"

const (
	configPath = Dir + "/config.yml"
	caPath     = Dir + "/ca.crt"
	certPath   = Dir + "/host.crt"
	keyPath    = Dir + "/host.key"

	serviceName = "nebula"
)

// Spec is a node of the overlay.
type Spec struct {
	Identity

	IsLighthouse bool
	Underlay     string       // address or name at which a lighthouse is reached
	Lighthouses  []Lighthouse // of a node that is none

	Port         uint16 // of the underlay; any free one when 0
	Device       string
	MTU          int
	Relay        bool         // carry packets of nodes that name this one as their relay
	Relays       []netip.Addr // through which this node can be reached
	UnsafeRoutes []Route
	Firewall     *Firewall // everything passes when nil

	// Renew asks for a new certificate even if the present one would do.
	Renew bool
}

// Status is a node as it is on its host.
type Status struct {
	Config      Config
	ConfigText  string           // the file
	CA          string           // certificate in PEM
	Certificate cert.Certificate // nil when PEM is none
	PEM         string           // of Certificate

	// Up is whether the daemon runs with exactly these files and the host's
	// key.
	Up bool
}

// Overlay changes nodes. Nodes that run already are changed one after another,
// because two that reload at once can lose the tunnel between them.
type Overlay struct {
	now  func() time.Time
	turn chan struct{} // holds one token while a running node changes
}

// NewOverlay returns an Overlay that takes the time from now.
func NewOverlay(now func() time.Time) *Overlay {
	return &Overlay{now: now, turn: make(chan struct{}, 1)}
}

// Apply makes the host the node and returns when it is up: the daemon runs
// with this configuration, and every lighthouse answers over the overlay.
func (o *Overlay) Apply(ctx context.Context, h host.Host, ca *CA, spec Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	agent, err := h.Agent(ctx)
	if err != nil {
		return err
	}
	_, err = h.Service(ctx, serviceName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for nebula on %s: %w", h.URL(), err)
	}
	if err == nil {
		select {
		case o.turn <- struct{}{}:
			defer func() { <-o.turn }()
		case <-ctx.Done():
			return fmt.Errorf("wait until other nodes have changed before %s: %w", h.URL(), ctx.Err())
		}
	}
	wanted, err := o.write(ctx, h, agent, ca, spec)
	if err != nil {
		return fmt.Errorf("set up nebula on %s: %w", h.URL(), err)
	}
	if err := bringUp(ctx, h, agent, wanted); err != nil {
		return fmt.Errorf("start nebula on %s: %w%s", h.URL(), err, lastLog(ctx, h))
	}
	return nil
}

// write puts the node's files on the host and returns the state of a daemon
// that has read them.
func (o *Overlay) write(ctx context.Context, h host.Host, agent string, ca *CA, spec Spec) (Running, error) {
	publicKey, err := hostKey(ctx, h, agent, ca.Certificate.Curve())
	if err != nil {
		return Running{}, fmt.Errorf("make the host's key: %w", err)
	}
	certificate, err := o.certificate(ctx, h, ca, spec, publicKey)
	if err != nil {
		return Running{}, err
	}
	config := spec.Config()
	configText, err := config.YAML()
	if err != nil {
		return Running{}, err
	}
	caText, err := ca.Certificate.MarshalPEM()
	if err != nil {
		return Running{}, err
	}
	certText, err := certificate.MarshalPEM()
	if err != nil {
		return Running{}, err
	}
	fingerprint, err := certificate.Fingerprint()
	if err != nil {
		return Running{}, err
	}
	for _, file := range []struct {
		path    string
		content []byte
	}{{caPath, caText}, {certPath, certText}, {configPath, configText}} {
		if err := h.Write(ctx, file.path, 0o644, bytes.NewReader(file.content)); err != nil {
			return Running{}, err
		}
	}
	return Running{
		Loaded:      Digest(configText, caText, certText),
		Fixed:       FixedOf(config, certificate),
		Certificate: fingerprint,
	}, nil
}

// hostKey returns the public half of the host's key, which the agent makes if
// need be.
func hostKey(ctx context.Context, h host.Host, agent string, curve cert.Curve) ([]byte, error) {
	out, err := h.Run(ctx, host.Command{Argv: []string{agent, "nebula", "keygen", "-curve", curveName(curve), "-key", keyPath}})
	if err != nil {
		return nil, err
	}
	key, _, _, err := cert.UnmarshalPublicKeyFromPEM(out.Stdout)
	return key, err
}

// certificate returns the host's present certificate if it still holds, else a
// new one.
func (o *Overlay) certificate(ctx context.Context, h host.Host, ca *CA, spec Spec, publicKey []byte) (cert.Certificate, error) {
	now := o.now()
	if !spec.Renew {
		text, err := readIfAny(ctx, h, certPath)
		if err != nil {
			return nil, err
		}
		present, err := ParseCertificate(text)
		if err == nil && bytes.Equal(present.PublicKey(), publicKey) && spec.Current(present, ca.Certificate, now) == nil {
			return present, nil
		}
	}
	return ca.Sign(spec.Identity, publicKey, now)
}

// Observe returns the node on the host. The error wraps fs.ErrNotExist when
// there is no service, as after a removal by hand. Files that are missing are
// empty in Status.
func (o *Overlay) Observe(ctx context.Context, h host.Host) (Status, error) {
	service, err := h.Service(ctx, serviceName)
	if err != nil {
		return Status{}, fmt.Errorf("look for nebula on %s: %w", h.URL(), err)
	}
	var texts [3][]byte
	for i, path := range []string{configPath, caPath, certPath} {
		text, err := readIfAny(ctx, h, path)
		if err != nil {
			return Status{}, fmt.Errorf("look for nebula on %s: %w", h.URL(), err)
		}
		texts[i] = text
	}
	s := Status{ConfigText: string(texts[0]), CA: string(texts[1]), PEM: string(texts[2])}
	// What does not parse was changed by hand; the texts show it.
	s.Config, _ = ParseConfig(texts[0])
	s.Certificate, _ = ParseCertificate(texts[2])
	running, err := ask(ctx, h)
	s.Up = err == nil && !service.Changed && running.KeyFits && running.Loaded == Digest(texts[0], texts[1], texts[2])
	return s, nil
}

// Remove ends the node and removes its files and its key. A Nebula that the
// host has of its own is left alone.
func (o *Overlay) Remove(ctx context.Context, h host.Host) error {
	err := h.StopService(ctx, serviceName)
	if errors.Is(err, host.ErrForeign) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop nebula on %s: %w", h.URL(), err)
	}
	if err := h.Remove(ctx, Dir); err != nil {
		return fmt.Errorf("remove the files of nebula on %s: %w", h.URL(), err)
	}
	return nil
}

func readIfAny(ctx context.Context, h host.Host, path string) ([]byte, error) {
	content, err := h.Read(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}
