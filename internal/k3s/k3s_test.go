package k3s_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s/k3stest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const config = `# Managed by testbed_k3s_cluster, which undoes other changes.
advertise-address: 198.19.0.11
cluster-cidr: 10.44.0.0/16
disable:
- traefik
flannel-iface: nebula1
kubelet-arg:
- max-pods=50
node-ip: 198.19.0.11
node-name: edge
service-cidr: 10.45.0.0/16
service-node-port-range: 30000-30100
tls-san:
- 198.19.0.11
- edge
- edge.example.net
token-file: /etc/rancher/k3s/token
write-kubeconfig-mode: "0600"
`

// nodeToken is the file of a server that agents' tokens come from.
const nodeToken = "/var/lib/rancher/k3s/server/node-token"

// file writes an artifact of this machine.
func file(t *testing.T, name, content string) artifact.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return artifact.File{Path: path, Name: name, SHA256: k3stest.Sum(content)}
}

func newSpec(t *testing.T) k3s.Spec {
	return k3s.Spec{
		Name:         "edge",
		NodeIP:       netip.MustParseAddr("198.19.0.11"),
		Interface:    "nebula1",
		ClusterCIDR:  netip.MustParsePrefix("10.44.0.0/16"),
		ServiceCIDR:  netip.MustParsePrefix("10.45.0.0/16"),
		Disable:      []string{"traefik"},
		Config:       map[string]any{"kubelet-arg": []any{"max-pods=50"}, "service-node-port-range": "30000-30100"},
		Binary:       file(t, "k3s", "k3s version v1.37.2+k3s1 (abc)\n"),
		AirgapImages: []artifact.File{file(t, "images.tar", "one")},
	}
}
func TestConfig(t *testing.T) {
	spec := newSpec(t)
	spec.TLSSANs = []string{"edge.example.net"}
	text, err := spec.ConfigYAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config, text); diff != "" {
		t.Errorf("config.yaml (-want +got):\n%s", diff)
	}
	parsed, err := k3s.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	spec.Binary, spec.AirgapImages = artifact.File{}, nil // not in the file
	byString := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
	if diff := cmp.Diff(spec, parsed, byString); diff != "" {
		t.Errorf("parsed config.yaml (-want +got):\n%s", diff)
	}
	spec.Config = map[string]any{"tls-san+": []any{"x"}}
	if _, err := spec.ConfigYAML(); err == nil || !strings.Contains(err.Error(), `"tls-san+" cannot be set`) {
		t.Errorf("error %v, want that a reserved key cannot be set", err)
	}
}

func TestRelease(t *testing.T) {
	const base = "https://github.com/k3s-io/k3s/releases/download/v1.37.2%2Bk3s1/"
	binary, images, err := k3s.Release(k3s.Downloads, k3s.DefaultVersion, "arm")
	if err != nil {
		t.Fatal(err)
	}
	want := []artifact.Source{
		{Location: base + "k3s-armhf", Sums: []string{base + "sha256sum-arm.txt"}},
		{Location: base + "k3s-airgap-images-arm.tar.zst", Sums: []string{base + "sha256sum-arm.txt", base + "k3s-airgap-images-arm.sha256sum"}},
	}
	if diff := cmp.Diff(want, []artifact.Source{binary, images}); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if _, _, err := k3s.Release(k3s.Downloads, k3s.DefaultVersion, "riscv64"); err == nil {
		t.Error("no error for an architecture without releases")
	}
}

func apply(t *testing.T, m *k3stest.Machine, spec k3s.Spec) []string {
	t.Helper()
	var progress []string
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := k3s.Apply(ctx, m, spec, func(message string) { progress = append(progress, message) }); err != nil {
		t.Fatal(err)
	}
	return progress
}

func TestApply(t *testing.T) {
	m := k3stest.New(t)
	spec := newSpec(t)
	got := apply(t, m, spec)
	want := []string{
		"copying k3s", "copying images.tar", "waiting for service k3s to run", "waiting for the API server to answer",
		"waiting for the API server to be ready", "waiting for node edge to be Ready", "waiting for coredns to be available",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	files := func() map[string]string {
		all := map[string]string{}
		for path, file := range m.Files() {
			all[path] = file.Mode.String()
		}
		return all
	}
	image := "/var/lib/rancher/k3s/agent/images/" + k3stest.Sum("one") + "-images.tar"
	wantFiles := map[string]string{
		"/usr/local/bin/k3s":           "-rwxr-xr-x",
		"/etc/rancher/k3s/config.yaml": "-rw-------",
		"/etc/rancher/k3s/token":       "-rw-------",
		kube.K3sKubeconfig:             "-rw-------",
		nodeToken:                      "-rw-------",
		image:                          "-rw-r--r--",
	}
	if diff := cmp.Diff(wantFiles, files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	service := m.Services()["k3s"]
	if diff := cmp.Diff([]string{"/usr/local/bin/k3s", "server"}, service.Service.Argv); diff != "" || service.Service.KillMode != "process" {
		t.Errorf("service %+v", service.Service)
	}
	token := m.Files()["/etc/rancher/k3s/token"]

	// Each change is made in place, and restarts k3s once; no change does not.
	pid := service.PID
	again := func(what string, restarts int) {
		t.Helper()
		apply(t, m, spec)
		if got := m.Services()["k3s"].PID - pid; got != restarts {
			t.Errorf("%s: %d restarts, want %d", what, got, restarts)
		}
		pid = m.Services()["k3s"].PID
	}
	again("no change", 0)
	spec.TLSSANs = []string{"edge.example.net"}
	again("another configuration", 1)
	if err := m.Write(t.Context(), "/etc/rancher/k3s/config.yaml", 0o600, strings.NewReader("debug: true")); err != nil {
		t.Fatal(err)
	}
	again("a configuration changed by hand", 1)
	if got := m.Files()["/etc/rancher/k3s/config.yaml"].Content; got != config {
		t.Errorf("config.yaml is\n%s", got)
	}
	spec.Binary = file(t, "k3s", "k3s version v1.38.0+k3s1 (def)\n")
	again("another program", 1)
	spec.AirgapImages = []artifact.File{file(t, "images.tar.gz", "two")}
	again("another image archive", 1)
	delete(wantFiles, image)
	wantFiles["/var/lib/rancher/k3s/agent/images/"+k3stest.Sum("two")+"-images.tar.gz"] = "-rw-r--r--"
	if diff := cmp.Diff(wantFiles, files()); diff != "" {
		t.Errorf("files after the changes (-want +got):\n%s", diff)
	}
	if m.Files()["/etc/rancher/k3s/token"] != token {
		t.Error("the token has changed")
	}
}

func TestApplyRefusesInput(t *testing.T) {
	for _, test := range []struct {
		field, text string
		change      func(*k3s.Spec)
	}{
		{"binary", `printed "GNU bash" instead of "k3s version`, func(s *k3s.Spec) { s.Binary = file(t, "bash", "GNU bash\n") }},
		{"node_ip", "local://edge has no address 198.19.0.12; it has 127.0.0.1 on lo, ::1 on lo, 198.19.0.11 on nebula1", func(s *k3s.Spec) { s.NodeIP = netip.MustParseAddr("198.19.0.12") }},
		{"interface", `local://edge has no interface "eth9"`, func(s *k3s.Spec) { s.Interface = "eth9" }},
	} {
		m := k3stest.New(t)
		spec := newSpec(t)
		test.change(&spec)
		err := k3s.Apply(t.Context(), m, spec, func(string) {})
		var input *k3s.InputError
		if !errors.As(err, &input) || input.Field != test.field || !strings.Contains(err.Error(), test.text) {
			t.Errorf("error %v, want one of %s with %q", err, test.field, test.text)
		}
		if len(m.Files())+len(m.Services()) > 0 {
			t.Errorf("%s: the host was touched: %v %v", test.field, m.Files(), m.Services())
		}
	}

	m := k3stest.New(t)
	spec := newSpec(t)
	apply(t, m, spec)
	spec.ClusterCIDR = netip.MustParsePrefix("10.48.0.0/16")
	var input *k3s.InputError
	if err := k3s.Apply(t.Context(), m, spec, func(string) {}); !errors.As(err, &input) || input.Field != "name" || !strings.Contains(err.Error(), "10.44.0.0/16") {
		t.Errorf("error %v, want that another cluster runs there", err)
	}
}

func TestApplyTellsWhyItIsNotReady(t *testing.T) {
	spec := newSpec(t)
	fails := func(m *k3stest.Machine, patience time.Duration, texts ...string) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := k3s.Apply(ctx, m, spec, func(message string) {
			if strings.Contains(message, "API server to answer") {
				m.Log("k3s", "starting\nfatal: no such flag\n")
			}
		})
		if err == nil {
			t.Fatal("no error")
		}
		for _, text := range append(texts, "local://edge", "the last lines of its log are:\nstarting\nfatal: no such flag") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %q lacks %q", err, text)
			}
		}
		return err
	}
	m := k3stest.New(t)
	m.NotReady.Store(true)
	if err := fails(m, time.Second, "node edge to be Ready", "KubeletNotReady no network"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}

	m = k3stest.New(t)
	m.Down.Store(true)
	if err := fails(m, time.Second, "the API server to answer", "connection refused"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}

	// A server that ends again and again is given up before the time is over.
	m = k3stest.New(t)
	m.Down.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			m.Crash("k3s", "exit code 1")
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if err := fails(m, time.Minute, "it ended", "exit code 1"); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want it before the deadline", err)
	}
}

func TestObserve(t *testing.T) {
	m := k3stest.New(t)
	if _, err := k3s.Observe(t.Context(), m); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v, want that there is no k3s", err)
	}
	spec := newSpec(t)
	apply(t, m, spec)
	text, err := spec.ConfigYAML()
	if err != nil {
		t.Fatal(err)
	}
	want := k3s.Status{
		NodeStatus: k3s.NodeStatus{ConfigYAML: text, BinarySHA256: spec.Binary.SHA256, Images: []string{k3stest.Sum("one")}},
		CASHA256:   k3stest.Sum(string(m.API.Certificate().Raw)), KubernetesVersion: "v1.37.2", Nodes: []string{"edge"},
	}
	got, err := k3s.Observe(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	m.Down.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got, err = k3s.Observe(ctx, m)
	if !errors.Is(err, host.ErrUnreachable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that the API server is unreachable", err)
	}
	if got.ConfigYAML != text || got.BinarySHA256 != spec.Binary.SHA256 {
		t.Errorf("status %+v lacks what the host knows", got)
	}
	m = k3stest.New(t)
	m.Unreachable = true
	if _, err = k3s.Observe(t.Context(), m); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("error %v, want that the host is unreachable", err)
	}
}

func TestImages(t *testing.T) {
	m := k3stest.New(t)
	var loaded bytes.Buffer
	m.Commands["k3s"] = func(_ context.Context, command host.Command) (host.Output, error) {
		if slices.Equal(command.Argv[1:], []string{"ctr", "images", "import", "-"}) {
			_, err := io.Copy(&loaded, command.Stdin)
			return host.Output{}, err
		}
		return host.Output{Stdout: []byte("docker.io/library/a:1\ndocker.io/library/b:1\n")}, nil
	}
	if err := k3s.LoadImage(t.Context(), m, strings.NewReader("archive")); err != nil || loaded.String() != "archive" {
		t.Errorf("loaded %q, %v", loaded.String(), err)
	}
	for reference, want := range map[string]bool{"docker.io/library/b:1": true, "docker.io/library/b": false} {
		if got, err := k3s.ImagePresent(t.Context(), m, reference); err != nil || got != want {
			t.Errorf("ImagePresent(%s) = %t, %v", reference, got, err)
		}
	}
}

func TestRemove(t *testing.T) {
	m := k3stest.New(t)
	apply(t, m, newSpec(t))
	if err := k3s.Remove(t.Context(), m, "cloud"); err != nil || len(m.Services()) != 1 {
		t.Errorf("another cluster was removed, or %v", err)
	}
	for range 2 {
		if err := k3s.Remove(t.Context(), m, "edge"); err != nil {
			t.Fatal(err)
		}
		if len(m.Services()) > 0 || len(m.Files()) > 0 {
			t.Errorf("services %v and files %v are left", m.Services(), m.Files())
		}
	}
}
