package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"syscall"
	"time"
)

// connection carries HTTP/1.1 requests to an endpoint, one after the other. It
// exists because net/http's client hands each request and each answer from
// goroutine to goroutine, and waking those takes longer than all else that the
// ingress does. Here the goroutine of a request writes it and reads its answer.
type connection struct {
	net.Conn
	raw   syscall.RawConn
	in    *bufio.Reader
	out   *bufio.Writer
	used  bool // it has carried a request
	quota int  // bytes that may still be read
}

const (
	// maxHeader bounds what is read of the header of an answer.
	maxHeader = 1 << 20

	// atOnce is how long the body of a request may be to be sent before the
	// answer is read. A longer one is sent while the answer is read, since a
	// function may answer before it has read all.
	atOnce = 64 << 10

	// afterFault is how long an answer may take to come when the rest of its
	// request cannot be sent.
	afterFault = 100 * time.Millisecond
)

func newConnection(made net.Conn) (*connection, error) {
	c := &connection{Conn: made}
	c.in, c.out = bufio.NewReaderSize(c, 16<<10), bufio.NewWriterSize(c, 16<<10)
	with, ok := made.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a connection of type %T has no socket", made)
	}
	var err error
	c.raw, err = with.SyscallConn()
	return c, err
}

// Read is that of the connection within the quota.
func (c *connection) Read(p []byte) (int, error) {
	if c.quota <= 0 {
		return 0, fmt.Errorf("the header of the answer is longer than %d bytes", maxHeader)
	}
	n, err := c.Conn.Read(p)
	c.quota -= n
	return n, err
}

// quiet tells whether nothing has come on a connection that waits: neither its
// end nor an answer that nobody asked for.
func (c *connection) quiet() bool {
	quiet := false
	err := c.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
	})
	return err == nil && quiet
}

// errStale is that of a connection that had carried requests and ended without
// a word about this one.
var errStale = errors.New("the connection was closed")

// exchange sends a request and reads the header of its answer. Before the body
// of the answer is waited for, flush is called; once it is read, the connection
// goes back to its endpoint.
func (c *connection) exchange(r *http.Request, e *endpoint, flush func()) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), func() { c.Close() })
	sent := c.send(r)
	answer, err := c.readHeader(r)
	if err != nil {
		stop()
		c.Close()
		if cause := context.Cause(r.Context()); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	c.used, c.quota = true, math.MaxInt
	body := &answerBody{connection: c, endpoint: e, stop: stop, sent: sent}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		answer.Body = &upgradedBody{body}
		return answer, nil
	}
	body.content, body.flush, body.reusable = answer.Body, flush, !answer.Close
	if answer.Body == http.NoBody {
		body.end()
	} else {
		answer.Body = body
	}
	return answer, nil
}

// send sends a request, the rest of a long one while its answer is read. What
// became of it is in the channel that it returns.
func (c *connection) send(r *http.Request) chan error {
	done := make(chan error, 1)
	send := func() {
		err := r.Write(c.out)
		if err == nil {
			err = c.out.Flush()
		}
		if err != nil {
			// It may be answered all the same, by a function that read no more.
			_ = c.SetReadDeadline(time.Now().Add(afterFault))
		}
		done <- err
	}
	if r.ContentLength >= 0 && r.ContentLength <= atOnce {
		send()
	} else {
		go send()
	}
	return done
}

// readHeader returns the answer to a request with its body yet to be read.
func (c *connection) readHeader(r *http.Request) (*http.Response, error) {
	c.quota = maxHeader
	if _, err := c.in.Peek(1); err != nil {
		if c.used {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return nil, err
	}
	for {
		answer, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if code := answer.StatusCode; code >= http.StatusOK || code == http.StatusSwitchingProtocols {
			return answer, nil
		}
		// The answer comes after it.
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(answer.StatusCode, textproto.MIMEHeader(answer.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// answerBody is the body of an answer, and gives the connection back after it.
type answerBody struct {
	connection *connection
	endpoint   *endpoint
	content    io.ReadCloser
	flush      func()
	stop       func() bool // minding the request's context
	sent       chan error
	reusable   bool // as far as the answer's header says
	ended      bool
}

func (b *answerBody) Read(p []byte) (int, error) {
	if !b.ended && b.connection.in.Buffered() == 0 {
		b.flush()
	}
	n, err := b.content.Read(p)
	if err != nil {
		b.reusable = b.reusable && err == io.EOF
		b.end()
	}
	return n, err
}

// Close ends the connection, too, unless the body was read.
func (b *answerBody) Close() error {
	b.reusable = false
	b.end()
	return nil
}

func (b *answerBody) end() {
	if b.ended {
		return
	}
	b.ended = true
	b.endpoint.busy.Add(-1)
	if !b.stop() || !b.reusable || b.connection.in.Buffered() > 0 {
		b.connection.Close()
		return
	}
	select {
	case err := <-b.sent:
		if err == nil {
			b.endpoint.put(b.connection)
			return
		}
	default: // not all of the request was wanted
	}
	b.connection.Close()
}

// upgradedBody is what follows an answer that switches protocols.
type upgradedBody struct{ *answerBody }

func (b *upgradedBody) Read(p []byte) (int, error)  { return b.connection.in.Read(p) }
func (b *upgradedBody) Write(p []byte) (int, error) { return b.connection.Write(p) }
