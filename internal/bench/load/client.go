package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
)

// target is where the requests of a job go and what they are.
type target struct {
	Job
	url     *url.URL
	server  string // name or address that is connected to
	port    uint16
	payload []byte
	request []byte // HTTP/1.1, with the payload
}

func newTarget(job Job) (*target, error) {
	t := &target{Job: job, payload: job.payload()}
	var err error
	if t.url, err = url.Parse(job.URL); err != nil {
		return nil, err
	}
	port := t.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.url.Scheme]
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the port of %q is no number from 0 to 65535", job.URL)
	}
	t.server, t.port = t.url.Hostname(), uint16(number)

	var request bytes.Buffer
	fmt.Fprintf(&request, "%s %s HTTP/1.1\r\nHost: %s\r\n", job.method(), t.url.RequestURI(), job.host(t.url))
	for name, values := range t.header() {
		fmt.Fprintf(&request, "%s: %s\r\n", name, values[0])
	}
	if job.method() == http.MethodPost {
		fmt.Fprintf(&request, "Content-Length: %d\r\n", len(t.payload))
	}
	if job.Connection == New {
		request.WriteString("Connection: close\r\n")
	}
	request.WriteString("\r\n")
	request.Write(t.payload)
	t.request = request.Bytes()
	return t, nil
}

// header returns the fields that requests have in any protocol.
func (t *target) header() http.Header {
	header := http.Header{"User-Agent": {"testbed-load"}}
	if len(t.payload) > 0 {
		header.Set("Content-Type", "application/octet-stream")
	}
	if t.ResponseBytes > 0 {
		header.Set(server.ResponseBytesHeader, strconv.Itoa(t.ResponseBytes))
	}
	return header
}

// client sends requests to a target, one at a time, over a connection of its
// own.
type client struct {
	*target
	dials *atomic.Int64 // of all clients of the job

	session session   // nil without a connection
	wire    *wire     // below the session
	conn    int       // number of the connection, from 1
	uses    int       // requests that it has carried
	since   time.Time // when it was used last
	release func() bool

	in       *bufio.Reader // of every connection, one after the other
	exchange exchange      // the request under way
	answer   []byte        // body of the last answer; the memory is used again
}

// session is a connection that carries requests.
type session interface {
	// exchange sends the request and reads its answer, the body of which is in
	// memory that starts as body.
	exchange(ctx context.Context, x *exchange, body []byte) (answer, error)
	// usable tells whether the session can carry another request, after having
	// been idle for a while.
	usable(idle time.Duration) bool
	close()
}

// exchange is one request under way.
type exchange struct {
	timeout  time.Duration
	deadline time.Time
	wrote    time.Time // when the request had been handed over, zero when it was not
	first    time.Time // when the first byte of the answer was read
	end      time.Time // when the last byte of the answer was read
}

// answer is what came back.
type answer struct {
	status int
	reason string // of a status other than 2xx, may be empty
	body   []byte
}

func newClient(t *target, dials *atomic.Int64) *client {
	return &client{target: t, dials: dials, in: bufio.NewReaderSize(nil, 16<<10)}
}

// close gives the connection up.
func (c *client) close() {
	if c.session != nil {
		c.release()
		c.session.close()
		c.session = nil
	}
}

// send sends one request, whose time starts at start, and fills in its record.
// The answer is read to its end before it is checked, so that checking is
// outside the measured time.
func (c *client) send(ctx context.Context, record *Record, start time.Time) {
	x := &c.exchange
	*x = exchange{timeout: c.Timeout, deadline: start.Add(c.Timeout)}
	got, err := c.call(ctx, record, x, start)
	end := x.end
	if err != nil || end.IsZero() {
		end = time.Now()
	}
	record.Total = end.Sub(start)
	if !x.first.IsZero() {
		record.FirstByte = x.first.Sub(start)
	}
	if !x.wrote.IsZero() {
		record.BytesSent = len(c.payload)
	}
	connected := record.Conn > 0
	if err == nil {
		record.Read = end.Sub(x.first)
		if arrived := c.wire.arrived.Load(); arrived > 0 {
			// By the time of day, which someone may have set meanwhile.
			record.Lag += min(max(time.Duration(end.UnixNano()-arrived), 0), record.Read+record.FirstByte)
		}
	}
	record.Status, record.BytesReceived = got.status, len(got.body)
	if connected && got.body != nil {
		c.answer = got.body[:0]
	}
	record.Error, record.Detail = c.judge(got, err, connected)
	c.since = end
	if limit := c.Connection.limit(); err != nil || limit > 0 && c.uses >= limit {
		c.close()
	}
}

// call makes one request, over the connection that there is or a new one.
func (c *client) call(ctx context.Context, record *Record, x *exchange, begun time.Time) (answer, error) {
	if c.session != nil && !c.session.usable(begun.Sub(c.since)) {
		c.close()
	}
	if c.session == nil {
		if err := c.connect(ctx, record, x.deadline); err != nil {
			return answer{}, err
		}
		begun = time.Now()
	}
	record.Conn, record.Reused = c.conn, c.uses > 0
	c.uses++
	got, err := c.session.exchange(ctx, x, c.answer)
	if !x.wrote.IsZero() {
		record.Write = x.wrote.Sub(begun)
	}
	return got, err
}

// connect makes a connection.
func (c *client) connect(ctx context.Context, record *Record, deadline time.Time) error {
	dialing, cancel := context.WithTimeout(ctx, min(c.ConnectTimeout, time.Until(deadline)))
	defer cancel()
	conn, err := c.dial(dialing, record)
	if err != nil {
		return err
	}
	if c.wire, err = newWire(conn); err != nil {
		conn.Close()
		return err
	}
	var secured net.Conn = c.wire
	if c.url.Scheme == "https" {
		begun := time.Now()
		// A certificate is part of the path under measurement, not of trust:
		// nothing but generated bytes is sent.
		over := tls.Client(c.wire, &tls.Config{ServerName: c.server, InsecureSkipVerify: true})
		err := over.HandshakeContext(dialing)
		record.TLS = time.Since(begun)
		if err != nil {
			conn.Close()
			return err
		}
		secured = over
	}
	if c.Protocol == H2C {
		if c.session, err = newHTTP2(dialing, c.target, c.wire); err != nil {
			conn.Close()
			return err
		}
	} else {
		c.in.Reset(secured)
		c.session = &http1{conn: secured, wire: c.wire, in: c.in, request: c.request, keep: true}
	}
	c.conn, c.uses, c.since = int(c.dials.Add(1)), 0, time.Now()
	c.release = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return nil
}

// dial resolves the name of the target and connects to the first of its
// addresses that lets it.
func (c *client) dial(ctx context.Context, record *Record) (*net.TCPConn, error) {
	addresses, err := c.resolve(ctx, record)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	defer func() { record.Connect = time.Since(begun) }()
	var dialer net.Dialer
	var problems []error
	for _, address := range addresses {
		conn, err := dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, netip.AddrPortFrom(address.Unmap(), c.port))
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(problems...)
}

func (c *client) resolve(ctx context.Context, record *Record) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(c.server); err == nil {
		return []netip.Addr{address}, nil
	}
	begun := time.Now()
	defer func() { record.DNS = time.Since(begun) }()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", c.server)
}

// judge says what is wrong with an answer.
func (c *client) judge(got answer, err error, connected bool) (ErrorClass, string) {
	switch {
	case err != nil:
		return classify(err, connected), shorten(err.Error())
	case got.status/100 != 2:
		reason := got.reason
		if reason == "" {
			reason = http.StatusText(got.status)
		}
		return StatusError, shorten(strings.TrimSpace(fmt.Sprintf("%d %s: %s", got.status, reason, got.body[:min(len(got.body), detailLength)])))
	case c.Echo && !bytes.Equal(got.body, c.payload):
		return BodyError, fmt.Sprintf("the answer of %d bytes is not the payload of %d bytes that was sent", len(got.body), len(c.payload))
	case c.ResponseBytes > 0 && len(got.body) != c.ResponseBytes:
		return BodyError, fmt.Sprintf("the answer has %d bytes, and %d were asked for by the header %s", len(got.body), c.ResponseBytes, server.ResponseBytesHeader)
	}
	return "", ""
}

const detailLength = 200

func shorten(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > detailLength {
		text = strings.ToValidUTF8(text[:detailLength], "") + "..."
	}
	return text
}

// readAll is io.ReadAll into memory that is there already.
func readAll(r io.Reader, into []byte) ([]byte, error) {
	for {
		if len(into) == cap(into) {
			into = append(into, 0)[:len(into)]
		}
		n, err := r.Read(into[len(into):cap(into)])
		into = into[:len(into)+n]
		if err == io.EOF {
			return into, nil
		}
		if err != nil {
			return into, err
		}
		if len(into) > maxPayload {
			return into, fmt.Errorf("the answer is longer than %d bytes", maxPayload)
		}
	}
}
