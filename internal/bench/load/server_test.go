package load

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClientRunsJob(t *testing.T) {
	function := newServer(t, echo)
	generator := httptest.NewServer(NewHandler())
	t.Cleanup(generator.Close)
	client := Client{URL: generator.URL, HTTP: generator.Client()}
	if err := client.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	job := jobTo(function.URL)
	job.PayloadBytes, job.Echo = 1000, true
	result, err := client.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range result.Records {
		if r.Error != "" || r.BytesReceived != 1000 || r.Total <= 0 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	job.URL = "nowhere"
	if _, err := client.Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "http://host:port") {
		t.Errorf("an impossible job gave error %v", err)
	}
}

// Several clients have their warm-up first, begin together, share the requests
// and the schedule, and are told apart in the records.
func TestClientsRunInStep(t *testing.T) {
	function := newServer(t, echo)
	var clients Clients
	for range 3 {
		generator := httptest.NewServer(NewHandler())
		t.Cleanup(generator.Close)
		clients = append(clients, Client{URL: generator.URL, HTTP: generator.Client()})
	}
	job := jobTo(function.URL)
	job.Requests = 31
	job.Model = Model{Kind: OpenLoop, Rate: 50, Concurrency: 2}
	result, err := clients.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	measured := map[int]int{}
	var lastWarmUp time.Duration
	var due []time.Duration
	for _, r := range result.Records {
		if r.Error != "" {
			t.Errorf("%+v", r)
		}
		if r.Warmup {
			lastWarmUp = max(lastWarmUp, r.Start)
			continue
		}
		measured[r.Client]++
		due = append(due, r.Intended)
	}
	if diff := cmp.Diff(map[int]int{0: 11, 1: 10, 2: 10}, measured); diff != "" {
		t.Error(diff)
	}
	slices.Sort(due)
	if due[0] <= lastWarmUp {
		t.Errorf("the first request was due at %s, before the last warm-up at %s", due[0], lastWarmUp)
	}
	// The clocks of the clients are one, so the whole schedule comes out but
	// for what reading it three times costs.
	for i, at := range due {
		if off := (at - due[0] - time.Duration(i)*20*time.Millisecond).Abs(); off > 9*time.Millisecond {
			t.Errorf("request %d was due %s off the schedule", i, off)
		}
	}
	job.Requests = 2
	if _, err := clients.Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "2 requests cannot be shared by 3 clients") {
		t.Errorf("got error %v", err)
	}
}

// A client that fails ends the others, which wait for it.
func TestClientsEndTogether(t *testing.T) {
	function := newServer(t, echo)
	good := httptest.NewServer(NewHandler())
	t.Cleanup(good.Close)
	bad := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bad.Close)
	clients := Clients{{URL: good.URL, HTTP: good.Client()}, {URL: bad.URL, HTTP: bad.Client()}}
	if _, err := clients.Run(t.Context(), jobTo(function.URL)); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got error %v", err)
	}
	if _, err := clients[0].Run(t.Context(), jobTo(function.URL)); err != nil {
		t.Errorf("the next job: %v", err)
	}
}

func TestStartWithoutAJob(t *testing.T) {
	generator := httptest.NewServer(NewHandler())
	t.Cleanup(generator.Close)
	client := Client{URL: generator.URL, HTTP: generator.Client()}
	for body, want := range map[string]string{"1": "no job waits", "soon": "invalid syntax"} {
		if _, err := client.do(t.Context(), http.MethodPost, "/start", []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// The job ends when the one who asked for it goes away, and the next one can
// run.
func TestJobEndsWithItsClient(t *testing.T) {
	function := newServer(t, echo)
	generator := httptest.NewServer(NewHandler())
	t.Cleanup(generator.Close)
	client := Client{URL: generator.URL, HTTP: generator.Client()}
	job := jobTo(function.URL)
	job.Model.ThinkTime = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Run(ctx, job); err == nil {
		t.Fatal("a job of hours ended at once")
	}
	job.Model.ThinkTime = 0
	if _, err := client.Run(t.Context(), job); err != nil {
		t.Error(err)
	}
}

func TestServeEndsWhenIdle(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(t.Context(), listener, 20*time.Millisecond); err != nil {
		t.Error(err)
	}
}

// What is asked during a job that takes longer than a generator may be idle
// does not end it.
func TestServeIsNotIdleDuringAJob(t *testing.T) {
	const idle = time.Second
	function := newServer(t, echo)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(t.Context(), listener, idle) }()
	client := Client{URL: "http://" + listener.Addr().String(), HTTP: http.DefaultClient}
	done := make(chan error, 1)
	go func() {
		job := jobTo(function.URL)
		job.Warmup, job.Requests = 1, 2
		job.Model.ThinkTime = idle * 3 / 4 // twice
		_, err := client.Run(t.Context(), job)
		done <- err
	}()
	for range 3 {
		if _, err := client.Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestInsidePod(t *testing.T) {
	here := map[netip.Addr]bool{netip.MustParseAddr("127.0.0.1"): true, netip.MustParseAddr("198.18.0.5"): true}
	tests := []struct{ name, pod, node, want string }{
		{"pod", "198.18.0.5", "198.18.1.1", ""},
		{"no pod", "", "", "are not set"},
		{"host network", "198.18.0.5", "198.18.0.5", "namespace of the node"},
		{"on the node", "198.18.0.9", "198.18.0.5", "namespace of the node"},
		{"elsewhere", "198.18.0.9", "198.18.1.1", "does not exist"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := insidePod(test.pod, test.node, here)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// The generator itself refuses to start in the namespace of the machine, even
// when the environment claims that this is a pod, and starts in one of its own
// that has the pod's address.
func TestServeRefusesOutsideItsNamespace(t *testing.T) {
	if err := Serve(t.Context(), []string{"-listen", "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "not set") {
		t.Errorf("outside a pod: got error %v", err)
	}
	t.Setenv(PodIPVariable, "198.18.0.5")
	t.Setenv(HostIPVariable, "127.0.0.1")
	if err := Serve(t.Context(), []string{"-listen", "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "namespace of the node") {
		t.Errorf("with the environment of a pod: got error %v", err)
	}
	t.Setenv(HostIPVariable, "198.18.1.1")
	if err := Serve(t.Context(), []string{"-listen", "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("with the environment of another pod: got error %v", err)
	}
}

// serveInNamespace makes the test binary, started in a network namespace of
// its own, serve as in a pod.
const serveInNamespace = "TESTBED_TEST_SERVE_IN_NAMESPACE"

func TestServeStartsInItsNamespace(t *testing.T) {
	if os.Getenv(serveInNamespace) != "" {
		for _, argv := range [][]string{
			{"ip", "link", "set", "lo", "up"},
			{"ip", "address", "add", "198.18.0.5/32", "dev", "lo"},
		} {
			if output, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		}
		if err := Serve(t.Context(), []string{"-listen", "198.18.0.5:0", "-idle", "20ms"}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), serveInNamespace+"=1", PodIPVariable+"=198.18.0.5", HostIPVariable+"=198.18.1.1")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
