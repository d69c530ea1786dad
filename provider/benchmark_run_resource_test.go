package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// benchmarkRun is a configuration of a run whose parts a test can replace.
func benchmarkRun(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`
resource "testbed_benchmark_run" "this" {
  name   = "response-time"
  client = { cluster = "k3s+local://edge" }
  functions = {
    hello-world = {}
    payload-echo = { payload_bytes = 1000, echo = true }
  }
  arms = {
    direct = { urls = { hello-world = "http://198.19.0.12:30080", payload-echo = "http://198.19.0.12:30081" } }
    clusterlink = { urls = { hello-world = "http://hello-world:80", payload-echo = "http://payload-echo:80" } }
  }
  scenarios = {
    edge = { profiles = { "wan/edge/cloud" = jsonencode({ rtt = "10ms" }) } }
  }
}
`)
}

// What is wrong with a run shows in the plan, before any cluster is asked.
func TestBenchmarkRunRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		replace []string
		want    string
	}{
		"name":             {[]string{`"response-time"`, `"Response time"`}, `up to 40 lower-case letters, digits and inner hyphens`},
		"cluster":          {[]string{`"k3s+local://edge"`, `"edge"`}, `must be the URL of a cluster`},
		"baseline":         {[]string{`direct = {`, `straight = {`}, `The baseline "direct" is not one of the arms. Name an arm`},
		"missing url":      {[]string{`hello-world = "http://hello-world:80", `, ``}, `The arm "clusterlink" has no URL for the function "hello-world". Add one`},
		"url":              {[]string{`http://hello-world:80`, `hello-world:80`}, `"hello-world:80" is no URL of a function. Write one like`},
		"host":             {[]string{`direct = {`, "direct = { hosts = { hello-world = \"http://hello\" }\n"}, `"http://hello" is no host that a request can ask for. Write a name`},
		"host of nobody":   {[]string{`direct = {`, "direct = { hosts = { hello = \"hello.test\" }\n"}, `There is a host for "hello", which is not one of the functions`},
		"link":             {[]string{`"wan/edge/cloud"`, `"edge-cloud"`}, `"edge-cloud" is not a link; write NETWORK/HOST/HOST`},
		"profile":          {[]string{`rtt = "10ms"`, `rtt = "10"`}, `Cannot read the profile|rtt: `},
		"hop kind":         {[]string{`direct = {`, "direct = { hops = [{ name = \"pod\", kind = \"client\" }, { name = \"relay\", kind = \"relay\" }, { name = \"pod\", kind = \"function\" }]\n"}, `hop 2, "relay", is of kind "relay"; the kinds are`},
		"hop order":        {[]string{`direct = {`, "direct = { hops = [{ name = \"pod\", kind = \"client\" }, { name = \"port\", kind = \"service\" }]\n"}, `hop 2 of 2, "port", is a service; the first hop`},
		"hop name":         {[]string{`direct = {`, "direct = { hops = [{ kind = \"client\" }, { name = \"pod\", kind = \"function\" }]\n"}, `has no name; set it`},
		"requests":         {[]string{`arms = {`, "requests = 3\n  arms = {"}, `3 requests cannot be spread over 5 blocks. Each block needs one`},
		"no requests":      {[]string{`arms = {`, "requests = 0\n  arms = {"}, `must be at least 1`},
		"no warm-up":       {[]string{`arms = {`, "warmup = 0\n  arms = {"}, `must be at least 1`},
		"error ratio":      {[]string{`arms = {`, "max_error_ratio = 5\n  arms = {"}, `must be between 0.000000 and 1.000000`},
		"connections":      {[]string{`arms = {`, "connections = [\"some\"]\n  arms = {"}, `The connection mode is "some"; write "reuse", "new", or "reuse:N"`},
		"reuse for 1":      {[]string{`arms = {`, "connections = [\"reuse:1\"]\n  arms = {"}, `with N from 2, for example "reuse:10"`},
		"load model":       {[]string{`arms = {`, "load = { model = \"half-open\" }\n  arms = {"}, `must be one of: \["closed" "open"\]`},
		"no rate":          {[]string{`arms = {`, "load = { model = \"open\" }\n  arms = {"}, `An open loop needs a rate above 0 in requests per second, for example 100`},
		"rate":             {[]string{`arms = {`, "load = { model = \"open\", rate = -5 }\n  arms = {"}, `needs a rate above 0 in requests per second, for example 100; it is -5`},
		"open think":       {[]string{`arms = {`, "load = { model = \"open\", rate = 5, think_time = \"1s\" }\n  arms = {"}, `An open loop has no think time`},
		"closed rate":      {[]string{`arms = {`, "load = { rate = 5 }\n  arms = {"}, `A closed loop has no rate and no arrivals`},
		"arrivals":         {[]string{`arms = {`, "load = { model = \"open\", rate = 5, arrivals = \"bursts\" }\n  arms = {"}, `must be one of: \["constant" "poisson"\]`},
		"concurrency":      {[]string{`arms = {`, "load = { concurrency = 0 }\n  arms = {"}, `must be between 1 and 4096`},
		"method":           {[]string{`payload_bytes = 1000`, `payload_bytes = 1000, method = "PUT"`}, `must be one of: \["GET" "POST"\]`},
		"GET payload":      {[]string{`payload_bytes = 1000`, `payload_bytes = 1000, method = "GET"`}, `A GET has no body, and the payload is 1000 bytes; write the method "POST"`},
		"protocol":         {[]string{`payload_bytes = 1000`, `payload_bytes = 1000, protocol = "h3"`}, `must be one of: \["http/1.1" "h2c"\]`},
		"answer":           {[]string{`payload_bytes = 1000`, `payload_bytes = 1000, response_bytes = -1`}, `must be between 0 and`},
		"timeout":          {[]string{`arms = {`, "timeout = \"0s\"\n  arms = {"}, `timeout is 0s. Write a duration above zero`},
		"think time":       {[]string{`arms = {`, "load = { think_time = \"-1s\" }\n  arms = {"}, `The think time is -1s; it must not be negative`},
		"payload":          {[]string{`payload_bytes = 1000`, `payload_bytes = -1`}, `must be between 0 and`},
		"results":          {[]string{`arms = {`, "results_dir = \"results\"\n  arms = {"}, `it must be an absolute path`},
		"expect nothing":   {[]string{`arms = {`, "expect = { edge = { arm = \"clusterlink\" } }\n  arms = {"}, `The expectation "edge" bounds nothing. Add a bound`},
		"expect baseline":  {[]string{`arms = {`, "expect = { edge = { arm = \"direct\", max_overhead_percent = 5 } }\n  arms = {"}, `bounds the overhead of "direct", which is the baseline`},
		"expect scenario":  {[]string{`arms = {`, "expect = { edge = { scenario = \"cloud\", max_overhead_percent = 5 } }\n  arms = {"}, `"cloud" is not one of the scenarios \["edge"\]`},
		"expect arm":       {[]string{`arms = {`, "expect = { edge = { arm = \"skupper\", max_overhead_ms = 5 } }\n  arms = {"}, `"skupper" is not one of the arms \["clusterlink" "direct"\]`},
		"expect function":  {[]string{`arms = {`, "expect = { edge = { function = \"hello\", max_p99_ms = 5 } }\n  arms = {"}, `"hello" is not one of the functions`},
		"expect mode":      {[]string{`arms = {`, "connections = [\"new\"]\n  expect = { edge = { connection = \"reuse\", max_p99_ms = 5 } }\n  arms = {"}, `"reuse" is not one of the connection modes`},
		"expect too much":  {[]string{`arms = {`, "expect = { edge = { min_overhead_ms = 9, max_overhead_ms = 5 } }\n  arms = {"}, `wants an overhead of at least 9 and of at most 5`},
		"expect no median": {[]string{`arms = {`, "expect = { edge = { max_median_ms = -1 } }\n  arms = {"}, `must be at least 0`},
		"no function":      {[]string{`    hello-world = {}`, ``, `payload-echo = { payload_bytes = 1000, echo = true }`, ``}, `must contain at least 1 elements`},
		"no scenario":      {[]string{`edge = { profiles = { "wan/edge/cloud" = jsonencode({ rtt = "10ms" }) } }`, ``}, `must contain at least 1 elements`},
		"clients":          {[]string{`client = { cluster = "k3s+local://edge" }`, "client = { cluster = \"k3s+local://edge\", clients = 21 }"}, `100 requests in 5 blocks cannot be shared by 21 clients. Each client needs`},
		"no client":        {[]string{`client = { cluster = "k3s+local://edge" }`, "client = { cluster = \"k3s+local://edge\", clients = 0 }"}, `must be between 1 and 64`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      providerConfig(t.TempDir()) + benchmarkRun(test.replace...),
					PlanOnly:    true,
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}

// Values that come from other resources are unknown in the first plan, which
// has to go through all the same.
func TestBenchmarkRunPlansUnknownValues(t *testing.T) {
	const unknown = `
resource "terraform_data" "later" {
  input = "198.19.0.12"
}
`
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config: providerConfig(t.TempDir()) + unknown + benchmarkRun(
				`"http://198.19.0.12:30080"`, `"http://${terraform_data.later.output}:30080"`,
				`{ hello-world = "http://hello-world:80", payload-echo = "http://payload-echo:80" }`, `{ for name in ["hello-world", "payload-echo"] : name => terraform_data.later.output }`,
				`"wan/edge/cloud" =`, `(terraform_data.later.output) =`,
				`jsonencode({ rtt = "10ms" })`, `terraform_data.later.output`,
			),
			PlanOnly:           true,
			ExpectNonEmptyPlan: true,
			ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPreRefresh: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction("testbed_benchmark_run.this", plancheck.ResourceActionCreate),
				plancheck.ExpectKnownValue("testbed_benchmark_run.this", tfjsonpath.New("requests"), knownvalue.Int64Exact(100)),
				plancheck.ExpectUnknownValue("testbed_benchmark_run.this", tfjsonpath.New("results")),
			}},
		}},
	})
}

// The warning names the worst of the cells that the client is a part of.
func TestWarnOfLag(t *testing.T) {
	result := func(arm string, median, lag float64) bench.Result {
		return bench.Result{Cell: bench.Cell{Arm: arm}, Median: &median, Lag: &lag, Lagging: lag > bench.LagLimit*median}
	}
	var diags diag.Diagnostics
	warnOfLag(&diags, "fast", []bench.Result{{}, result("direct", 10, 0.05)})
	if len(diags) > 0 {
		t.Errorf("a client that does not lag: %v", diags)
	}
	warnOfLag(&diags, "fast", []bench.Result{result("direct", 10, 0.05), result("clusterlink", 1, 0.02), result("gateway", 0.5, 0.02)})
	if len(diags) != 1 || diags.HasError() {
		t.Fatalf("got %v", diags)
	}
	for _, want := range []string{`"fast"`, "in 2 of 3 cells", `most in arm "gateway"`, "0.020 of 0.500 ms"} {
		if !strings.Contains(diags[0].Detail(), want) {
			t.Errorf("the warning lacks %q: %s", want, diags[0].Detail())
		}
	}
}

func TestBenchmarkLoadAndFunction(t *testing.T) {
	var diags diag.Diagnostics
	open := benchmarkLoadModel{
		Model: types.StringValue("open"), Concurrency: types.Int64Value(8), ThinkTime: timetypes.NewGoDurationNull(),
		Rate: types.Float64Value(250), Arrivals: types.StringValue("poisson"),
	}
	closed := benchmarkLoadModel{Model: types.StringValue("closed"), ThinkTime: timetypes.NewGoDurationValue(200 * time.Millisecond)}
	function := benchmarkFunctionModel{
		Protocol: types.StringValue("h2c"), Method: types.StringValue("POST"), PayloadBytes: types.Int64Value(10), ResponseBytes: types.Int64Value(20),
	}
	for _, test := range []struct{ got, want any }{
		{open.load(7, &diags), load.Model{Kind: load.OpenLoop, Concurrency: 8, Rate: 250, Arrivals: load.Poisson, Seed: 7}},
		{closed.load(7, &diags), load.Model{Kind: load.ClosedLoop, ThinkTime: 200 * time.Millisecond, Seed: 7}},
		{function.function(), bench.Function{Protocol: load.H2C, Method: "POST", PayloadBytes: 10, ResponseBytes: 20}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" || diags.HasError() {
			t.Errorf("%s%v", diff, diags)
		}
	}
}

// A hop inside a cluster that plain TCP leads to needs no more than its name
// and kind.
func TestBenchmarkHopDefaults(t *testing.T) {
	kinds := map[string]attr.Type{"name": types.StringType, "kind": types.StringType, "protocol": types.StringType, "network": types.StringType}
	hop := func(name, kind string, more ...string) attr.Value {
		values := map[string]attr.Value{
			"name": types.StringValue(name), "kind": types.StringValue(kind), "protocol": types.StringNull(), "network": types.StringNull(),
		}
		if len(more) > 0 {
			values["protocol"], values["network"] = types.StringValue(more[0]), types.StringValue(more[1])
		}
		return types.ObjectValueMust(kinds, values)
	}
	arm := benchmarkArmModel{Hops: types.ListValueMust(types.ObjectType{AttrTypes: kinds}, []attr.Value{
		hop("client", "client"), hop("relay", "proxy", "mtls", "overlay"), hop("function", "function"),
	})}
	var diags diag.Diagnostics
	got, known := arm.hops(t.Context(), &diags)
	want := []bench.Hop{
		{Name: "client", Kind: bench.HopClient},
		{Name: "relay", Kind: bench.HopProxy, Protocol: bench.HopMTLS, Network: bench.HopOverlay},
		{Name: "function", Kind: bench.HopFunction, Protocol: bench.HopTCP, Network: bench.HopCluster},
	}
	if diff := cmp.Diff(want, got); diff != "" || !known || diags.HasError() {
		t.Errorf("hops (-want +got), known %v, %v:\n%s", known, diags, diff)
	}
}

// What defines a run repeats it; where its files go and what is expected of it
// does not.
func TestBenchmarkRunInputs(t *testing.T) {
	words := tftypes.Set{ElementType: tftypes.String}
	urls := tftypes.Map{ElementType: tftypes.String}
	arm := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"urls": urls, "path": tftypes.String}}
	text := func(value any) tftypes.Value { return tftypes.NewValue(tftypes.String, value) }
	values := map[string]tftypes.Value{
		"name":         text("short"),
		"blocks":       tftypes.NewValue(tftypes.Number, 5),
		"triggers":     tftypes.NewValue(urls, nil),
		"connections":  tftypes.NewValue(words, []tftypes.Value{text("new"), text("reuse")}),
		"keep_results": tftypes.NewValue(tftypes.Bool, true),
		"resume":       tftypes.NewValue(tftypes.Bool, true),
		"results_dir":  text("/srv/results"),
		"expect":       tftypes.NewValue(urls, map[string]tftypes.Value{}),
		"id":           text(nil),
		"arms": tftypes.NewValue(tftypes.Map{ElementType: arm}, map[string]tftypes.Value{
			"direct": tftypes.NewValue(arm, map[string]tftypes.Value{
				"urls": tftypes.NewValue(urls, map[string]tftypes.Value{"hello": text("http://198.18.0.1/")}), "path": text(nil),
			}),
		}),
	}
	kinds := map[string]tftypes.Type{}
	for name, value := range values {
		kinds[name] = value.Type()
	}
	got, err := benchmarkRunInputs(tftypes.NewValue(tftypes.Object{AttributeTypes: kinds}, values))
	if err != nil {
		t.Fatal(err)
	}
	want := bench.Inputs{
		"name": "short", "blocks": json.Number("5"), "connections": []any{"new", "reuse"},
		"arms": map[string]any{"direct": map[string]any{"urls": map[string]any{"hello": "http://198.18.0.1/"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}
