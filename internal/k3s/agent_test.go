package k3s_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
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

const agentConfig = `# Managed by testbed_k3s_cluster, which undoes other changes.
flannel-iface: nebula1
kubelet-arg:
- max-pods=50
node-ip: 198.19.0.12
node-name: edge-b
server: https://198.19.0.11:6443
token-file: /etc/rancher/k3s/token
`

func newAgent(t *testing.T) k3s.Agent {
	return k3s.Agent{
		Name:         "edge-b",
		NodeIP:       netip.MustParseAddr("198.19.0.12"),
		Interface:    "nebula1",
		Cluster:      "edge",
		ServerIP:     netip.MustParseAddr("198.19.0.11"),
		Config:       map[string]any{"kubelet-arg": []any{"max-pods=50"}, "service-node-port-range": "30000-30100"},
		Binary:       file(t, "k3s", "k3s version v1.37.2+k3s1 (abc)\n"),
		AirgapImages: []artifact.File{file(t, "images.tar", "one")},
	}
}

func join(t *testing.T, server, machine *k3stest.Machine, agent k3s.Agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := k3s.Join(ctx, server, machine, agent, func(string) {}); err != nil {
		t.Fatal(err)
	}
}

func wantNodes(t *testing.T, server *k3stest.Machine, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, server.Nodes()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestJoin(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	machine := k3stest.NewAgent(server, "local://b", "198.19.0.12")
	agent := newAgent(t)
	join(t, server, machine, agent)
	wantNodes(t, server, "edge", "edge-b")
	files := machine.Files()
	if diff := cmp.Diff(agentConfig, files["/etc/rancher/k3s/config.yaml"].Content); diff != "" {
		t.Errorf("config.yaml (-want +got):\n%s", diff)
	}
	token := files["/etc/rancher/k3s/token"]
	if token.Content != server.Files()[nodeToken].Content || token.Mode != 0o600 {
		t.Errorf("token %v", token)
	}
	service := machine.Services()["k3s-agent"].Service
	if diff := cmp.Diff([]string{"/usr/local/bin/k3s", "agent"}, service.Argv); diff != "" || service.KillMode != "process" {
		t.Errorf("service %+v", service)
	}
	status, err := k3s.ObserveAgent(t.Context(), machine)
	want := k3s.NodeStatus{ConfigYAML: agentConfig, BinarySHA256: agent.Binary.SHA256, Images: []string{k3stest.Sum("one")}}
	if diff := cmp.Diff(want, status); diff != "" || err != nil {
		t.Errorf("error %v, status (-want +got):\n%s", err, diff)
	}

	// Each change is made in place and restarts the agent once; none does not.
	pid := machine.Services()["k3s-agent"].PID
	again := func(what string, restarts int) {
		t.Helper()
		join(t, server, machine, agent)
		if got := machine.Services()["k3s-agent"].PID - pid; got != restarts {
			t.Errorf("%s: %d restarts, want %d", what, got, restarts)
		}
		pid = machine.Services()["k3s-agent"].PID
		wantNodes(t, server, "edge", "edge-b")
	}
	again("no change", 0)
	agent.Registries = "mirrors: {}\n"
	again("a registry", 1)
	if got := machine.Files()["/etc/rancher/k3s/registries.yaml"].Content; got != agent.Registries {
		t.Errorf("registries.yaml is %q", got)
	}
	agent.Registries = ""
	again("no registry", 1)
	if _, ok := machine.Files()["/etc/rancher/k3s/registries.yaml"]; ok {
		t.Error("registries.yaml is still there")
	}
	server.ForgetNode("edge-b")
	again("a node that kubectl deleted", 1)
	machine.Replaced.Store(true)
	if status, err := k3s.ObserveAgent(t.Context(), machine); err != nil || !status.Stale {
		t.Errorf("status %+v, %v: want it stale", status, err)
	}
	again("another device of that name", 1)
	if status, err := k3s.ObserveAgent(t.Context(), machine); err != nil || status.Stale {
		t.Errorf("status %+v, %v: want it not stale", status, err)
	}
}

// The server would refuse a new host under the name of a lost one.
func TestJoinAfterLoss(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	agent := newAgent(t)
	join(t, server, k3stest.NewAgent(server, "local://b", "198.19.0.12"), agent)
	machine := k3stest.NewAgent(server, "local://b", "198.19.0.12")
	join(t, server, machine, agent)
	wantNodes(t, server, "edge", "edge-b")
}

// A node that lives on another host is not taken for a lost one.
func TestJoinTakenName(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	agent := newAgent(t)
	join(t, server, k3stest.NewAgent(server, "local://b", "198.19.0.12"), agent)
	other := k3stest.NewAgent(server, "local://c", "198.19.0.12")
	var input *k3s.InputError
	err := k3s.Join(t.Context(), server, other, agent, func(string) {})
	if !errors.As(err, &input) || input.Field != "name" || !strings.Contains(err.Error(), `a node "edge-b" already, on local://b`) {
		t.Errorf("error %v, want that the name is taken", err)
	}
	wantNodes(t, server, "edge", "edge-b")
	server.NotReady.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := k3s.Join(ctx, server, other, agent, func(string) {}); errors.As(err, &input) {
		t.Errorf("error %v, want that a node that is gone gives its name", err)
	}
}

func TestLeave(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	agent := newAgent(t)
	progress := func(string) {}
	machine := k3stest.NewAgent(server, "local://b", "198.19.0.12")
	for range 2 {
		join(t, server, machine, agent)
		for range 2 { // an absent one is no error
			if err := k3s.Leave(t.Context(), server, machine, "edge", "edge-b", progress); err != nil {
				t.Fatal(err)
			}
			wantNodes(t, server, "edge")
		}
		if len(machine.Services())+len(machine.Files()) > 0 {
			t.Errorf("left: %v %v", machine.Services(), machine.Files())
		}
	}

	// A host that is gone takes only its node with it.
	join(t, server, machine, agent)
	if err := k3s.Leave(t.Context(), server, nil, "edge", "edge-b", progress); err != nil {
		t.Fatal(err)
	}
	wantNodes(t, server, "edge")
	if len(machine.Services()) != 1 {
		t.Errorf("services %v", machine.Services())
	}

	// One that cannot be asked is not taken for gone.
	machine.Unreachable = true
	if err := k3s.Leave(t.Context(), server, machine, "edge", "edge-b", progress); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("error %v, want that the host is unreachable", err)
	}
}

// A host has one k3s, and its removal leaves another one alone.
func TestOneNodeOfAHost(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	var input *k3s.InputError
	agent := newAgent(t)
	agent.NodeIP = netip.MustParseAddr("198.19.0.11")
	if err := k3s.Join(t.Context(), server, server, agent, func(string) {}); !errors.As(err, &input) || !strings.Contains(err.Error(), "already runs another k3s (node edge, pods 10.44.0.0/16") {
		t.Errorf("error %v, want that the server runs there", err)
	}
	machine := k3stest.NewAgent(server, "local://b", "198.19.0.12")
	agent = newAgent(t)
	join(t, server, machine, agent)
	if err := k3s.Remove(t.Context(), machine, "edge"); err != nil || len(machine.Services()) != 1 {
		t.Errorf("the agent was removed as a server, or %v", err)
	}
	if err := k3s.RemoveAgent(t.Context(), machine, "cloud"); err != nil || len(machine.Services()) != 1 {
		t.Errorf("the agent of another cluster was removed, or %v", err)
	}
	agent.Cluster = "cloud"
	if err := k3s.Join(t.Context(), server, machine, agent, func(string) {}); !errors.As(err, &input) || !strings.Contains(err.Error(), "node edge-b of cluster edge") {
		t.Errorf("error %v, want that another agent runs there", err)
	}
}

// What the reference says will fail is refused before anything is touched.
func TestApplyRefusesHost(t *testing.T) {
	for _, test := range []struct {
		name, field, want string
		files             map[string]string
		change            func(*k3s.Spec)
	}{
		{name: "host-gw over a tunnel", field: "config", want: "interface nebula1 of local://edge is a tunnel", change: func(s *k3s.Spec) { s.Config["flannel-backend"] = "host-gw" }},
		{name: "no memory controller, v2", field: "host", want: "cgroup_memory=1 cgroup_enable=memory", files: map[string]string{"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io pids\n"}},
		{name: "no memory controller, v1", field: "host", want: "/boot/firmware/cmdline.txt", files: map[string]string{"/proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t1\t1\t1\nmemory\t0\t80\t0\n"}},
	} {
		m := k3stest.New(t)
		for path, content := range test.files {
			if err := m.Write(t.Context(), path, 0o444, strings.NewReader(content)); err != nil {
				t.Fatal(err)
			}
		}
		spec := newSpec(t)
		if test.change != nil {
			test.change(&spec)
		}
		err := k3s.Apply(t.Context(), m, spec, func(string) {})
		var input *k3s.InputError
		if !errors.As(err, &input) || input.Field != test.field || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one of %s with %q", test.name, err, test.field, test.want)
		}
		if len(m.Files()) != len(test.files) || len(m.Services()) > 0 {
			t.Errorf("%s: the host was touched: %v %v", test.name, m.Files(), m.Services())
		}
	}
	for path, content := range map[string]string{"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n", "/proc/cgroups": "memory\t0\t80\t1\n"} {
		m := k3stest.New(t)
		if err := m.Write(t.Context(), path, 0o444, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		apply(t, m, newSpec(t))
	}
}

// The nodes of a cluster are found by what the provider wrote on them.
func TestHosts(t *testing.T) {
	server := k3stest.New(t)
	apply(t, server, newSpec(t))
	machine := k3stest.NewAgent(server, "local://b", "198.19.0.12")
	join(t, server, machine, newAgent(t))
	cluster, err := kube.NewOpener(k3stest.Opener{server, machine}).Open(t.Context(), "k3s+local://edge")
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	hosts, err := cluster.Hosts(t.Context())
	if err != nil || len(hosts) != 2 || hosts[0] != host.Host(server) || hosts[1] != host.Host(machine) {
		t.Errorf("hosts %v, %v", hosts, err)
	}
	gone, err := kube.NewOpener(k3stest.Opener{server}).Open(t.Context(), "k3s+local://edge")
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if _, err := gone.Hosts(t.Context()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "node edge-b") {
		t.Errorf("error %v, want that the host of a node is gone", err)
	}
}

// foreign is a machine with a k3s of its own.
type foreign struct{ *k3stest.Machine }

func (f foreign) Service(_ context.Context, name string) (host.ServiceStatus, error) {
	if name == "k3s" {
		return host.ServiceStatus{}, fmt.Errorf("service k3s: %w", host.ErrForeign)
	}
	return host.ServiceStatus{}, fmt.Errorf("service %s: %w", name, host.ErrNotExist)
}

// A k3s that the machine has of its own is neither replaced nor removed.
func TestForeignK3s(t *testing.T) {
	h := foreign{k3stest.New(t)}
	var input *k3s.InputError
	if err := k3s.Apply(t.Context(), h, newSpec(t), func(string) {}); !errors.As(err, &input) || !strings.Contains(err.Error(), "already runs a k3s of its own") {
		t.Errorf("error %v, want that the machine has a k3s", err)
	}
	if _, err := k3s.Observe(t.Context(), h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that the testbed has none there", err)
	}
	if err := k3s.Remove(t.Context(), h, "edge"); err != nil {
		t.Error(err)
	}
	if len(h.Files()) > 0 || len(h.Ran()) > 0 {
		t.Errorf("the machine was touched: %v %v", h.Files(), h.Ran())
	}
}

// On an overlay k3s starts after it and again with it; where the address is not
// on one, or the overlay is another's, it does not depend on it.
func TestRequiresOverlay(t *testing.T) {
	for _, test := range []struct {
		name    string
		overlay bool
		ip      string
		want    []string
	}{
		{"on the overlay", true, "198.19.0.11", []string{"nebula"}},
		{"on a tunnel of another kind", false, "198.19.0.11", nil},
		{"beside the overlay", true, "127.0.0.1", nil},
	} {
		m := k3stest.New(t)
		if test.overlay {
			if err := m.StartService(t.Context(), host.Service{Name: "nebula", Argv: []string{"nebula"}}); err != nil {
				t.Fatal(err)
			}
		}
		spec := newSpec(t)
		spec.NodeIP = netip.MustParseAddr(test.ip)
		apply(t, m, spec)
		if diff := cmp.Diff(test.want, m.Services()["k3s"].Service.Requires); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
