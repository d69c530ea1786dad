package load

import (
	"context"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestClientRunsJob(t *testing.T) {
	function := newTarget(t, echo)
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

// The job ends when the one who asked for it goes away, and the next one can
// run.
func TestJobEndsWithItsClient(t *testing.T) {
	function := newTarget(t, echo)
	generator := httptest.NewServer(NewHandler())
	t.Cleanup(generator.Close)
	client := Client{URL: generator.URL, HTTP: generator.Client()}
	job := jobTo(function.URL)
	job.ThinkTime = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Run(ctx, job); err == nil {
		t.Fatal("a job of hours ended at once")
	}
	job.ThinkTime = 0
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
