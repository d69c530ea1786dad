package ingress

import (
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
)

// What a request has to say to be a probe, and what it is answered with.
const (
	probeHeader = "K-Network-Probe"
	hashHeader  = "K-Network-Hash"
	// hashOverride asks for the hash of the routed KIngress.
	hashOverride = "override"
)

// proxy routes by the table that it holds at the moment.
type proxy struct {
	table    atomic.Pointer[table]
	backends *backends
	buffers  buffers
}

func newProxy() *proxy {
	p := &proxy{backends: newBackends()}
	p.table.Store(&table{})
	return p
}

// public serves what everybody may see, private what the cluster may see.
func (p *proxy) public() http.Handler {
	return p.handler(func(t *table) map[string][]route { return t.public })
}

func (p *proxy) private() http.Handler {
	return p.handler(func(t *table) map[string][]route { return t.private })
}

// choice is what was decided about a request.
type choice struct {
	route  *route
	target *target
	flush  func() // what was written of the answer
}

type choiceKey struct{}

func chosen(r *http.Request) choice {
	c, _ := r.Context().Value(choiceKey{}).(choice)
	return c
}

func (p *proxy) handler(side func(*table) map[string][]route) http.Handler {
	reverse := &httputil.ReverseProxy{
		Rewrite:      rewrite,
		Transport:    p,
		BufferPool:   &p.buffers,
		ErrorHandler: answerFailure,
		ErrorLog:     log.Default(),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route := find(side(p.table.Load()), r)
		if route == nil {
			http.Error(w, "no KIngress routes this host and path", http.StatusNotFound)
			return
		}
		target := route.pick(rand.IntN(100))
		if target == nil {
			http.Error(w, "the KIngress has no split for this request", http.StatusServiceUnavailable)
			return
		}
		// The function's sidecar answers a probe, with the hash that it gets.
		if r.Header.Get(probeHeader) != "" && r.Header.Get(hashHeader) == hashOverride {
			r.Header.Set(hashHeader, route.hash)
		}
		c := choice{route: route, target: target, flush: func() { _ = http.NewResponseController(w).Flush() }}
		if target.h2c {
			// Its transport may still read the body when the answer begins,
			// which ends the reading of bodies otherwise.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		answer := w
		if !target.h2c && r.Header.Get("Upgrade") == "" {
			answer = unflushed{w}
		}
		reverse.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), choiceKey{}, c)))
	})
}

// unflushed takes from an answer what httputil flushes by, which is a timer for
// each answer. The body of an answer flushes what came before it waits for
// more, and a short answer is written once.
type unflushed struct{ http.ResponseWriter }

// rewrite turns a request into the one that the target gets.
func rewrite(r *httputil.ProxyRequest) {
	c := chosen(r.In)
	r.Out.URL = &url.URL{
		Scheme: "http", Host: c.target.name,
		Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery,
	}
	r.Out.Host = r.In.Host
	if c.route.rewriteHost != "" {
		r.Out.Host = c.route.rewriteHost
	}
	// The ingress has told the client to go on as soon as it reads the body.
	r.Out.Header.Del("Expect")
	// Proxies before this one stay known.
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	if proto := r.In.Header.Get("X-Forwarded-Proto"); proto != "" {
		r.Out.Header.Set("X-Forwarded-Proto", proto)
	}
	for name, value := range c.route.append {
		r.Out.Header.Set(name, value)
	}
	for name, value := range c.target.append {
		r.Out.Header.Set(name, value)
	}
}

// RoundTrip sends a request to an endpoint of its target.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	c := chosen(r)
	return p.backends.roundTrip(r, c.target, c.flush)
}

func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // nobody reads the answer
	}
	log.Printf("%s %s%s to %s: %v", r.Method, r.Host, r.URL.Path, r.URL.Host, err)
	status := http.StatusBadGateway
	if errors.Is(err, errNoEndpoint) {
		status = http.StatusServiceUnavailable
	}
	http.Error(w, "the function does not answer: "+err.Error(), status)
}

// buffers are those that bodies are copied by.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
