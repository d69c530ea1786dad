package site

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const (
	edgeCluster = "k3s+local://edge"
	edgeCloud   = "wan/edge/cloud"
)

// bed is a real testbed: two hosts on a network, a cluster on one of them, and
// the functions in the cluster and, as the far arm, on the other host.
type bed struct {
	Site
	cluster    *kube.Client
	plan       bench.Plan
	configured netem.Profile // of the link
}

func newBed(t *testing.T) *bed {
	t.Helper()
	binary, images := os.Getenv("TESTBED_K3S_BINARY"), os.Getenv("TESTBED_K3S_AIRGAP_IMAGES")
	if os.Geteuid() != 0 || binary == "" || images == "" {
		t.Skip("a testbed needs root, and TESTBED_K3S_BINARY and TESTBED_K3S_AIRGAP_IMAGES as make test sets them")
	}
	data := datadir.Dir(t.TempDir())
	program, err := agent.Install(data)
	if err != nil {
		t.Skipf("a testbed needs the agent: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must(underlay.Apply(ctx, data, program, underlay.Spec{Name: "wan", CIDR: netip.MustParsePrefix("198.18.7.0/24"), MTU: 1500}))
	t.Cleanup(func() { removed(t, underlay.Remove(context.Background(), data, "wan")) })
	hosts := local.NewOpener(string(data))
	for name, address := range map[string]string{"edge": "198.18.7.11", "cloud": "198.18.7.12"} {
		t.Cleanup(func() { removed(t, hosts.Remove(context.Background(), name)) })
		_, err := hosts.Create(ctx, local.Spec{Name: name, Networks: []local.Network{{Name: "wan", Address: netip.MustParseAddr(address)}}})
		must(err)
	}
	edge, err := hosts.Open(ctx, local.URL("edge"))
	must(err)
	spec := k3s.Spec{
		Name: "edge", NodeIP: netip.MustParseAddr("198.18.7.11"), Interface: "eth0",
		ClusterCIDR: netip.MustParsePrefix("10.44.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.45.0.0/16"),
	}
	cache := artifact.NewCache(filepath.Join(string(data), "cache"))
	spec.Binary, err = cache.Fetch(ctx, artifact.Source{Location: binary})
	must(err)
	archive, err := cache.Fetch(ctx, artifact.Source{Location: images})
	must(err)
	spec.AirgapImages = []artifact.File{archive}
	must(k3s.Apply(ctx, edge, spec, func(progress string) { t.Log(progress) }))

	b := &bed{Site: Site{Data: data, Hosts: hosts, Clusters: kube.NewOpener(hosts)}}
	b.cluster, err = b.Clusters.Open(ctx, edgeCluster)
	must(err)
	t.Cleanup(b.cluster.Close)
	cloud, err := hosts.Open(ctx, local.URL("cloud"))
	must(err)
	program, err = cloud.Agent(ctx)
	must(err)
	near, far := map[string]string{}, map[string]string{}
	for name, port := range map[string]string{"hello-world": "8081", "payload-echo": "8082"} {
		must(function.Apply(ctx, b.cluster, function.Spec{Namespace: "default", Name: name, Builtin: name, Port: 8080, Replicas: 1}))
		status, err := function.Observe(ctx, b.cluster, "default", name)
		must(err)
		near[name] = status.URL()
		must(cloud.StartService(ctx, host.Service{Name: name, Argv: []string{program, "function", "-builtin", name, "-listen", ":" + port}}))
		far[name] = "http://198.18.7.12:" + port
	}
	b.configured, err = netem.Parse([]byte(`{"rtt":"4ms"}`))
	must(err)
	l, err := link.Parse(edgeCloud)
	must(err)
	must(link.Links{Data: data}.Apply(ctx, link.Spec{Link: l, Profile: b.configured}))
	b.plan = bench.Plan{
		Name:        "small",
		Functions:   map[string]bench.Function{"hello-world": {}, "payload-echo": {PayloadBytes: 102400, Echo: true}},
		Arms:        map[string]bench.Arm{"near": {URLs: near}, "far": {URLs: far}},
		Baseline:    "near",
		Scenarios:   map[string]bench.Scenario{"local": {edgeCloud: {}}, "edge": {edgeCloud: profile(t, `{"rtt":"10ms","jitter":"1ms","distribution":"normal"}`)}},
		Connections: load.Connections(),
		Requests:    6, Warmup: 1, Blocks: 2, Seed: 1,
		Timeout: 5 * time.Second, ConnectTimeout: 2 * time.Second, MaxErrorRatio: 0.05,
	}
	return b
}

func removed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func profile(t *testing.T, text string) netem.Profile {
	t.Helper()
	parsed, err := netem.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (b *bed) options(t *testing.T) Options {
	return Options{
		Cluster: edgeCluster, Namespace: "default", Dir: filepath.Join(t.TempDir(), "run"), Provider: "test",
		Verification: link.Verification{Packets: 20, RTTTolerance: 50 * time.Millisecond}, // on a busy machine, too
	}
}

// checkAfterwards checks what must hold however a run ends.
func (b *bed) checkAfterwards(t *testing.T) {
	t.Helper()
	l, err := link.Parse(edgeCloud)
	if err != nil {
		t.Fatal(err)
	}
	after, err := link.Links{Data: b.Data}.Observe(t.Context(), l)
	if err != nil || !after.Profile.Equal(b.configured) {
		t.Errorf("after the run the link is %s (%v), want %s", after.Profile.JSON(), err, b.configured.JSON())
	}
	pods, err := b.cluster.List(t.Context(), "v1", "Pod", "", RunLabel)
	if err != nil || len(pods) > 0 {
		t.Errorf("after the run there are %d pods of it (%v), want none", len(pods), err)
	}
}

func TestSite(t *testing.T) {
	b := newBed(t)
	t.Run("run", func(t *testing.T) {
		report, err := b.Run(t.Context(), b.plan, b.options(t))
		if err != nil {
			t.Fatal(err)
		}
		b.checkAfterwards(t)
		for _, r := range report.Results {
			if r.Count != 6 || r.Errors != 0 {
				t.Errorf("%v: %d requests and %d errors, want 6 and 0", r.Cell, r.Count, r.Errors)
				continue
			}
			least := 0.0 // of the median, in ms
			if r.Arm == "far" && r.Scenario == "edge" {
				least = 9
				if r.Connection == load.New {
					least = 18 // TCP's handshake, too
				}
			}
			if *r.Median < least || *r.Median > least+25 && r.Function == "hello-world" {
				t.Errorf("%v: median %.2f ms, want %g ms and not much more", r.Cell, *r.Median, least)
			}
		}
		var table strings.Builder
		if err := bench.Table(&table, report.Results, report.Comparisons); err != nil {
			t.Error(err)
		}
		t.Logf("%s in %s, %d invalid visits\n%s", report.SamplesFile, report.Finished.Sub(report.Started), report.InvalidVisits, table.String())
		for _, want := range []string{`"kubernetes":"v1.`, `"kernel":"`, `testbed.local/agent:`, `"rtt_median_ms":`} {
			if !strings.Contains(report.Environment, want) {
				t.Errorf("the environment lacks %s: %s", want, report.Environment)
			}
		}
	})
	t.Run("several clients in an open loop", func(t *testing.T) {
		plan := b.plan
		plan.Clients, plan.Requests, plan.Blocks = 2, 100, 1
		plan.Connections = []load.Connection{load.Reuse, load.ReuseFor(5)}
		plan.Load = load.Model{Kind: load.OpenLoop, Rate: 50, Arrivals: load.Poisson, Concurrency: 4, Seed: 1}
		plan.Functions = map[string]bench.Function{
			"hello-world":  {Protocol: load.H2C, ResponseBytes: 5000},
			"payload-echo": {PayloadBytes: 102400, Echo: true},
		}
		options := b.options(t)
		report, err := b.Run(t.Context(), plan, options)
		if err != nil {
			t.Fatal(err)
		}
		b.checkAfterwards(t)
		for _, r := range report.Results {
			if r.Count != 100 || r.Errors != 0 || r.Lag == nil {
				t.Errorf("%v: %d requests, %d errors, lag %v, want 100, 0 and some", r.Cell, r.Count, r.Errors, r.Lag)
			}
		}
		clients := map[int]int{}
		if err := bench.ReadSamples(options.Dir, func(s *bench.Sample) {
			if !s.Warmup {
				clients[s.Client]++
			}
		}); err != nil {
			t.Fatal(err)
		}
		if len(clients) != 2 || clients[0] != clients[1] {
			t.Errorf("the clients sent %v requests, want the same number from two", clients)
		}
		if !strings.Contains(report.Environment, `-1-`) {
			t.Errorf("the environment does not name the second pod: %s", report.Environment)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		options := b.options(t)
		options.Progress = func(p bench.Progress) {
			if p.Visit == 2 {
				time.AfterFunc(2*time.Second, cancel) // somewhere within the visit
			}
		}
		plan := b.plan
		plan.Load.ThinkTime = 200 * time.Millisecond
		if _, err := b.Run(ctx, plan, options); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
		b.checkAfterwards(t)
	})
	t.Run("unreachable arm", func(t *testing.T) {
		plan := b.plan
		plan.Arms = map[string]bench.Arm{"near": b.plan.Arms["near"], "broken": {URLs: map[string]string{
			"hello-world": "http://198.18.7.11:1", "payload-echo": "http://198.18.7.11:1",
		}}}
		_, err := b.Run(t.Context(), plan, b.options(t))
		for _, want := range []string{`arm "broken"`, `function "hello-world"`, "refused"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
		}
		b.checkAfterwards(t)
	})
	t.Run("after a killed run", func(t *testing.T) {
		if _, err := startPods(t.Context(), b.cluster, podSpec{Namespace: "default", Run: b.plan.Name}); err != nil {
			t.Fatal(err)
		}
		plan := b.plan
		plan.Blocks, plan.Requests = 1, 1
		if _, err := b.Run(t.Context(), plan, b.options(t)); err != nil {
			t.Error(err)
		}
		b.checkAfterwards(t)
	})
	t.Run("no namespace", func(t *testing.T) {
		options := b.options(t)
		options.Namespace = "nowhere"
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := b.Run(ctx, b.plan, options); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("got error %v", err)
		}
		b.checkAfterwards(t)
	})
}
