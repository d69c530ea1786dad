package nebula

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slackhq/nebula/cert"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
)

// machine is a host in memory with an agent whose daemon takes up its files
// like the real one: the fixed part at a start, the rest at each SIGHUP.
type machine struct {
	hosttest.Fake
	public []byte
	seen   int // process and signals of the last reading
	signal int
	state  Running

	// contact is what the daemon says of its lighthouses.
	contact Contact
}

func newMachine(t *testing.T) *machine {
	m := &machine{public: publicKey(t, "25519"), contact: Contact{Tunnel: true, Answers: true, Echoes: true}}
	m.Commands = map[string]func(context.Context, host.Command) (host.Output, error){
		"testbed-agent": func(_ context.Context, command host.Command) (host.Output, error) {
			if got := strings.Join(command.Argv[1:], " "); got != "nebula keygen -curve 25519 -key /etc/nebula/host.key" {
				t.Errorf("ran %s", got)
			}
			return host.Output{Stdout: cert.MarshalPublicKeyToPEM(cert.Curve_CURVE25519, m.public)}, nil
		},
	}
	m.Connect = func(_ context.Context, network, address string) (net.Conn, error) {
		if network != "unix" || address != StatusSocket {
			t.Errorf("dialed %s %s", network, address)
		}
		service, ok := m.Services()[serviceName]
		if !ok {
			return nil, syscall.ECONNREFUSED
		}
		m.read(t, service.PID)
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_ = json.NewEncoder(theirs).Encode(m.state)
		}()
		return ours, nil
	}
	return m
}

func (m *machine) read(t *testing.T, pid int) {
	signals := len(m.Signals(serviceName))
	if pid == m.seen && signals == m.signal {
		return
	}
	files := m.Files()
	config, err := ParseConfig([]byte(files[configPath].Content))
	if err != nil {
		t.Error(err)
		return
	}
	certificate, err := ParseCertificate([]byte(files[certPath].Content))
	if err != nil {
		t.Error(err)
		return
	}
	if pid != m.seen {
		m.state.Fixed = FixedOf(config, certificate)
	}
	m.seen, m.signal = pid, signals
	m.state.Loaded = Digest([]byte(files[configPath].Content), []byte(files[caPath].Content), []byte(files[certPath].Content))
	m.state.Certificate, _ = certificate.Fingerprint()
	m.state.KeyFits = true
	m.state.Lighthouses = nil
	for _, address := range config.Lighthouse.Hosts {
		contact := m.contact
		contact.Address = address
		m.state.Lighthouses = append(m.state.Lighthouses, contact)
	}
}

// overlay has a clock on which each look takes a second.
func overlay() *Overlay {
	clock := now
	return NewOverlay(func() time.Time {
		clock = clock.Add(time.Second)
		return clock
	})
}

func TestApply(t *testing.T) {
	ctx := t.Context()
	o, m, ca := overlay(), newMachine(t), newCA(t, caSpec())
	if _, err := o.Observe(ctx, m); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("observe before: got %v, want fs.ErrNotExist", err)
	}
	if err := o.Apply(ctx, m, ca, nodeSpec()); err != nil {
		t.Fatal(err)
	}
	status, err := o.Observe(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	if !status.Up || status.Certificate.Name() != "edge" || status.Config.Tun.Dev != "nebula1" {
		t.Errorf("observed %+v", status)
	}
	for path, file := range m.Files() {
		if strings.Contains(file.Content, "PRIVATE") {
			t.Errorf("%s holds a private key", path)
		}
	}
	service := m.Services()[serviceName].Service
	if want := []string{"nebula", "run", "-config", "/etc/nebula/config.yml"}; !slices.Equal(service.Argv[1:], want) {
		t.Errorf("the service runs %q, want %q", service.Argv[1:], want)
	}
	if err := o.Remove(ctx, m); err != nil {
		t.Fatal(err)
	}
	if len(m.Files()) != 0 || len(m.Services()) != 0 {
		t.Errorf("left %v and %v", m.Files(), m.Services())
	}
}

func TestApplyChanges(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*Spec)
		reloads int
		restart bool
		renewed bool
	}{
		{"nothing", func(*Spec) {}, 0, false, false},
		{"groups", func(s *Spec) { s.Groups = []string{"edge"} }, 1, false, true},
		{"renew", func(s *Spec) { s.Renew = true }, 1, false, true},
		{"firewall", func(s *Spec) { s.Firewall = &Firewall{} }, 1, false, false},
		{"lighthouses", func(s *Spec) {
			s.Lighthouses = append(s.Lighthouses, Lighthouse{netip.MustParseAddr("198.19.0.2"), "198.18.0.3:4242"})
		}, 1, false, false},
		{"mtu", func(s *Spec) { s.MTU = 1400 }, 1, false, false},
		{"relays", func(s *Spec) { s.Relays = []netip.Addr{netip.MustParseAddr("198.19.0.1")} }, 1, false, false},
		{"unsafe networks", func(s *Spec) { s.UnsafeNetworks = []netip.Prefix{netip.MustParsePrefix("10.42.0.0/24")} }, 1, false, true},
		{"port", func(s *Spec) { s.Port = 4243 }, 0, true, false},
		{"device", func(s *Spec) { s.Device = "overlay" }, 0, true, false},
		{"network", func(s *Spec) { s.Network = netip.MustParsePrefix("198.19.0.12/24") }, 0, true, true},
		{"underlay of IPv6", func(s *Spec) { s.Lighthouses[0].Underlay = "[2001:2::2]:4242" }, 0, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			o, m, ca := overlay(), newMachine(t), newCA(t, caSpec())
			if err := o.Apply(ctx, m, ca, nodeSpec()); err != nil {
				t.Fatal(err)
			}
			pid, pem := m.Services()[serviceName].PID, m.Files()[certPath].Content
			spec := nodeSpec()
			test.change(&spec)
			if err := o.Apply(ctx, m, ca, spec); err != nil {
				t.Fatal(err)
			}
			if got := len(m.Signals(serviceName)); got != test.reloads {
				t.Errorf("reloaded %d times, want %d", got, test.reloads)
			}
			if got := m.Services()[serviceName].PID != pid; got != test.restart {
				t.Errorf("restarted is %v, want %v", got, test.restart)
			}
			if got := m.Files()[certPath].Content != pem; got != test.renewed {
				t.Errorf("a new certificate is %v, want %v", got, test.renewed)
			}
		})
	}
}

// A provider that was killed after it wrote the files and before it told the
// daemon leaves a node that is not up; the next apply makes it so.
func TestApplyGoesOn(t *testing.T) {
	ctx := t.Context()
	o, m, ca := overlay(), newMachine(t), newCA(t, caSpec())
	if err := o.Apply(ctx, m, ca, nodeSpec()); err != nil {
		t.Fatal(err)
	}
	spec := nodeSpec()
	spec.Groups = nil
	if _, err := o.write(ctx, m, "testbed-agent", ca, spec); err != nil {
		t.Fatal(err)
	}
	if status, err := o.Observe(ctx, m); err != nil || status.Up {
		t.Fatalf("observed %+v, %v; want a node that is not up", status, err)
	}
	if err := o.Apply(ctx, m, ca, spec); err != nil {
		t.Fatal(err)
	}
	if status, err := o.Observe(ctx, m); err != nil || !status.Up {
		t.Errorf("observed %+v, %v; want a node that is up", status, err)
	}
}

func TestApplyFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(*machine)
		want    string
	}{
		{"no tunnel", func(m *machine) { m.contact = Contact{} }, "lighthouse 198.19.0.1 does not answer: there is no tunnel to it"},
		{"no echo", func(m *machine) { m.contact.Echoes = false }, "lighthouse 198.19.0.1 has a tunnel but answers no ping over the overlay"},
		{"no answer", func(m *machine) { m.contact.Answers = false }, "198.19.0.1 has a tunnel but answers no question for an address"},
		{"crash", func(m *machine) {
			m.Connect = func(context.Context, string, string) (net.Conn, error) {
				m.Crash(serviceName, "exit code 1")
				m.Log(serviceName, "set up: tun: device or resource busy\n")
				return nil, syscall.ECONNREFUSED
			}
		}, "the daemon ends after each start, with exit code 1; the daemon's last lines:\nset up: tun: device or resource busy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t)
			test.prepare(m)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := overlay().Apply(ctx, m, newCA(t, caSpec()), nodeSpec())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
