package load

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// http2 carries requests over one HTTP/2 connection, one after the other:
// streams of one connection that wait for each other would be another
// experiment.
type http2 struct {
	conn   *http.ClientConn
	target *target
}

func newHTTP2(ctx context.Context, t *target, wire *wire) (*http2, error) {
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return wire, nil },
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	conn, err := transport.NewClientConn(ctx, "http", wire.RemoteAddr().String())
	if err != nil {
		return nil, fmt.Errorf("begin HTTP/2: %w", err)
	}
	return &http2{conn: conn, target: t}, nil
}

func (h *http2) usable(time.Duration) bool { return h.conn.Err() == nil && h.conn.Available() > 0 }

func (h *http2) close() { h.conn.Close() }

// exchange sends the request and reads its answer into body.
func (h *http2) exchange(ctx context.Context, x *exchange, body []byte) (answer, error) {
	ctx, cancel := context.WithDeadline(ctx, x.deadline)
	defer cancel()
	// The hooks are called from goroutines of the connection.
	var mu sync.Mutex
	var wrote, first time.Time
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		x.wrote, x.first = wrote, first
	}()
	now := func(into *time.Time) {
		mu.Lock()
		defer mu.Unlock()
		*into = time.Now()
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				now(&wrote)
			}
		},
		GotFirstResponseByte: func() { now(&first) },
	}), h.target.method(), h.target.URL, bytes.NewReader(h.target.payload))
	if err != nil {
		return answer{}, err
	}
	request.Host = h.target.host(h.target.url)
	request.Header = h.target.header()
	response, err := h.conn.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got := answer{status: response.StatusCode}
	got.body, err = readAll(response.Body, body)
	x.end = time.Now()
	return got, err
}
