package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// target is an HTTP server on loopback that counts its connections.
type target struct {
	*httptest.Server
	connections atomic.Int64
}

func newTarget(t *testing.T, handler http.HandlerFunc) *target {
	t.Helper()
	s := &target{Server: httptest.NewUnstartedServer(handler)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func jobTo(url string) Job {
	return Job{
		URL: url, Connection: Reuse, Warmup: 2, Requests: 10,
		Timeout: 2 * time.Second, ConnectTimeout: time.Second,
	}
}

func generate(t *testing.T, job Job) []Record {
	t.Helper()
	result, err := Generate(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(result.Records), job.Warmup+job.Requests; got != want {
		t.Fatalf("got %d records, want %d", got, want)
	}
	return result.Records
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

func TestReuseKeepsOneConnection(t *testing.T) {
	server := newTarget(t, echo)
	records := generate(t, jobTo(server.URL))
	if got := server.connections.Load(); got != 1 {
		t.Errorf("the server saw %d connections, want 1", got)
	}
	var last time.Duration
	for i, r := range records {
		if r.Error != "" || r.Status != http.StatusOK {
			t.Errorf("request %d: status %d, %s %s", i, r.Status, r.Error, r.Detail)
		}
		if r.Seq != i || r.Warmup != (i < 2) || r.Conn != 1 || r.Reused != (i > 0) {
			t.Errorf("request %d has seq %d, warm-up %t, connection %d, reused %t", i, r.Seq, r.Warmup, r.Conn, r.Reused)
		}
		if (r.Connect > 0) != (i == 0) {
			t.Errorf("request %d took %s to connect", i, r.Connect)
		}
		if r.Start < last || r.FirstByte <= 0 || r.Total < r.FirstByte {
			t.Errorf("request %d: start %s after %s, first byte %s, total %s", i, r.Start, last, r.FirstByte, r.Total)
		}
		last = r.Start + r.Total
	}
}

func TestNewMakesOneConnectionPerRequest(t *testing.T) {
	server := newTarget(t, echo)
	job := jobTo(server.URL)
	job.Connection = New
	for i, r := range generate(t, job) {
		if r.Error != "" || r.Conn != i+1 || r.Reused || r.Connect <= 0 {
			t.Errorf("request %d: connection %d, reused %t, connect %s, %s %s", i, r.Conn, r.Reused, r.Connect, r.Error, r.Detail)
		}
	}
	if got := server.connections.Load(); got != 12 {
		t.Errorf("the server saw %d connections, want 12", got)
	}
}

func TestPayloadIsExactAndChecked(t *testing.T) {
	var seen atomic.Pointer[[]byte]
	server := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost {
			t.Errorf("got method %s, want POST", r.Method)
		}
		if before := seen.Swap(&body); before != nil && !bytes.Equal(*before, body) {
			t.Error("two requests of a job differ in their payload")
		}
		answer := bytes.Clone(body)
		if r.URL.Path == "/wrong" {
			answer[len(answer)-1]++
		}
		_, _ = w.Write(answer)
	})
	job := jobTo(server.URL)
	job.PayloadBytes, job.Echo = 102400, true
	for i, r := range generate(t, job) {
		if r.Error != "" || r.BytesSent != 102400 || r.BytesReceived != 102400 {
			t.Errorf("request %d: sent %d, received %d, %s %s", i, r.BytesSent, r.BytesReceived, r.Error, r.Detail)
		}
	}
	if got := len(*seen.Load()); got != 102400 {
		t.Errorf("the server read %d bytes, want 102400", got)
	}
	job.URL = server.URL + "/wrong"
	for i, r := range generate(t, job) {
		if r.Error != BodyError {
			t.Errorf("request %d: error %q, want %q", i, r.Error, BodyError)
		}
	}
}

func TestFirstByteSeesWhatConnectDoesNot(t *testing.T) {
	const setup = 30 * time.Millisecond
	server := newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(setup) // the server's work is what this test measures
		_, _ = io.WriteString(w, "hello")
	})
	for i, r := range generate(t, jobTo(server.URL)) {
		if r.Connect >= setup || r.FirstByte < setup || r.BytesReceived != 5 {
			t.Errorf("request %d: connect %s, first byte %s, %d bytes", i, r.Connect, r.FirstByte, r.BytesReceived)
		}
	}
}

func TestErrorsAreClassified(t *testing.T) {
	unused := func() string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return "http://" + listener.Addr().String()
	}
	hijack := func(end func(net.Conn)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			end(connection)
		}
	}
	tests := []struct {
		name    string
		url     func(t *testing.T) string
		want    ErrorClass
		details string
	}{
		{"status", func(t *testing.T) string {
			return newTarget(t, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "the function crashed", http.StatusInternalServerError)
			}).URL
		}, StatusError, "500 Internal Server Error: the function crashed"},
		{"redirect", func(t *testing.T) string {
			return newTarget(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}).URL
		}, StatusError, "302 Found"},
		{"refused", func(*testing.T) string { return unused() }, Refused, "connection refused"},
		{"reset", func(t *testing.T) string {
			return newTarget(t, hijack(func(c net.Conn) {
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			})).URL
		}, Reset, "reset"},
		{"closed", func(t *testing.T) string {
			return newTarget(t, hijack(func(c net.Conn) { c.Close() })).URL
		}, Closed, "EOF"},
		{"half an answer", func(t *testing.T) string {
			return newTarget(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
				c.Close()
			})).URL
		}, Closed, "unexpected EOF"},
		{"timeout", func(t *testing.T) string {
			return newTarget(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).URL
		}, Timeout, "deadline"},
		{"name", func(*testing.T) string { return "http://does-not-exist.invalid/" }, DNSError, "does-not-exist.invalid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			job := jobTo(test.url(t))
			job.Connection, job.Warmup, job.Requests, job.Timeout = New, 0, 2, 200*time.Millisecond
			for i, r := range generate(t, job) {
				if r.Error != test.want || !strings.Contains(r.Detail, test.details) {
					t.Errorf("request %d: %q (%s), want %q (%s)", i, r.Error, r.Detail, test.want, test.details)
				}
			}
		})
	}
}

// A server that dies during a job gives good answers first and classified
// errors afterwards.
func TestServerKilledDuringJob(t *testing.T) {
	var served atomic.Int64
	var server *target
	server = newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1) == 6 {
			server.Listener.Close()
			panic(http.ErrAbortHandler)
		}
		echo(w, r)
	})
	job := jobTo(server.URL)
	job.PayloadBytes = 100
	for i, r := range generate(t, job) {
		switch {
		case i < 5 && r.Error != "":
			t.Errorf("request %d before the end: %s %s", i, r.Error, r.Detail)
		case i == 5 && r.Error != Closed && r.Error != Reset:
			t.Errorf("request %d at the end: %q %s, want %q or %q", i, r.Error, r.Detail, Closed, Reset)
		case i > 5 && r.Error != Refused:
			t.Errorf("request %d after the end: %q %s, want %q", i, r.Error, r.Detail, Refused)
		}
	}
}

// A kept connection that the server drops is not silently replaced.
func TestDroppedConnectionShows(t *testing.T) {
	var served atomic.Int64
	server := newTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1)%4 == 0 {
			w.Header().Set("Connection", "close")
		}
		echo(w, r)
	})
	for i, r := range generate(t, jobTo(server.URL)) {
		if r.Error != "" || r.Reused != (i%4 != 0) || r.Conn != i/4+1 {
			t.Errorf("request %d: connection %d, reused %t, %s %s", i, r.Conn, r.Reused, r.Error, r.Detail)
		}
	}
}

func TestGenerateEndsWithContext(t *testing.T) {
	server := newTarget(t, echo)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	job := jobTo(server.URL)
	job.ThinkTime = time.Hour
	if _, err := Generate(ctx, job); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want the end of the context", err)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		change func(*Job)
		want   string
	}{
		{func(*Job) {}, ""},
		{func(j *Job) { j.URL = "cloud:80" }, "http://host:port"},
		{func(j *Job) { j.PayloadBytes = -1 }, "payload"},
		{func(j *Job) { j.Connection = "some" }, `"reuse" or "new"`},
		{func(j *Job) { j.Requests = 0 }, "measured requests"},
		{func(j *Job) { j.Timeout = 0 }, "timeouts"},
	}
	for _, test := range tests {
		job := jobTo("http://127.0.0.1:1")
		test.change(&job)
		err := job.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("got error %v, want %q", err, test.want)
		}
	}
}
