package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	nebulalib "github.com/slackhq/nebula"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// echoWithin is how long lighthouses may take to answer a ping.
const echoWithin = time.Second

type daemon struct {
	control *nebulalib.Control
	fixed   nebula.Fixed // as at the start

	mu   sync.Mutex
	read files
}

// files is what the daemon read last.
type files struct {
	Loaded      string
	Fixed       nebula.Fixed
	Key         string // path
	Lighthouses []netip.Addr
}

// note keeps what the configuration at path and the files that it names say.
func (d *daemon) note(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c, err := nebula.ParseConfig(text)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.PKI.CA)
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(c.PKI.Cert)
	if err != nil {
		return err
	}
	certificate, err := nebula.ParseCertificate(pem)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = files{nebula.Digest(text, ca, pem), nebula.FixedOf(c, certificate), c.PKI.Key, c.Lighthouse.Hosts}
	return nil
}

// serve tells the daemon's state to everyone who connects to the socket, until
// ctx ends.
func (d *daemon) serve(ctx context.Context, socket string) error {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return err
	}
	// A daemon that was killed leaves its socket behind.
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("serve the status: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	var asked sync.WaitGroup
	defer asked.Wait()
	for {
		connection, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("serve the status: %w", err)
		}
		asked.Go(func() {
			defer connection.Close()
			// Whoever hung up does not need the answer.
			_ = json.NewEncoder(connection).Encode(d.status(ctx))
		})
	}
}

// status asks the lighthouses and reports. An address that all lighthouses can
// be asked for is the node's own, which they know from its announcements.
func (d *daemon) status(ctx context.Context) nebula.Running {
	d.mu.Lock()
	read := d.read
	d.mu.Unlock()
	own := d.fixed.Network.Addr()
	s := nebula.Running{Loaded: read.Loaded, Fixed: d.fixed, Lighthouses: make([]nebula.Contact, len(read.Lighthouses))}
	if certificate := d.control.GetCertByVpnIp(own); certificate != nil {
		s.Certificate, _ = certificate.Fingerprint() // fails for no certificate that was loaded
		key, err := loadKey(read.Key, certificate.Curve())
		s.KeyFits = err == nil && certificate.VerifyPrivateKey(certificate.Curve(), key.Bytes()) == nil
	}
	d.control.QueryLighthouse(own)
	var echoes sync.WaitGroup
	for i, address := range read.Lighthouses {
		echoes.Go(func() {
			s.Lighthouses[i] = nebula.Contact{Address: address, Echoes: echo(ctx, address) == nil}
		})
	}
	echoes.Wait()
	answers := d.control.QueryLighthouse(own)
	for i := range s.Lighthouses {
		l := &s.Lighthouses[i]
		l.Tunnel = d.control.GetHostInfoByVpnAddr(l.Address, false) != nil
		if answers != nil {
			_, l.Answers = (*answers)[l.Address.String()]
		}
	}
	return s
}
