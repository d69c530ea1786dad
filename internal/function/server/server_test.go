package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// start serves a built-in function on the loopback and returns its URL.
func start(t *testing.T, name string) string {
	t.Helper()
	handler, err := Handler(name)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, handler) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop the function: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// client speaks one protocol only, over connections of its own.
func client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func call(t *testing.T, c *http.Client, method, url string, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, got
}

// The body has exactly as many bytes as are asked for, whatever they are.
func TestResponseBytes(t *testing.T) {
	for _, test := range []struct{ function, method, want string }{
		{"hello-world", http.MethodGet, "0"},
		{"hello-world", http.MethodGet, "1"},
		{"hello-world", http.MethodGet, "1000"},
		{"hello-world", http.MethodGet, "65520"}, // whole lines
		{"payload-recv", http.MethodPost, "7"},
		{"payload-recv", http.MethodPost, "1048577"},
		{"hello-world", http.MethodGet, "-1"},
		{"hello-world", http.MethodGet, "many"},
		{"payload-recv", http.MethodPost, "67108865"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, start(t, test.function), strings.NewReader("payload"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(ResponseBytesHeader, test.want)
		response, err := client(t, false).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		want, _ := strconv.Atoi(test.want)
		switch {
		case err != nil:
			t.Errorf("%s, %s bytes: %v", test.function, test.want, err)
		case want < 0 || want > maxPayload || test.want == "many":
			if response.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "number of bytes from 0 to") {
				t.Errorf("%s, %s bytes: %s, %q", test.function, test.want, response.Status, body)
			}
		case len(body) != want || want > 0 && body[want-1] != '\n':
			t.Errorf("%s: got %d bytes, want %d that end a line", test.function, len(body), want)
		}
	}
}

// TestFunctions calls every function with both protocols, twice on one
// connection.
func TestFunctions(t *testing.T) {
	payload := make([]byte, 102_400)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(payload)
	tests := []struct {
		function, method string
		body             []byte
		check            func([]byte) bool
	}{
		{"hello-world", http.MethodGet, nil, func(got []byte) bool {
			return len(got) == helloSize && strings.HasPrefix(string(got), "Hello")
		}},
		{"hello-world", http.MethodGet, payload, func(got []byte) bool { return len(got) == helloSize }},
		{"payload-echo", http.MethodPost, payload, func(got []byte) bool { return bytes.Equal(got, payload) }},
		{"payload-echo", http.MethodGet, payload, func(got []byte) bool { return bytes.Equal(got, payload) }},
		{"payload-echo", http.MethodPost, nil, func(got []byte) bool { return len(got) == 0 }},
		{"payload-recv", http.MethodPost, payload, func(got []byte) bool { return string(got) == "received 102400 bytes\n" }},
	}
	for _, test := range tests {
		for _, http2 := range []bool{false, true} {
			url := start(t, test.function)
			c := client(t, http2)
			for range 2 {
				response, got := call(t, c, test.method, url+"/any/path", bytes.NewReader(test.body))
				if response.StatusCode != http.StatusOK || !test.check(got) {
					t.Errorf("%s %s with %d bytes over %s: status %d, %d bytes", test.method, test.function, len(test.body), response.Proto, response.StatusCode, len(got))
				}
				if response.ContentLength != int64(len(got)) {
					t.Errorf("%s over %s: Content-Length %d for %d bytes", test.function, response.Proto, response.ContentLength, len(got))
				}
			}
		}
	}
}

// TestEchoWithoutLength sends a body whose length the client does not say.
func TestEchoWithoutLength(t *testing.T) {
	url := start(t, "payload-echo")
	want := strings.Repeat("chunk", 100_000)
	response, got := call(t, client(t, false), http.MethodPost, url, io.MultiReader(strings.NewReader(want)))
	if string(got) != want || response.ContentLength != int64(len(want)) {
		t.Errorf("got %d bytes with Content-Length %d, want %d", len(got), response.ContentLength, len(want))
	}
}

func TestReadiness(t *testing.T) {
	for _, name := range Names() {
		response, got := call(t, client(t, false), http.MethodGet, start(t, name)+"/healthz", nil)
		if response.StatusCode != http.StatusOK || len(got) != 0 {
			t.Errorf("%s: /healthz answers %d %q", name, response.StatusCode, got)
		}
	}
}

func TestUnknownFunction(t *testing.T) {
	err := Run(t.Context(), []string{"-builtin", "fibonacci"})
	want := `no built-in function "fibonacci"; there are hello-world, payload-echo, payload-recv`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestStopFinishesRequests stops the server while a request is under way.
func TestStopFinishesRequests(t *testing.T) {
	function, err := Handler("payload-recv")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		function.ServeHTTP(w, r)
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, handler) }()

	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\n\r\nbefore ")
	<-entered
	stop()
	fmt.Fprint(conn, "after")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(response.Body)
	if err != nil || string(got) != "received 12 bytes\n" {
		t.Errorf("the request under way got %q, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestClosingTakesTheBody closes connections after one request each, whose body
// no function but payload-echo needs. A body that nobody reads makes the kernel
// reset the connection, which may take the answer along.
func TestClosingTakesTheBody(t *testing.T) {
	body := bytes.Repeat([]byte("payload "), 128<<10)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			address := strings.TrimPrefix(start(t, name), "http://")
			for range 50 {
				connection, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", address, len(body))
				_, wrote := connection.Write(body)
				answer, read := io.ReadAll(connection)
				_ = connection.Close()
				if wrote != nil || read != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK")) {
					t.Fatalf("write: %v; read: %v; %d bytes are answered", wrote, read, len(answer))
				}
			}
		})
	}
}
