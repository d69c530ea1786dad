// Package control is what the agent on a host and the provider say to each
// other: HTTP over whatever connects them, a unix socket or a stream of an SSH
// session. Running a command and dialling switch the stream from HTTP to
// frames; see Kind.
//
// One stream carries one request. Closing it means that the client has gone:
// its command ends, its connection is closed.
package control

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

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

// The frames of a running command are Stdin to Exited, those of a dialled
// connection Data and End.
//
// The client of a command sends one Stdin frame, an empty one at the end of
// the input, and waits for StdinTaken before the next: so the agent is always
// ready to notice that the client has gone, even when the command does not
// read.
const (
	Stdin Kind = iota + 1
	StdinTaken
	Stdout
	Stderr
	Exited // JSON of Exit; the last frame
	Data   // bytes of a connection
	End    // the sender's direction has ended
)

// MaxFrame is the most bytes that one frame carries.
const MaxFrame = 128 << 10

// headSize is that of a frame's kind and length.
const headSize = 5

// WriteFrame writes one frame in one piece.
func WriteFrame(w io.Writer, kind Kind, payload []byte) error {
	frame := make([]byte, headSize, headSize+len(payload))
	frame[0] = byte(kind)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (Kind, []byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind, size, err := parseHead(head)
	if err != nil {
		return 0, nil, err
	}
	payload := make([]byte, size)
	_, err = io.ReadFull(r, payload)
	return kind, payload, err
}

func parseHead(head [headSize]byte) (kind Kind, size int, err error) {
	length := binary.BigEndian.Uint32(head[1:])
	if length > MaxFrame {
		return 0, 0, fmt.Errorf("read frame: %d bytes are more than a frame holds", length)
	}
	return Kind(head[0]), int(length), nil
}

// Stream is a connection that was switched from HTTP to frames; what HTTP has
// read ahead is read first.
type Stream struct {
	net.Conn
	ahead *bufio.Reader
}

// NewStream returns conn as a Stream.
func NewStream(conn net.Conn, ahead *bufio.Reader) *Stream { return &Stream{conn, ahead} }

// Read reads what is ahead first.
func (s *Stream) Read(p []byte) (int, error) {
	if s.ahead != nil {
		if s.ahead.Buffered() > 0 {
			return s.ahead.Read(p[:min(len(p), s.ahead.Buffered())])
		}
		s.ahead = nil
	}
	return s.Conn.Read(p)
}

// Conn is a dialled connection inside the frames of a stream. It can be closed
// for writing alone, whatever carries the stream; closing it ends the stream.
type Conn struct {
	*Stream

	write sync.Mutex
	ended bool

	head  [headSize]byte // of the next frame, of which got bytes were read
	got   int
	left  int // bytes of the frame that are still to be read
	atEnd bool
}

// NewConn returns the connection that a stream carries.
func NewConn(stream *Stream) *Conn { return &Conn{Stream: stream} }

// Read reads what the other side writes, to its end. A stream that ends
// without the other side's word for it is an io.ErrUnexpectedEOF.
func (c *Conn) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.atEnd {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.Stream.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, unexpected(err)
}

// next reads a frame's head. It may be interrupted by a deadline and goes on
// where it was.
func (c *Conn) next() error {
	for c.got < headSize {
		n, err := c.Stream.Read(c.head[c.got:])
		c.got += n
		if err != nil && c.got < headSize {
			return unexpected(err)
		}
	}
	c.got = 0
	kind, size, err := parseHead(c.head)
	switch {
	case err != nil:
		return err
	case kind == Data:
		c.left = size
	case kind == End:
		c.atEnd = true
	default:
		return fmt.Errorf("read frame: kind %d does not belong to a connection", kind)
	}
	return nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends bytes to the other side.
func (c *Conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if c.ended {
		return 0, net.ErrClosed
	}
	written := 0
	for written < len(p) {
		piece := p[written:min(len(p), written+MaxFrame)]
		if err := WriteFrame(c.Stream, Data, piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}

// CloseWrite tells the other side that no more bytes come.
func (c *Conn) CloseWrite() error {
	c.write.Lock()
	defer c.write.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return WriteFrame(c.Stream, End, nil)
}
