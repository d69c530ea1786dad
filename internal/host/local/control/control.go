// Package control is what a local host's init and its clients say to each
// other: HTTP over a unix socket. Running a command and dialling switch the
// connection to a protocol of their own; see Frame and Upgrade.
package control

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
)

// Paths inside a host.
const (
	Socket = "/run/testbed/init.sock"
	Agents = "/run/testbed/agent" // the testbed's installed agents, read-only
	Logs   = "/var/log/testbed"   // of the services
	Hosts  = "/etc/hosts"
)

// Setup is what init needs to know for making a host.
type Setup struct {
	Name      string       `json:"name"`
	DataDir   datadir.Dir  `json:"data_dir"`
	Cgroup    string       `json:"cgroup"` // the host's group, relative to the hierarchies' roots
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// HostsFile returns the content of /etc/hosts.
func HostsFile(name string, addresses []netip.Addr) string {
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	for _, address := range addresses {
		fmt.Fprintf(&text, "%s %s\n", address, name)
	}
	if len(addresses) == 0 {
		fmt.Fprintf(&text, "127.0.1.1 %s\n", name)
	}
	return text.String()
}

// Run is the request to run a command.
type Run struct {
	Argv  []string `json:"argv"`
	Env   []string `json:"env,omitempty"`
	Dir   string   `json:"dir,omitempty"`
	Stdin bool     `json:"stdin,omitempty"` // the client will send input
}

// Exit is how a command ended, or why it could not be started.
type Exit struct {
	Code   int    `json:"code"`
	Error  string `json:"error,omitempty"`
	Absent bool   `json:"absent,omitempty"` // there is no such program
}

// Headers of a failed dial, which tell the client the error's kind.
const (
	ErrnoHeader   = "Testbed-Errno"
	TimeoutHeader = "Testbed-Timeout"
)

// Kind says what a frame carries.
type Kind byte

// The frames of a running command. The client sends one Stdin frame, an empty
// one at the end of the input, and waits for StdinTaken before the next: so
// init is always ready to notice that the client has gone, even when the
// command does not read.
const (
	Stdin Kind = iota + 1
	StdinTaken
	Stdout
	Stderr
	Exited // JSON of Exit; the last frame
)

// MaxFrame is the most bytes that one frame carries.
const MaxFrame = 128 << 10

// WriteFrame writes one frame in one piece.
func WriteFrame(w io.Writer, kind Kind, payload []byte) error {
	frame := make([]byte, 5, 5+len(payload))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > MaxFrame {
		return 0, nil, fmt.Errorf("read frame: %d bytes are more than a frame holds", size)
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(r, payload)
	return Kind(head[0]), payload, err
}

// Conn is a connection that was switched from HTTP to another protocol; what
// HTTP has read ahead is read first.
type Conn struct {
	HalfCloser
	ahead *bufio.Reader
}

// HalfCloser is a connection that can be closed for writing alone.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}

// NewConn returns conn as a Conn.
func NewConn(conn HalfCloser, ahead *bufio.Reader) *Conn { return &Conn{conn, ahead} }

// Read reads what is ahead first.
func (c *Conn) Read(p []byte) (int, error) {
	if c.ahead != nil {
		if c.ahead.Buffered() > 0 {
			return c.ahead.Read(p[:min(len(p), c.ahead.Buffered())])
		}
		c.ahead = nil
	}
	return c.HalfCloser.Read(p)
}
