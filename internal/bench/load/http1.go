package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"
)

// http1 carries requests over one connection, one after the other. It exists
// because net/http's client hands each request and each answer from goroutine
// to goroutine, which at a few microseconds each is more than the path of a
// loopback takes and less exact than its times should be.
type http1 struct {
	conn    net.Conn
	wire    *wire // below conn
	in      *bufio.Reader
	request []byte // header and body
	keep    bool   // the connection can carry another request

	deadline time.Time // of the connection; a request's may be later by 1 % of its timeout
}

const (
	// atOnce is how long a request may be to be handed over before its answer
	// is read. A longer one is written while its answer is read, since a
	// function that answers before it has read all would otherwise wait for a
	// client that waits for it.
	atOnce = 64 << 10

	// afterAnswer is how long the rest of such a request may take to be handed
	// over when its answer is there.
	afterAnswer = 100 * time.Millisecond

	// maxHeaders bounds the lines of an answer's header.
	maxHeaders = 1000
)

func (h *http1) usable(idle time.Duration) bool {
	// A server that closes the connection along with its answer says so; later
	// it is found out by looking, which is not worth it within a moment.
	return h.keep && (idle < time.Millisecond || h.wire.quiet())
}

func (h *http1) close() { h.conn.Close() }

// exchange sends the request and reads its answer into body.
func (h *http1) exchange(ctx context.Context, x *exchange, body []byte) (answer, error) {
	h.keep = false
	// Setting a deadline costs as much as reading a header, so one that is a
	// little early stays.
	if x.deadline.Sub(h.deadline) > x.timeout/100 {
		h.deadline = x.deadline
		if err := h.wire.SetDeadline(x.deadline); err != nil {
			return answer{}, err
		}
	}
	if ctx.Err() != nil { // or the deadline would undo what ends the request
		return answer{}, context.Cause(ctx)
	}
	if len(h.request) > atOnce {
		return h.sideBySide(x, body)
	}
	if h.conn == h.wire {
		h.wire.ask(h.request)
		got, err := h.read(x, body)
		x.wrote = h.wire.asked()
		return got, err
	}
	if _, err := h.conn.Write(h.request); err != nil {
		return answer{}, err
	}
	x.wrote = time.Now()
	return h.read(x, body)
}

// sideBySide writes the request while it reads the answer.
func (h *http1) sideBySide(x *exchange, body []byte) (answer, error) {
	var wrote time.Time
	written := make(chan error, 1)
	go func() {
		_, err := h.conn.Write(h.request)
		wrote = time.Now()
		written <- err
	}()
	got, err := h.read(x, body)
	if err != nil || !h.keep {
		h.conn.Close() // so that writing ends
	}
	// An answer may come before the request was read, and then nobody reads it.
	unread := time.AfterFunc(afterAnswer, func() { h.conn.Close() })
	writeErr := <-written
	if !unread.Stop() || writeErr != nil {
		h.keep = false
	} else {
		x.wrote = wrote
	}
	if err != nil && writeErr != nil && !errors.Is(writeErr, net.ErrClosed) {
		err = writeErr // which came first
	}
	return got, err
}

// read reads an answer. Its body is in memory that starts as body.
func (h *http1) read(x *exchange, body []byte) (answer, error) {
	var got answer
	for {
		line, err := h.line()
		if err != nil {
			return got, err
		}
		if x.first.IsZero() {
			x.first = h.now()
		}
		if got, err = parseStatus(line); err != nil {
			return got, err
		}
		keep, length, err := h.header(bytes.HasPrefix(line, []byte("HTTP/1.1 ")))
		if err != nil {
			return got, err
		}
		if got.status >= 100 && got.status < 200 {
			continue // the answer comes after it
		}
		if got.status == http.StatusNoContent || got.status == http.StatusNotModified {
			length = 0
		}
		got.body, err = h.body(length, body)
		x.end = h.now()
		h.keep = keep && length != untilClosed && err == nil
		return got, err
	}
}

// now returns when what was last looked at was read. What has been done with it
// since then is not counted, unless it had to be decrypted.
func (h *http1) now() time.Time {
	if h.conn == h.wire {
		return h.wire.read
	}
	return time.Now()
}

// line returns the next line of a header without its end.
func (h *http1) line() ([]byte, error) {
	line, err := h.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("a line of the answer's header is longer than %d bytes", len(line))
	case err == io.EOF && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// parseStatus reads "HTTP/1.1 200 OK". It keeps nothing of the line.
func parseStatus(line []byte) (answer, error) {
	rest, ok := bytes.CutPrefix(line, []byte("HTTP/1."))
	if !ok || len(rest) < len("1 200") || rest[1] != ' ' {
		return answer{}, fmt.Errorf("the answer is no HTTP/1: it begins with %q", line[:min(len(line), 40)])
	}
	status := 0
	for _, digit := range rest[2:5] {
		if digit < '0' || digit > '9' {
			return answer{}, fmt.Errorf("the answer has no status: it begins with %q", line[:min(len(line), 40)])
		}
		status = 10*status + int(digit-'0')
	}
	got := answer{status: status}
	if status/100 != 2 { // or nobody asks for it
		got.reason = string(bytes.TrimSpace(rest[5:]))
	}
	return got, nil
}

// Lengths of a body whose length the header does not say.
const (
	untilClosed = -1
	chunked     = -2
)

// header reads the fields of a header, and returns what two of them say:
// whether the connection is kept, and how long the body is.
func (h *http1) header(keep bool) (bool, int, error) {
	length := untilClosed
	for range maxHeaders {
		line, err := h.line()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return false, 0, err
		}
		if len(line) == 0 {
			return keep, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length") && length != chunked:
			n, err := strconv.Atoi(string(value))
			if err != nil || n < 0 || n > maxPayload {
				return false, 0, fmt.Errorf("the answer's Content-Length is %q; it must be from 0 to %d", value, maxPayload)
			}
			length = n
		case is(name, "Transfer-Encoding"):
			if !is(value, "chunked") {
				return false, 0, fmt.Errorf("the answer's Transfer-Encoding is %q, which this client does not know", value)
			}
			length = chunked
		case is(name, "Connection") && is(value, "close"):
			keep = false
		case is(name, "Connection") && is(value, "keep-alive"):
			keep = true
		}
	}
	return false, 0, fmt.Errorf("the answer's header has more than %d lines", maxHeaders)
}

func is(text []byte, word string) bool {
	return len(text) == len(word) && bytes.EqualFold(text, []byte(word))
}

// body reads the body of an answer.
func (h *http1) body(length int, into []byte) ([]byte, error) {
	switch length {
	case 0:
		return into, nil
	case untilClosed:
		return readAll(h.in, into)
	case chunked:
		whole, err := readAll(httputil.NewChunkedReader(h.in), into)
		if err != nil {
			return whole, err
		}
		_, _, err = h.header(false) // the trailer
		return whole, err
	}
	if cap(into) < length {
		into = make([]byte, 0, length)
	}
	n, err := io.ReadFull(h.in, into[:length])
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return into[:n], err
}
