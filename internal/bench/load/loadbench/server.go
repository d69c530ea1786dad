package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	function "github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
)

// serveRole is the first argument of a process that is a server.
const serveRole = "serve"

// serve serves one kind of server on the loopback and prints its address. It
// ends with its standard input, which is the process that started it.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(serveRole, flag.ContinueOnError)
	kind := flags.String("kind", "hello", "hello, queue or stall")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var handler http.Handler
	var err error
	switch *kind {
	case "queue":
		handler = newQueue()
	case "stall":
		handler = newStaller()
	default:
		if handler, err = function.Handler("hello-world"); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return function.Serve(ctx, listener, handler)
}

// queue answers one request at a time, each after a time from a log-normal law,
// and remembers when requests were done. Its nth answer is n bytes long, so that
// the client's records tell which is which.
type queue struct {
	turn   sync.Mutex
	random *rand.Rand
	free   time.Time // when it has answered all

	count int

	mu   sync.Mutex
	done map[int]int64 // Unix time in nanoseconds, by length of the answer
}

func newQueue() *queue {
	return &queue{random: rand.New(rand.NewPCG(1, 2)), done: map[int]int64{}}
}

func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/log" {
		q.mu.Lock()
		defer q.mu.Unlock()
		_ = json.NewEncoder(w).Encode(q.done)
		return
	}
	arrived := time.Now()
	// Served in the order in which they come: each takes its place at once and
	// is done when those before it are and its own time has passed.
	q.turn.Lock()
	begin := arrived
	if q.free.After(begin) {
		begin = q.free
	}
	q.free = begin.Add(time.Duration(float64(10*time.Millisecond) * math.Exp(0.5*q.random.NormFloat64())))
	done := q.free
	q.count++
	n := q.count
	q.turn.Unlock()
	time.Sleep(time.Until(done))
	w.Header().Set("Content-Length", strconv.Itoa(n))
	answered := time.Now() // the client has it a moment later at the earliest
	_, _ = io.WriteString(w, strings.Repeat(".", n))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done[n] = answered.UnixNano()
}

// staller answers at once, but for a second that begins two seconds after it is
// told to "/arm": what comes then is answered when the second is over.
type staller struct {
	mu  sync.Mutex
	end time.Time
}

func newStaller() *staller { return &staller{} }

const (
	stallAfter = 2 * time.Second
	stallTime  = time.Second
)

func (s *staller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if r.URL.Path == "/arm" {
		s.end = time.Now().Add(stallAfter + stallTime)
	}
	end := s.end
	s.mu.Unlock()
	if left := time.Until(end); left > 0 && left < stallTime {
		time.Sleep(left)
	}
	_, _ = io.WriteString(w, "hello")
}

// start starts a server in a process of its own and returns its URL and what
// ends it.
func start(ctx context.Context, kind string) (url string, stop func(), err error) {
	command := exec.CommandContext(ctx, "/proc/self/exe", serveRole, "-kind", kind)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func() {
		in.Close()
		_ = command.Wait()
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	return "http://" + strings.TrimSpace(address), stop, nil
}

func fetch(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
