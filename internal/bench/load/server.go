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
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			timer.Stop()
			defer timer.Reset(idle)
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
func NewHandler() http.Handler {
	var running sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var job Job
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(body, &job)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		running.Lock()
		defer running.Unlock()
		result, err := Generate(r.Context(), job)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// An answer that cannot be written has no reader any more.
		_ = json.NewEncoder(w).Encode(result)
	})
	return mux
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
	if want := job.Warmup + job.Requests; len(result.Records) != want {
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
