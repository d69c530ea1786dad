package control

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Owner is who works on a host, for the others who want to.
type Owner struct {
	ID   string `json:"id"`   // the same for all connections of one run of Terraform
	Name string `json:"name"` // for people
}

// Begin is what the provider says first on a connection that carries many
// streams.
type Begin struct {
	Owner     Owner         `json:"owner"`
	Keepalive time.Duration `json:"keepalive"` // between two questions whether the other side is there
	Patience  time.Duration `json:"patience"`  // for the answer, after which the connection is taken for broken
}

// The first line of each side. What comes before it is not of this protocol:
// what a login script prints, for example.
const (
	helloLine = "testbed-agent: hello"
	beginLine = "testbed-agent: begin "
)

// maxPreamble bounds what comes before the first line, in bytes.
const maxPreamble = 64 << 10

// defaultPatience is that of a connection which says nothing else.
const defaultPatience = 30 * time.Second

// Session is a connection that carries many streams.
type Session struct {
	streams *yamux.Session
}

var _ net.Listener = (*Session)(nil)

// Serve begins the agent's side of a session on a connection. It returns what
// the provider said.
func Serve(conn io.ReadWriteCloser) (*Session, Begin, error) {
	if _, err := io.WriteString(conn, helloLine+"\n"); err != nil {
		return nil, Begin{}, fmt.Errorf("greet the provider: %w", err)
	}
	reader := bufio.NewReader(conn)
	line, err := await(reader, beginLine)
	if err != nil {
		return nil, Begin{}, fmt.Errorf("wait for the provider: %w", err)
	}
	var begin Begin
	if err := json.Unmarshal([]byte(line), &begin); err != nil {
		return nil, Begin{}, fmt.Errorf("read what the provider says: %w", err)
	}
	session, err := yamux.Server(buffered{reader, conn}, settings(begin))
	if err != nil {
		return nil, Begin{}, err
	}
	return &Session{session}, begin, nil
}

// Connect begins the provider's side of a session on a connection to an
// agent.
func Connect(conn io.ReadWriteCloser, begin Begin) (*Session, error) {
	reader := bufio.NewReader(conn)
	if _, err := await(reader, helloLine); err != nil {
		return nil, fmt.Errorf("wait for the agent: %w", err)
	}
	text, err := json.Marshal(begin)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "%s%s\n", beginLine, text); err != nil {
		return nil, fmt.Errorf("answer the agent: %w", err)
	}
	session, err := yamux.Client(buffered{reader, conn}, settings(begin))
	if err != nil {
		return nil, err
	}
	return &Session{session}, nil
}

// await reads to the line with that beginning and returns the rest of it.
func await(reader *bufio.Reader, beginning string) (string, error) {
	for read := 0; read < maxPreamble; {
		line, err := reader.ReadString('\n')
		read += len(line)
		if _, rest, ok := strings.Cut(line, beginning); ok && err == nil {
			return strings.TrimSpace(rest), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", errors.New("something else than the agent answers")
}

func settings(begin Begin) *yamux.Config {
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard // every error is returned as well
	config.EnableKeepAlive = begin.Keepalive > 0
	if begin.Keepalive > 0 {
		config.KeepAliveInterval = begin.Keepalive
	}
	config.ConnectionWriteTimeout = cmp.Or(begin.Patience, defaultPatience)
	config.MaxStreamWindowSize = 1 << 20
	return config
}

// buffered is a connection of which something was read ahead.
type buffered struct {
	io.Reader
	conn io.WriteCloser
}

func (b buffered) Write(p []byte) (int, error) { return b.conn.Write(p) }
func (b buffered) Close() error                { return b.conn.Close() }

// Open opens a stream to the other side.
func (s *Session) Open(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	stream, err := s.streams.OpenStream()
	if err != nil {
		return nil, err
	}
	return &muxed{Stream: stream}, nil
}

// Accept waits for a stream that the other side opens.
func (s *Session) Accept() (net.Conn, error) {
	stream, err := s.streams.AcceptStream()
	if err != nil {
		return nil, err
	}
	return &muxed{Stream: stream}, nil
}

// Close ends the session with all its streams, and the connection.
func (s *Session) Close() error { return s.streams.Close() }

// Addr is that of the connection, as far as it has one.
func (s *Session) Addr() net.Addr { return s.streams.Addr() }

// Done is closed when the session has ended, for whatever reason.
func (s *Session) Done() <-chan struct{} { return s.streams.CloseChan() }

// muxed is a stream whose Close ends both directions: that of the library
// leaves reading as it is.
type muxed struct {
	*yamux.Stream
	once sync.Once
}

func (m *muxed) Close() error {
	m.once.Do(func() {
		_ = m.Stream.Close()
		_ = m.SetReadDeadline(time.Unix(1, 0))
	})
	return nil
}
