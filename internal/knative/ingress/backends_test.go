package ingress

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// front serves a proxy that leads everything to endpoints.
func front(t testing.TB, addresses ...string) (p *proxy, url string) {
	t.Helper()
	p = newProxy()
	to := target{name: "default/f:80", percent: 100}
	for _, address := range addresses {
		to.endpoints = append(to.endpoints, p.backends.at(address))
	}
	routes := map[string][]route{"127.0.0.1": {{splits: []target{to}}}}
	p.table.Store(&table{public: routes, private: routes})
	server := httptest.NewServer(p.public())
	t.Cleanup(server.Close)
	return p, server.URL
}

// function serves a handler at an address of its own.
func function(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func address(s *httptest.Server) string { return s.Listener.Addr().String() }

// closed returns an address where nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// TestFailure wants an answer that says what is wrong with the function.
func TestFailure(t *testing.T) {
	garbage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	go func() {
		for {
			connection, err := garbage.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(connection).ReadString('\n')
			_, _ = io.WriteString(connection, "nonsense\r\n\r\n")
			connection.Close()
		}
	}()
	for _, test := range []struct {
		name      string
		endpoints []string
		status    int
		want      string
	}{
		{"no pods", nil, http.StatusServiceUnavailable, "no pod that is ready"},
		{"nobody listens", []string{closed(t)}, http.StatusBadGateway, "connection refused"},
		{"no HTTP", []string{garbage.Addr().String()}, http.StatusBadGateway, "malformed HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, url := front(t, test.endpoints...)
			if status, body := get(t, url); status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("got %d %q, want %d and %q", status, body, test.status, test.want)
			}
		})
	}
}

// TestNextEndpoint wants a request to go on to a pod that can be reached.
func TestNextEndpoint(t *testing.T) {
	good := function(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	_, url := front(t, closed(t), closed(t), address(good))
	for range 20 {
		if got := call(t, url, "127.0.0.1", "/"); got != "payload" {
			t.Fatalf("got %q, want the payload", got)
		}
	}
}

// TestLeastBusy wants a request to go to the pod that has nothing to do.
func TestLeastBusy(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	busy := function(t, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	idle := function(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "idle") })
	p, url := front(t, address(busy))
	first := make(chan struct{})
	go func() { defer close(first); get(t, url) }()
	<-arrived
	both := target{endpoints: []*endpoint{p.backends.at(address(busy)), p.backends.at(address(idle))}, percent: 100}
	p.table.Store(&table{public: map[string][]route{"127.0.0.1": {{splits: []target{both}}}}})
	for range 20 {
		if _, body := get(t, url); body != "idle" {
			t.Errorf("got %q, want the pod that is idle", body)
		}
	}
	close(release)
	<-first
	for _, e := range both.endpoints {
		if n := e.busy.Load(); n != 0 {
			t.Errorf("%d requests are counted at %s after the last one", n, e.address)
		}
	}
}

// TestReuse wants connections to be kept while they can be, and no longer.
func TestReuse(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/close":
			w.Header().Set("Connection", "close")
		case "/chunked":
			_, _ = io.WriteString(w, "first")
			_ = http.NewResponseController(w).Flush()
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, "hello")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	p, url := front(t, address(server))
	want := func(paths string, n int32) {
		t.Helper()
		for path := range strings.FieldsSeq(paths) {
			get(t, url+path)
		}
		if got := connections.Swap(0); got != n {
			t.Errorf("%s took %d connections, want %d", paths, got, n)
		}
	}
	want("/ /chunked /empty / /", 1)
	want("/close / /", 1)
	server.CloseClientConnections()
	want("/ /", 1)
	p.backends.keep(nil) // no table names it any more
	if e := p.backends.at(address(server)); len(e.idle) > 0 {
		t.Errorf("%d connections of an endpoint that has gone are kept", len(e.idle))
	}
}

// TestStreams wants what has come of an answer to be passed on before the rest
// is there.
func TestStreams(t *testing.T) {
	for _, length := range []string{"", "10"} {
		t.Run("length "+length, func(t *testing.T) {
			more := make(chan struct{})
			slow := function(t, func(w http.ResponseWriter, _ *http.Request) {
				if length != "" {
					w.Header().Set("Content-Length", length)
				}
				w.WriteHeader(http.StatusOK)
				for _, part := range []string{"", "first", "later"} {
					_, _ = io.WriteString(w, part)
					_ = http.NewResponseController(w).Flush()
					<-more
				}
			})
			_, url := front(t, address(slow))
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(request) // returns with the header
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			for _, want := range []string{"first", "later"} {
				more <- struct{}{}
				got := make([]byte, 5)
				if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != want {
					t.Fatalf("got %q, %v, want %q", got, err, want)
				}
			}
			close(more)
		})
	}
}

// TestLongRequests wants bodies of any length and kind to arrive, and an answer
// that does not wait for them to be passed on.
func TestLongRequests(t *testing.T) {
	echo := function(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			http.Error(w, "too long", http.StatusRequestEntityTooLarge)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%d %x", len(body), body[:min(len(body), 4)])
	})
	_, url := front(t, address(echo))
	post := func(path string, body io.Reader) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Expect", "100-continue")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		content, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(content)
	}
	for _, size := range []int{0, 1, atOnce, atOnce + 1, 5 << 20} {
		body := bytes.Repeat([]byte{7}, size)
		want := fmt.Sprintf("%d %x", size, body[:min(size, 4)])
		if _, got := post("/", bytes.NewReader(body)); got != want {
			t.Errorf("%d bytes: got %q, want %q", size, got, want)
		}
		if _, got := post("/", io.MultiReader(bytes.NewReader(body))); got != want { // chunked
			t.Errorf("%d bytes in chunks: got %q, want %q", size, got, want)
		}
	}
	// Short enough for the server to read the rest before it closes.
	if status, got := post("/refuse", bytes.NewReader(make([]byte, 200<<10))); status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %q, want the function's refusal", status, got)
	}
}

// TestAnswerBeforeBody wants the rest of a request to arrive when the answer of
// an HTTP/2 function has begun already.
func TestAnswerBeforeBody(t *testing.T) {
	echo := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	echo.Config.Protocols = &protocols
	echo.Start()
	t.Cleanup(echo.Close)
	p, url := front(t, address(echo))
	p.table.Load().public["127.0.0.1"][0].splits[0].h2c = true
	body, rest := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request) // returns with the header
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	go func() {
		_, _ = io.WriteString(rest, "late")
		_ = rest.Close()
	}()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "late" {
		t.Errorf("got %q, %v, want the whole of the body", got, err)
	}
}

// TestGone wants a function to be told when its caller has gone.
func TestGone(t *testing.T) {
	begun, told := make(chan struct{}), make(chan struct{})
	slow := function(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(told)
	})
	_, url := front(t, address(slow))
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-begun; cancel() }()
	if answer, err := http.DefaultClient.Do(request); err == nil {
		answer.Body.Close()
		t.Error("got an answer, want none")
	}
	<-told
}

// TestHints wants what comes before an answer to be passed on, too.
func TestHints(t *testing.T) {
	hinting := function(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style>")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "hello")
	})
	_, url := front(t, address(hinting))
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	for _, want := range []int{http.StatusEarlyHints, http.StatusOK} {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want || answer.Header.Get("Link") == "" {
			t.Errorf("got %s with Link %q, want %d and a link", answer.Status, answer.Header.Get("Link"), want)
		}
	}
}

// BenchmarkProxy prints the median of requests on a kept connection, to a
// function and to the same one through the proxy.
func BenchmarkProxy(b *testing.B) {
	echo := function(b, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	_, url := front(b, address(echo))
	for _, size := range []int{0, 1 << 10, 100 << 10} {
		request := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", size, make([]byte, size))
		for _, way := range []struct{ name, address string }{{"direct", address(echo)}, {"proxied", strings.TrimPrefix(url, "http://")}} {
			b.Run(fmt.Sprintf("%d/%s", size, way.name), func(b *testing.B) {
				connection, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", way.address)
				if err != nil {
					b.Fatal(err)
				}
				defer connection.Close()
				reader := bufio.NewReader(connection)
				var times []time.Duration
				for b.Loop() {
					began := time.Now()
					if _, err := connection.Write(request); err != nil {
						b.Fatal(err)
					}
					answer, err := http.ReadResponse(reader, nil)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != int64(size) {
						b.Fatal(n, err)
					}
					times = append(times, time.Since(began))
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "us/median")
			})
		}
	}
}
