package ingress

import (
	"context"
	"errors"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
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
	table atomic.Pointer[table]
	http1 http.RoundTripper
	h2c   http.RoundTripper
}

func newProxy() *proxy {
	p := &proxy{}
	p.table.Store(&table{})
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	transport := func(h2c bool) http.RoundTripper {
		var protocols http.Protocols
		protocols.SetHTTP1(!h2c)
		protocols.SetUnencryptedHTTP2(h2c)
		return &http.Transport{
			DialContext:         dialer.DialContext,
			Protocols:           &protocols,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 1000,
			IdleConnTimeout:     time.Minute,
			// Small writes would wait for others.
			WriteBufferSize: 32 << 10,
			ReadBufferSize:  32 << 10,
		}
	}
	p.http1, p.h2c = transport(false), transport(true)
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
}

type choiceKey struct{}

func (p *proxy) handler(side func(*table) map[string][]route) http.Handler {
	reverse := &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     p,
		FlushInterval: -1, // streams pass as they come
		ErrorHandler:  answerFailure,
		ErrorLog:      log.Default(),
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
		reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), choiceKey{}, choice{route, target})))
	})
}

// rewrite turns a request into the one that the target gets.
func rewrite(r *httputil.ProxyRequest) {
	chosen, _ := r.In.Context().Value(choiceKey{}).(choice)
	r.Out.URL = &url.URL{
		Scheme: "http", Host: chosen.target.address,
		Path: r.In.URL.Path, RawPath: r.In.URL.RawPath, RawQuery: r.In.URL.RawQuery,
	}
	r.Out.Host = r.In.Host
	if chosen.route.rewriteHost != "" {
		r.Out.Host = chosen.route.rewriteHost
	}
	// Proxies before this one stay known.
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	if proto := r.In.Header.Get("X-Forwarded-Proto"); proto != "" {
		r.Out.Header.Set("X-Forwarded-Proto", proto)
	}
	for name, value := range chosen.route.append {
		r.Out.Header.Set(name, value)
	}
	for name, value := range chosen.target.append {
		r.Out.Header.Set(name, value)
	}
}

// RoundTrip sends a request by the protocol that its target speaks.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	chosen, _ := r.Context().Value(choiceKey{}).(choice)
	if chosen.target.h2c {
		return p.h2c.RoundTrip(r)
	}
	return p.http1.RoundTrip(r)
}

func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		return // nobody reads the answer
	}
	log.Printf("%s %s%s: %v", r.Method, r.Host, r.URL.Path, err)
	http.Error(w, "the function does not answer: "+err.Error(), http.StatusBadGateway)
}
