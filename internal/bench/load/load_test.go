package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	function "github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
)

// testServer is an HTTP server on loopback that counts its connections.
type testServer struct {
	*httptest.Server
	connections atomic.Int64
}

func newServer(t *testing.T, handler http.HandlerFunc) *testServer {
	t.Helper()
	s := &testServer{Server: httptest.NewUnstartedServer(handler)}
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
		Timeout: 20 * time.Second, ConnectTimeout: 10 * time.Second, // on a busy machine, too
	}
}

func generate(t *testing.T, job Job) []Record {
	t.Helper()
	result, err := Generate(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(result.Records), job.Count(); got != want {
		t.Fatalf("got %d records, want %d", got, want)
	}
	return result.Records
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = w.Write(body)
}

func TestReuseKeepsOneConnection(t *testing.T) {
	server := newServer(t, echo)
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
	server := newServer(t, echo)
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
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	server := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
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
			return newServer(t, func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "the function crashed", http.StatusInternalServerError)
			}).URL
		}, StatusError, "500 Internal Server Error: the function crashed"},
		{"redirect", func(t *testing.T) string {
			return newServer(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}).URL
		}, StatusError, "302 Found"},
		{"refused", func(*testing.T) string { return unused() }, Refused, "connection refused"},
		{"reset", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			})).URL
		}, Reset, "reset"},
		{"closed", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) { c.Close() })).URL
		}, Closed, "EOF"},
		{"half an answer", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
				c.Close()
			})).URL
		}, Closed, "unexpected EOF"},
		{"timeout", func(t *testing.T) string {
			return newServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }).URL
		}, Timeout, "i/o timeout"},
		{"no HTTP", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
				c.Close()
			})).URL
		}, OtherError, `the answer is no HTTP/1: it begins with "220 mail`},
		{"length", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")
				c.Close()
			})).URL
		}, OtherError, `Content-Length is "-1"`},
		{"half a header", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le")
				c.Close()
			})).URL
		}, Closed, "unexpected EOF"},
		{"half a chunk", func(t *testing.T) string {
			return newServer(t, hijack(func(c net.Conn) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
				c.Close()
			})).URL
		}, Closed, "unexpected EOF"},
		{"name", func(*testing.T) string { return "http://does-not-exist.invalid/" }, DNSError, "does-not-exist.invalid"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			job := jobTo(test.url(t))
			job.Connection, job.Warmup, job.Requests, job.Timeout = New, 0, 2, time.Minute
			if test.want == Timeout {
				job.Timeout = 200 * time.Millisecond
			}
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
	var server *testServer
	server = newServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
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
	server := newServer(t, echo)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	job := jobTo(server.URL)
	job.Model.ThinkTime = time.Hour
	if _, err := Generate(ctx, job, nil); !errors.Is(err, context.DeadlineExceeded) {
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
		{func(j *Job) { j.Host = "hello-world.default.knative.test:80" }, ""},
		{func(j *Job) { j.Host = "http://hello-world" }, "must be a name or an address"},
		{func(j *Job) { j.Host = "hello\r\nworld" }, "must be a name or an address"},
		{func(j *Job) { j.Host = ":80" }, "must be a name or an address"},
		{func(j *Job) { j.PayloadBytes = -1 }, "payload"},
		{func(j *Job) { j.Connection = "some" }, `write "reuse", "new", or "reuse:N"`},
		{func(j *Job) { j.Connection = "reuse:1" }, "with N from 2"},
		{func(j *Job) { j.Connection = "reuse:+5" }, "with N from 2"},
		{func(j *Job) { j.Connection = "reuse:10" }, ""},
		{func(j *Job) { j.Method = "PUT" }, `write "GET" or "POST"`},
		{func(j *Job) { j.Method, j.PayloadBytes = "GET", 5 }, `write the method "POST"`},
		{func(j *Job) { j.Protocol = "h3" }, `write "http/1.1" or "h2c"`},
		{func(j *Job) { j.Protocol, j.URL = H2C, "https://127.0.0.1:1" }, "without TLS"},
		{func(j *Job) { j.ResponseBytes = 1 << 40 }, "answer"},
		{func(j *Job) { j.Client, j.Clients = 2, 2 }, "clients count from 0"},
		{func(j *Job) { j.Model.Kind = "half-open" }, `write "closed", "open" or "cold-start"`},
		{func(j *Job) { j.Model.Kind = OpenLoop }, "needs a rate above 0"},
		{func(j *Job) { j.Model.Kind, j.Model.Rate = OpenLoop, math.Inf(1) }, "needs a rate above 0"},
		{func(j *Job) { j.Model = Model{Kind: OpenLoop, Rate: 5, Arrivals: "bursts"} }, `write "constant" or "poisson"`},
		{func(j *Job) { j.Model = Model{Kind: OpenLoop, Rate: 5, ThinkTime: 1} }, "no think time"},
		{func(j *Job) { j.Model = Model{Kind: OpenLoop, Rate: 0.5, Arrivals: Poisson} }, ""},
		{func(j *Job) { j.Model = Model{Kind: OpenLoop, Rate: 5, IdleTimeout: 1} }, "the idle timeout is about cold starts"},
		{func(j *Job) { j.Model = Model{Kind: ColdStart, Concurrency: 2} }, "one request at a time, and the concurrency is 2"},
		{func(j *Job) { j.Model = Model{Kind: ColdStart, ThinkTime: 1} }, "no think time"},
		{func(j *Job) { j.Model = Model{Kind: ColdStart, Rate: 1} }, "no rate"},
		{func(j *Job) { j.Model = Model{Kind: ColdStart, IdleTimeout: -1} }, "must be above 0"},
		{func(j *Job) { j.Model = Model{Kind: ColdStart, IdleTimeout: 1} }, ""},
		{func(j *Job) { j.Model.Rate = 5 }, "no rate"},
		{func(j *Job) { j.Model.ThinkTime = -1 }, "must not be negative"},
		{func(j *Job) { j.Model.Concurrency = 1 << 20 }, "from 1 to 4096"},
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

func TestConnectionsAreOrdered(t *testing.T) {
	got := []Connection{ReuseFor(20), New, ReuseFor(3), Reuse}
	slices.SortFunc(got, Connection.Compare)
	if diff := cmp.Diff([]Connection{Reuse, New, "reuse:3", "reuse:20"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReuseForMakesAConnectionForEveryFew(t *testing.T) {
	server := newServer(t, echo)
	job := jobTo(server.URL)
	job.Connection = ReuseFor(3)
	for i, r := range generate(t, job) {
		if r.Error != "" || r.Conn != i/3+1 || r.Reused != (i%3 != 0) || (r.Connect > 0) != (i%3 == 0) {
			t.Errorf("request %d: connection %d, reused %t, connect %s, %s %s", i, r.Conn, r.Reused, r.Connect, r.Error, r.Detail)
		}
	}
	if got := server.connections.Load(); got != 4 {
		t.Errorf("the server saw %d connections, want 4", got)
	}
}

func TestResponseBytesAreAskedForAndChecked(t *testing.T) {
	functions := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			r.Header.Del(function.ResponseBytesHeader)
		}
		handler, err := function.Handler("payload-recv")
		if err != nil {
			t.Error(err)
			return
		}
		handler.ServeHTTP(w, r)
	})
	job := jobTo(functions.URL)
	job.Method, job.ResponseBytes = http.MethodPost, 100_000
	for i, r := range generate(t, job) {
		if r.Error != "" || r.BytesSent != 0 || r.BytesReceived != 100_000 {
			t.Errorf("request %d: sent %d, received %d, %s %s", i, r.BytesSent, r.BytesReceived, r.Error, r.Detail)
		}
	}
	job.URL += "/short"
	for i, r := range generate(t, job) {
		if r.Error != BodyError || !strings.Contains(r.Detail, "100000 were asked for") {
			t.Errorf("request %d: %q (%s), want %q", i, r.Error, r.Detail, BodyError)
		}
	}
}

// Every connection carries one request at a time, and each has a warm-up.
func TestConcurrency(t *testing.T) {
	const workers = 5
	var inFlight, most atomic.Int64
	arrived := make(chan struct{}, 2*workers)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		n := inFlight.Add(1)
		defer inFlight.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		arrived <- struct{}{}
		for len(arrived) < workers { // the first ones wait for each other
			runtime.Gosched()
		}
		echo(w, r)
	})
	job := jobTo(server.URL)
	job.Model.Concurrency, job.Method, job.Warmup, job.Requests = workers, http.MethodPost, 1, workers
	connections := map[int]int{}
	for i, r := range generate(t, job) {
		if r.Error != "" || r.Warmup != (i < workers) || r.Reused != (i >= workers) {
			t.Errorf("request %d: warm-up %t, reused %t, %s %s", i, r.Warmup, r.Reused, r.Error, r.Detail)
		}
		if r.Warmup {
			connections[r.Conn]++
		}
	}
	if server.connections.Load() != workers || len(connections) != workers || most.Load() != workers {
		t.Errorf("the server saw %d connections and %d requests at a time, the records %d connections; want %d",
			server.connections.Load(), most.Load(), len(connections), workers)
	}
}

func TestScheduleOfOpenLoop(t *testing.T) {
	constant := Model{Kind: OpenLoop, Rate: 1000}
	if diff := cmp.Diff([]time.Duration{0, time.Millisecond, 2 * time.Millisecond}, constant.schedule(3, 0, 1)); diff != "" {
		t.Error(diff)
	}
	const n = 20000
	poisson := Model{Kind: OpenLoop, Rate: 1000, Arrivals: Poisson, Seed: 3}
	whole := poisson.schedule(n, 0, 1)
	if diff := cmp.Diff(whole, poisson.schedule(n, 0, 1)); diff != "" {
		t.Errorf("the same seed gives two schedules:\n%s", diff)
	}
	// The intervals have a mean and a standard deviation of 1 ms; those of n
	// are off by less than five standard errors.
	var sum, squares float64
	for i := 1; i < n; i++ {
		ms := float64(whole[i]-whole[i-1]) / 1e6
		sum, squares = sum+ms, squares+ms*ms
	}
	mean := sum / (n - 1)
	if deviation := math.Sqrt(squares/(n-1) - mean*mean); math.Abs(mean-1) > 0.036 || math.Abs(deviation-1) > 0.072 {
		t.Errorf("the intervals have mean %.3f ms and deviation %.3f ms, want 1 ms", mean, deviation)
	}
	// Two clients together keep the schedule of one.
	for _, model := range []Model{constant, poisson} {
		both := append(model.schedule(5, 0, 2), model.schedule(5, 1, 2)...)
		slices.Sort(both)
		if diff := cmp.Diff(model.schedule(10, 0, 1), both); diff != "" {
			t.Error(diff)
		}
	}
}

// A server that stalls is sent requests all the same, and their times show how
// long they waited. In a closed loop one request shows the stall.
func TestStallShowsInOpenLoop(t *testing.T) {
	const stall = 500 * time.Millisecond
	var served atomic.Int64
	var resume atomic.Pointer[time.Time]
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1) == 40 {
			end := time.Now().Add(stall)
			resume.Store(&end)
		}
		if end := resume.Load(); end != nil {
			time.Sleep(time.Until(*end)) // the stall is what this test looks for
		}
		echo(w, r)
	})
	job := jobTo(server.URL)
	job.Warmup, job.Requests = 1, 200
	job.Model = Model{Kind: OpenLoop, Rate: 200, Concurrency: 4}
	var first, waited int // of the measured requests that waited for long
	for i, r := range generate(t, job) {
		if r.Warmup {
			continue
		}
		if r.Start < r.Intended || r.Total < r.Start-r.Intended+r.FirstByte {
			t.Errorf("request %d: intended %s, start %s, first byte %s, total %s", i, r.Intended, r.Start, r.FirstByte, r.Total)
		}
		if r.Total > stall/2 {
			if waited == 0 {
				first = i
			}
			waited++
		}
	}
	// Requests were due every 5 ms, and those of half the stall waited for the
	// other half or longer.
	if want := int(stall / 2 / (5 * time.Millisecond)); waited < want-5 || waited > want+100 {
		t.Errorf("%d requests from number %d on waited longer than half the stall, want %d", waited, first, want)
	}
	resume.Store(nil)
	served.Store(0)
	job.Model = Model{}
	waited = 0
	for _, r := range generate(t, job) {
		if r.Total > stall/2 {
			waited++
		}
	}
	if waited < 1 || waited > 5 { // a busy machine may hold up another one
		t.Errorf("%d requests of the closed loop show the stall, want 1 or hardly more", waited)
	}
}

func TestLagOf(t *testing.T) {
	records := []Record{{Lag: 9 * time.Second, Warmup: true}, {Lag: 8 * time.Second, Error: Timeout}}
	for i := range 101 {
		records = append(records, Record{Lag: time.Duration(i)})
	}
	if diff := cmp.Diff(Lag{Median: 50, P99: 99, Max: 100}, LagOf(records)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Lag{}, LagOf(records[:2])); diff != "" {
		t.Error(diff)
	}
}

// Answers are understood however HTTP/1 frames them.
func TestFraming(t *testing.T) {
	const hello = "hello, world"
	tests := []struct {
		name, answer string
		want         string
		kept         bool
	}{
		{"length", "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n" + hello, hello, true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;note=1\r\n, world\r\n0\r\nDigest: none\r\n\r\n", hello, true},
		{"until closed", "HTTP/1.1 200 OK\r\n\r\n" + hello, hello, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + hello, hello, false},
		{"HTTP/1.0 that is kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 12\r\n\r\n" + hello, hello, true},
		{"close", "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 12\r\n\r\n" + hello, hello, false},
		{"nothing", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + hello, hello, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						in := bufio.NewReader(conn)
						for {
							if _, err := http.ReadRequest(in); err != nil {
								return
							}
							_, _ = io.WriteString(conn, test.answer)
							if !test.kept {
								return
							}
						}
					}()
				}
			}()
			job := jobTo("http://" + listener.Addr().String())
			for i, r := range generate(t, job) {
				if r.Error != "" || r.BytesReceived != len(test.want) || r.Reused != (test.kept && i > 0) {
					t.Errorf("request %d: %d bytes, reused %t, %s %s", i, r.BytesReceived, r.Reused, r.Error, r.Detail)
				}
			}
		})
	}
}

// The phases of a request follow each other, whatever carries it, and their
// times add up.
func TestPhases(t *testing.T) {
	secured := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(secured.Close)
	plain := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	t.Cleanup(plain.Close)
	for name, change := range map[string]func(*Job){
		"http/1.1": func(j *Job) { j.URL = plain.URL },
		"https":    func(j *Job) { j.URL = secured.URL },
		"h2c":      func(j *Job) { j.URL, j.Protocol = plain.URL, H2C },
		"name":     func(j *Job) { j.URL = strings.Replace(plain.URL, "127.0.0.1", "localhost", 1) },
	} {
		for _, payload := range []int{0, 1000, 1 << 20} {
			for _, connection := range []Connection{Reuse, New, ReuseFor(4)} {
				job := jobTo("")
				job.PayloadBytes, job.Echo, job.Connection, job.Timeout = payload, true, connection, 20*time.Second
				change(&job)
				for i, r := range generate(t, job) {
					fresh := !r.Reused
					switch {
					case r.Error != "" || r.BytesSent != payload || r.BytesReceived != payload:
						t.Errorf("%s, %d bytes, %s: request %d sent %d, received %d: %s %s", name, payload, connection, i, r.BytesSent, r.BytesReceived, r.Error, r.Detail)
					case fresh != (connection == New || i == 0 || connection == ReuseFor(4) && i%4 == 0):
						t.Errorf("%s, %s: request %d: reused %t", name, connection, i, r.Reused)
					case (r.Connect > 0) != fresh, (r.TLS > 0) != (fresh && name == "https"), (r.DNS > 0) != (fresh && name == "name"):
						t.Errorf("%s, %s: request %d, reused %t: DNS %s, connect %s, TLS %s", name, connection, i, r.Reused, r.DNS, r.Connect, r.TLS)
					case r.Write <= 0 || r.DNS+r.Connect+r.TLS > r.FirstByte || r.Read < 0 || r.FirstByte+r.Read != r.Total:
						t.Errorf("%s, %s: request %d: DNS %s, connect %s, TLS %s, write %s, first byte %s, read %s, total %s",
							name, connection, i, r.DNS, r.Connect, r.TLS, r.Write, r.FirstByte, r.Read, r.Total)
					case r.Lag < 0 || r.Lag > r.Total || runtime.GOOS == "linux" && r.Lag == 0:
						t.Errorf("%s, %s: request %d: lag %s of %s", name, connection, i, r.Lag, r.Total)
					}
				}
			}
		}
	}
}

// Requests ask for the host that the job names, and else for that of the URL.
func TestHost(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "hello-world.default.knative.test" && r.Host != r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() {
			http.Error(w, r.Host, http.StatusNotFound)
		}
		w.Header().Set("Content-Length", "0")
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	for _, protocol := range Protocols() {
		for host, want := range map[string]ErrorClass{"": "", "hello-world.default.knative.test": "", "other.test": StatusError} {
			job := jobTo(server.URL)
			job.Protocol, job.Host = protocol, host
			for i, r := range generate(t, job) {
				if r.Error != want || want != "" && !strings.Contains(r.Detail, host) {
					t.Errorf("%s, host %q: request %d: %q (%s), want %q", protocol, host, i, r.Error, r.Detail, want)
				}
			}
		}
	}
}

func TestErrorsOverHTTP2(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/abort":
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/slow":
			<-r.Context().Done()
		case r.URL.Path == "/close" && served.Add(1)%4 == 0:
			w.Header().Set("Connection", "close") // GOAWAY in HTTP/2
			fallthrough
		default:
			echo(w, r)
		}
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	only1 := newServer(t, echo)
	for url, want := range map[string]ErrorClass{server.URL + "/abort": Reset, server.URL + "/slow": Timeout, only1.URL: OtherError, server.URL + "/close": ""} {
		job := jobTo(url)
		job.Protocol, job.Timeout = H2C, time.Minute
		if want == Timeout {
			job.Timeout = 200 * time.Millisecond
		}
		job.Warmup, job.Requests = 1, 3
		for i, r := range generate(t, job) {
			if r.Error != want {
				t.Errorf("%s, request %d: %q (%s), want %q", url, i, r.Error, r.Detail, want)
			}
		}
	}
}

// A function that answers while it reads, and one that answers before it has
// read, do not stop a client that sends more than the buffers between them hold.
func TestLargePayloads(t *testing.T) {
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/stream":
			if err := control.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(w, r.Body)
		case "/refuse":
			http.Error(w, "too much", http.StatusRequestEntityTooLarge)
		}
	})
	job := jobTo(server.URL + "/stream")
	job.PayloadBytes, job.Echo, job.Warmup, job.Requests, job.Timeout = 32<<20, true, 0, 2, time.Minute
	for i, r := range generate(t, job) {
		if r.Error != "" || r.BytesSent != job.PayloadBytes {
			t.Errorf("streamed request %d: sent %d, %q %s", i, r.BytesSent, r.Error, r.Detail)
		}
	}
	job.URL = server.URL + "/refuse"
	for i, r := range generate(t, job) {
		if r.Error != StatusError || !strings.Contains(r.Detail, "too much") {
			t.Errorf("refused request %d: %q %s", i, r.Error, r.Detail)
		}
	}
}

// A client that is kept from reading what has arrived shows it as its lag, and
// that is part of the time.
func TestLagOfABusyClient(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells when something arrived")
	}
	defer holdStamps()()
	conn := make(chan net.Conn, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			t.Error(err)
		}
		conn <- c
	}()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	w, err := newWire(dialled.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	far := <-conn
	defer far.Close()
	if _, err := io.WriteString(far, "hello"); err != nil {
		t.Fatal(err)
	}
	after := time.Now()
	time.Sleep(50 * time.Millisecond) // the client is busy
	got := make([]byte, 10)
	if n, err := w.Read(got); err != nil || string(got[:n]) != "hello" {
		t.Fatalf("read %q, %v", got, err)
	}
	if at := time.Unix(0, w.arrived.Load()); at.Before(before) || at.After(after.Add(20*time.Millisecond)) {
		t.Errorf("it arrived %s after it was sent", at.Sub(before))
	}
	if !w.quiet() {
		t.Error("a connection without anything to read is not quiet")
	}
	far.Close()
	for deadline := time.Now().Add(5 * time.Second); w.quiet(); {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection is quiet")
		}
	}
}
