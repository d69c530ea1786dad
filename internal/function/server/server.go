// Package server holds the built-in functions: the small HTTP servers that an
// experiment calls. They answer at once, keep connections open for as long as
// the client does, and speak HTTP/1.1 and HTTP/2 without TLS on one port, so
// that what a benchmark measures is the path and not the function.
package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ResponseBytesHeader is the request header by which a client asks for an answer
// of so many bytes.
const ResponseBytesHeader = "Testbed-Response-Bytes"

const (
	// maxPayload is the largest body a function takes or answers, in bytes.
	maxPayload = 64 << 20

	// drain is how long requests under way may take after the stop signal. It
	// is shorter than the 30 s that Kubernetes waits.
	drain = 10 * time.Second

	// helloSize is the length of the hello-world reply in bytes.
	helloSize = 1024
)

// Names lists the built-in functions.
func Names() []string {
	return slices.Sorted(maps.Keys(functions()))
}

func functions() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"hello-world":  hello,
		"payload-echo": echo,
		"payload-recv": receive,
	}
}

// Handler serves the built-in function at every path but /healthz, which
// answers 200 for readiness probes.
func Handler(name string) (http.Handler, error) {
	function, ok := functions()[name]
	if !ok {
		return nil, fmt.Errorf("no built-in function %q; there are %s", name, strings.Join(Names(), ", "))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", function)
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	return mux, nil
}

// Run is the agent's role "function": it serves one built-in function until
// ctx ends, then finishes the requests under way.
func Run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("function", flag.ContinueOnError)
	name := flags.String("builtin", "", "function to serve: "+strings.Join(Names(), ", "))
	address := flags.String("listen", ":8080", "address to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	handler, err := Handler(*name)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		return fmt.Errorf("serve %s: %w", *name, err)
	}
	return Serve(ctx, listener, handler)
}

// Serve serves HTTP/1.1 and unencrypted HTTP/2 on the listener until ctx ends,
// and closes the listener.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols} // no timeouts: idle connections stay open

	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(last)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if ended := <-done; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// hello answers with the same text each time, whatever it is asked, but for its
// length. It takes a body that it is sent: closing a connection with bytes that
// nobody read resets it, and the answer may be lost on the way.
func hello(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPayload)); err != nil {
		refuse(w, err)
		return
	}
	size, ok := wanted(w, r, helloSize)
	if !ok {
		return
	}
	const line = "Hello from the testbed.\n"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	answer(w, line, size)
}

// wanted returns how many bytes the client asks for, by default when it does
// not.
func wanted(w http.ResponseWriter, r *http.Request, byDefault int) (size int, ok bool) {
	text := r.Header.Get(ResponseBytesHeader)
	if text == "" {
		return byDefault, true
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < 0 || size > maxPayload {
		http.Error(w, fmt.Sprintf("%s is %q; it must be a number of bytes from 0 to %d", ResponseBytesHeader, text, maxPayload), http.StatusBadRequest)
		return 0, false
	}
	return size, true
}

// answer writes a body of exactly so many bytes: whole lines and a part of one
// that ends in a newline, too.
func answer(w http.ResponseWriter, line string, size int) {
	w.Header().Set("Content-Length", strconv.Itoa(size))
	if size == 0 {
		return
	}
	const most = 64 << 10 // in memory at a time
	text := strings.Repeat(line, min(size, most)/len(line)+1)
	whole := text[:len(text)/len(line)*len(line)]
	for ; size > len(whole); size -= len(whole) {
		if _, err := io.WriteString(w, whole); err != nil {
			return // nobody is there any more
		}
	}
	_, _ = io.WriteString(w, whole[:size-1]+"\n")
}

// echo answers with the request body. It takes the body whole before it
// answers: a client that writes all before it reads never blocks, and the
// first byte of the answer says that the last byte of the request arrived.
func echo(w http.ResponseWriter, r *http.Request) {
	body, ok := payload(w, r)
	if !ok {
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// receive takes the request body and answers with its length, or with as many
// bytes as are asked for.
func receive(w http.ResponseWriter, r *http.Request) {
	size, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		refuse(w, err)
		return
	}
	line := fmt.Sprintf("received %d bytes\n", size)
	if size, ok := wanted(w, r, len(line)); ok {
		answer(w, line, size)
	}
}

func payload(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	limited := http.MaxBytesReader(w, r.Body, maxPayload)
	var body []byte
	var err error
	if r.ContentLength >= 0 && r.ContentLength <= maxPayload {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(limited, body)
	} else {
		body, err = io.ReadAll(limited)
	}
	if err != nil {
		refuse(w, err)
		return nil, false
	}
	return body, true
}

func refuse(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}
