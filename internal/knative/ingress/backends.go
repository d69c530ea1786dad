package ingress

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// backends are the endpoints of functions that requests go to, with the
// connections to them that are kept.
type backends struct {
	dialer net.Dialer
	h2c    *http.Transport

	mu        sync.Mutex
	endpoints map[string]*endpoint // by address
}

func newBackends() *backends {
	b := &backends{dialer: net.Dialer{Timeout: 5 * time.Second}, endpoints: map[string]*endpoint{}}
	b.h2c = &http.Transport{
		DialContext:        b.dialer.DialContext,
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		IdleConnTimeout:    time.Minute,
	}
	b.h2c.Protocols.SetUnencryptedHTTP2(true)
	return b
}

// endpoint is one address that answers for a service.
type endpoint struct {
	address string
	busy    atomic.Int64 // requests under way

	mu   sync.Mutex
	idle []*connection // the one that was used last is the last
	gone bool          // no table names it any more
}

// at returns the endpoint of an address.
func (b *backends) at(address string) *endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.endpoints[address]
	if e == nil {
		e = &endpoint{address: address}
		b.endpoints[address] = e
	}
	return e
}

// keep forgets all endpoints but those that are used. What is under way at the
// others ends by itself.
func (b *backends) keep(used map[*endpoint]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, e := range b.endpoints {
		if !used[e] {
			delete(b.endpoints, address)
			e.close()
		}
	}
}

func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	for _, c := range e.idle {
		c.Close()
	}
	e.idle = nil
}

// maxIdle bounds the connections to one endpoint that wait for a request.
const maxIdle = 1000

// put takes back a connection that can carry another request.
func (e *endpoint) put(c *connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || len(e.idle) >= maxIdle {
		c.Close()
		return
	}
	e.idle = append(e.idle, c)
}

// take returns a connection that waits, nil when there is none. One that its
// other end has closed does not count.
func (e *endpoint) take() *connection {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.idle) > 0 {
		last := len(e.idle) - 1
		c := e.idle[last]
		e.idle = e.idle[:last]
		if c.quiet() {
			return c
		}
		c.Close()
	}
	return nil
}

// errNoEndpoint is that of a service without a pod that is ready.
var errNoEndpoint = errors.New("it has no pod that is ready")

// roundTrip sends a request to the endpoint of the target that has the least to
// do. When that cannot be reached, the next one is asked.
func (b *backends) roundTrip(r *http.Request, t *target, flush func()) (*http.Response, error) {
	var problems []error
	for _, e := range t.byLoad() {
		e.busy.Add(1)
		answer, err := b.ask(r, e, t.h2c, flush)
		if err == nil {
			return answer, nil
		}
		e.busy.Add(-1)
		problems = append(problems, err)
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" {
			break // it may have been sent
		}
	}
	if len(problems) == 0 {
		return nil, errNoEndpoint
	}
	return nil, errors.Join(problems...)
}

// byLoad returns the endpoints in the order in which they are tried. Those that
// have as much to do as others take turns.
func (t *target) byLoad() []*endpoint {
	if len(t.endpoints) < 2 {
		return t.endpoints
	}
	first := rand.IntN(len(t.endpoints))
	turned := slices.Concat(t.endpoints[first:], t.endpoints[:first])
	least := 0
	for i, e := range turned {
		if e.busy.Load() < turned[least].busy.Load() {
			least = i
		}
	}
	turned[0], turned[least] = turned[least], turned[0]
	return turned
}

// ask sends a request to an endpoint, whose busy counts it until the body of
// the answer has ended.
func (b *backends) ask(r *http.Request, e *endpoint, h2c bool, flush func()) (*http.Response, error) {
	if h2c {
		return b.askH2C(r, e)
	}
	if c := e.take(); c != nil {
		answer, err := c.exchange(r, e, flush)
		if !errors.Is(err, errStale) || r.Body != nil {
			return answer, err
		}
		// It was closed as the request was sent; without a body, that can be
		// sent again.
	}
	c, err := b.dial(r.Context(), e.address)
	if err != nil {
		return nil, err
	}
	return c.exchange(r, e, flush)
}

func (b *backends) askH2C(r *http.Request, e *endpoint) (*http.Response, error) {
	r.URL.Host = e.address
	if r.Body != nil {
		// An endpoint that is not reached leaves it to the next one.
		attempt := *r
		attempt.Body = io.NopCloser(r.Body)
		r = &attempt
	}
	answer, err := b.h2c.RoundTrip(r)
	if err == nil {
		answer.Body = &countedBody{ReadCloser: answer.Body, done: sync.OnceFunc(func() { e.busy.Add(-1) })}
	}
	return answer, err
}

// countedBody is done when it is closed.
type countedBody struct {
	io.ReadCloser
	done func()
}

func (b *countedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

func (b *backends) dial(ctx context.Context, address string) (*connection, error) {
	made, err := b.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c, err := newConnection(made)
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return c, nil
}
