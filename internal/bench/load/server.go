package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Serve is the agent's role "load": it checks that it runs inside the client
// pod, then serves jobs until ctx ends or nobody has asked for long enough.
func Serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "`address` to serve jobs on")
	idle := flags.Duration("idle", 10*time.Minute, "end after this `time` without a request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := checkNamespace(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("serve jobs: %w", err)
	}
	return serve(ctx, listener, *idle)
}

// serve serves jobs on a listener, which it closes.
func serve(ctx context.Context, listener net.Listener, idle time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handler := NewHandler()
	timer := time.AfterFunc(idle, cancel)
	defer timer.Stop()
	var mu sync.Mutex
	serving := 0 // a job is, while its clock is asked for
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			serving++
			timer.Stop()
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				if serving--; serving == 0 {
					timer.Reset(idle)
				}
			}()
			handler.ServeHTTP(w, r)
		}),
	}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve jobs: %w", err)
	}
	return nil
}

// NewHandler serves "GET /healthz" and "POST /run", which runs the job in the
// request's body and answers with its Result. Jobs run one after the other. A
// job ends early when its client goes away.
//
// A job of several clients waits after its warm-up: "GET /ready" answers once
// it does, and "POST /start" has it begin at the time in the request's body, by
// the clock that "GET /clock" tells. Times are Unix time in nanoseconds.
func NewHandler() http.Handler {
	h := &handler{gates: make(chan chan<- time.Time)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /clock", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, time.Now().UnixNano()) })
	mux.HandleFunc("POST /run", h.run)
	mux.HandleFunc("GET /ready", h.ready)
	mux.HandleFunc("POST /start", h.start)
	return mux
}

type handler struct {
	running sync.Mutex
	gates   chan chan<- time.Time // of the job that waits for its start

	mu      sync.Mutex
	waiting chan<- time.Time // taken from gates by ready
}

func (h *handler) run(w http.ResponseWriter, r *http.Request) {
	var job Job
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(body, &job)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.running.Lock()
	defer h.running.Unlock()
	var gate Gate
	if job.Clients > 1 {
		gate = h.await
	}
	result, err := Generate(r.Context(), job, gate)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An answer that cannot be written has no reader any more.
	_ = json.NewEncoder(w).Encode(result)
}

// await is the gate of a job of several clients.
func (h *handler) await(ctx context.Context) (time.Time, error) {
	signal := make(chan time.Time, 1)
	select {
	case h.gates <- signal:
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	select {
	case begin := <-signal:
		return begin, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

func (h *handler) ready(_ http.ResponseWriter, r *http.Request) {
	select {
	case signal := <-h.gates:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting = signal
	case <-r.Context().Done():
	}
}

func (h *handler) start(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	nanoseconds, parseErr := strconv.ParseInt(string(text), 10, 64)
	if err := errors.Join(err, parseErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		http.Error(w, "no job waits for its start", http.StatusConflict)
		return
	}
	h.waiting <- time.Unix(0, nanoseconds)
	h.waiting = nil
}

// Client gives jobs to a generator.
type Client struct {
	URL  string // of the generator, for example "http://198.18.0.2:8080"
	HTTP *http.Client
}

// Run has the generator run a job and waits for its records.
func (c Client) Run(ctx context.Context, job Job) (Result, error) {
	body, err := json.Marshal(job)
	if err != nil {
		return Result{}, fmt.Errorf("encode the job: %w", err)
	}
	answer, err := c.do(ctx, http.MethodPost, "/run", body)
	if err != nil {
		return Result{}, fmt.Errorf("have the load generator call %s: %w", job.URL, err)
	}
	var result Result
	if err := json.Unmarshal(answer, &result); err != nil {
		return Result{}, fmt.Errorf("read the records of the load generator: %w", err)
	}
	if want := job.Count(); len(result.Records) != want {
		return Result{}, fmt.Errorf("the load generator gave %d records for %d requests", len(result.Records), want)
	}
	return result, nil
}

// Healthy returns nil when the generator answers.
func (c Client) Healthy(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "/healthz", nil)
	return err
}

func (c Client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return answer, nil
}
