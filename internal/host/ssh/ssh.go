// Package ssh opens hosts over SSH: machines with a system of their own, on
// which the provider works through one connection each.
//
// After logging in it puts testbed-agent on the host, once per build, and
// starts it as root in one SSH session. All requests are streams inside that
// session, in the words of package control, so arguments never meet a shell,
// and when the connection breaks, the commands that run over it end.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// Scheme begins the URL of every host that is reached by SSH.
const Scheme = "ssh://"

const defaultPort = 22

// Config says how hosts are reached and logged in to, unless a host's own
// record or the client's configuration file says it for one host.
type Config struct {
	User string // empty: as the configuration file says, else the name of who runs this

	// Keys to log in with. When PrivateKey or IdentityFiles are set, no others
	// are tried; without them it is those of the configuration file, or the
	// usual ones of ~/.ssh, and those of the SSH agent.
	PrivateKey    string // PEM or OpenSSH format
	Passphrase    string // of keys that have one
	IdentityFiles []string
	AgentSocket   string // of the SSH agent; none when empty

	ConfigFile string   // as ssh_config(5) describes it; none when empty
	KnownHosts []string // files as sshd(8) describes them

	// SkipHostKeys accepts whatever key a host without a pinned one shows.
	SkipHostKeys bool

	// Bastion is where hosts are reached through, as in ssh -J.
	Bastion string

	SudoPassword string // for users who are not root; empty: sudo asks for none

	Keepalive time.Duration // between two questions whether the host is there; 0: none are asked
	Patience  time.Duration // for the answer; 0: 30 seconds
	Timeout   time.Duration // for reaching a host and logging in; 0: 30 seconds

	Records Records       // what is known of single hosts
	Owner   control.Owner // who changes hosts

	// Dial opens connections to hosts that are not behind a bastion; nil: as
	// package net does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Target names a host by how it is reached.
type Target struct {
	User    string // empty: the configured one
	Address string // an IP address, a DNS name or a name of the configuration file
	Port    uint16 // 0: the configured one, else 22
}

// Parse reads ssh://[USER@]ADDRESS[:PORT].
func Parse(text string) (Target, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Target{}, fmt.Errorf("host %q: only %s[USER@]ADDRESS[:PORT] names a host that is reached by SSH", text, Scheme)
	}
	target, err := parseTarget(rest)
	if err != nil {
		return Target{}, fmt.Errorf("host %q: %w", text, err)
	}
	return target, nil
}

// parseTarget reads [USER@]ADDRESS[:PORT].
func parseTarget(text string) (Target, error) {
	parsed, err := url.Parse(Scheme + text)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err
		}
		return Target{}, err
	}
	target := Target{Address: parsed.Hostname()}
	if parsed.User != nil {
		target.User = parsed.User.Username()
		if _, secret := parsed.User.Password(); secret {
			return Target{}, errors.New("it holds a password, which would end up in the state; log in with a key")
		}
	}
	switch {
	case target.Address == "" || strings.ContainsAny(target.Address, " \t\n/"):
		return Target{}, errors.New("it names no address")
	case strings.HasPrefix(target.Address, "-") || strings.HasPrefix(target.User, "-"):
		return Target{}, errors.New("neither user nor address may begin with a hyphen")
	case parsed.Path != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return Target{}, errors.New("nothing may follow the address and the port")
	}
	if port := parsed.Port(); port != "" {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return Target{}, fmt.Errorf("port %s is none of 1 to 65535", port)
		}
		target.Port = uint16(number)
	}
	return target, nil
}

// URL returns the name of the host, by which Open opens it.
func (t Target) URL() string { return Scheme + t.String() }

// String returns [USER@]ADDRESS[:PORT].
func (t Target) String() string {
	text := t.Address
	if strings.Contains(text, ":") {
		text = "[" + text + "]"
	}
	if t.Port != 0 {
		text += ":" + strconv.Itoa(int(t.Port))
	}
	if t.User != "" {
		text = url.User(t.User).String() + "@" + text
	}
	return text
}

var _ host.Opener = (*Opener)(nil)

// Opener opens hosts that are reached by SSH. All who open one host share its
// connection.
type Opener struct {
	config Config

	mu    sync.Mutex
	hosts map[Target]*client
	said  map[Target]Record

	packing sync.Mutex
	packed  map[string]agent.Packed // by architecture
}

// NewOpener returns the opener for hosts that are reached as config says.
func NewOpener(config Config) *Opener {
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.Dial == nil {
		config.Dial = new(net.Dialer).DialContext
	}
	return &Opener{config: config, hosts: map[Target]*client{}, said: map[Target]Record{}, packed: map[string]agent.Packed{}}
}

// Open returns the host of that URL. It is connected to when it is first asked
// for something, and again after a connection broke.
func (o *Opener) Open(_ context.Context, url string) (host.Host, error) {
	target, err := Parse(url)
	if err != nil {
		return nil, err
	}
	return o.open(target), nil
}

func (o *Opener) open(target Target) *client {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.hosts[target]
	if found == nil {
		found = newClient(o, target)
		o.hosts[target] = found
	}
	return found
}

// Close ends all connections.
func (o *Opener) Close() error {
	o.mu.Lock()
	hosts := slices.Collect(maps.Values(o.hosts))
	o.mu.Unlock()
	for _, found := range hosts {
		found.close()
	}
	return nil
}

// agent returns the agent for an architecture. Its digest takes a while, and
// is the same for all hosts.
func (o *Opener) agent(arch string) (agent.Packed, error) {
	o.packing.Lock()
	defer o.packing.Unlock()
	found, ok := o.packed[arch]
	if ok {
		return found, nil
	}
	found, err := agent.PackedFor(arch)
	if err == nil {
		o.packed[arch] = found
	}
	return found, err
}
