package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
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

// coldRun replaces what makes a run one of cold starts of two functions, of which
// the first one has these attributes; load adds to the load, and lines to the run.
func coldRun(attributes, load string, lines ...string) []string {
	const cold = `{ runtime = "knative", scale = { min = 0 } }`
	target := func(name, attributes string) string {
		return fmt.Sprintf(`merge({ cluster = "k3s+local://edge", name = %q }, %s)`, name, attributes)
	}
	return []string{
		`arms = {`, "load = { model = \"cold-start\"" + load + " }\n" + strings.Join(lines, "\n") + "\narms = {",
		`hello-world = {}`, `hello-world = { function = ` + target("hello-world", attributes) + ` }`,
		`echo = true`, `echo = true, function = ` + target("payload-echo", cold),
	}
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
		"no warm-up":       {[]string{`arms = {`, "warmup = 0\n  arms = {"}, `needs a warm-up of 1 request at least`},
		"error ratio":      {[]string{`arms = {`, "max_error_ratio = 5\n  arms = {"}, `must be between 0.000000 and 1.000000`},
		"connections":      {[]string{`arms = {`, "connections = [\"some\"]\n  arms = {"}, `The connection mode is "some"; write "reuse", "new", or "reuse:N"`},
		"reuse for 1":      {[]string{`arms = {`, "connections = [\"reuse:1\"]\n  arms = {"}, `with N from 2, for example "reuse:10"`},
		"load model":       {[]string{`arms = {`, "load = { model = \"half-open\" }\n  arms = {"}, `must be one of: \["closed" "open" "cold-start"\]`},
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
		"idle timeout":     {[]string{`arms = {`, "load = { idle_timeout = \"1m\" }\n  arms = {"}, `The idle timeout is about cold starts, and the load model is "closed"`},
		"half a function":  {[]string{`hello-world = {}`, `hello-world = { function = { name = "hello" } }`}, `It has no cluster or no name. Assign the resource as a whole`},
		"cold unknown":     {[]string{`arms = {`, "load = { model = \"cold-start\" }\n  arms = {"}, `has to know where the function "hello-world" runs`},
		"cold deployment":  {coldRun(`{ runtime = "deployment" }`, ``), `The function "hello-world" is a Deployment, which keeps its pods`},
		"cold default":     {coldRun(`{ runtime = "knative" }`, ``), `The function "hello-world" keeps 1 pods always, so it has no cold start. Set scale`},
		"cold min":         {coldRun(`{ runtime = "knative", scale = { min = 2 } }`, ``), `keeps 2 pods always`},
		"cold reuse":       {coldRun(`{ runtime = "knative", scale = { min = 0 } }`, ``, `connections = ["new", "reuse"]`), `Leave connections out, or write \["new"\]`},
		"cold warm-up":     {coldRun(`{ runtime = "knative", scale = { min = 0 } }`, ``, `warmup = 1`), `there is nothing to warm up. Leave warmup out`},
		"cold concurrency": {coldRun(`{ runtime = "knative", scale = { min = 0 } }`, `, concurrency = 2`), `one request at a time, and the concurrency is 2`},
		"cold rate":        {coldRun(`{ runtime = "knative", scale = { min = 0 } }`, `, rate = 2`), `Cold starts have no rate`},
		"cold clients":     {append(coldRun(`{ runtime = "knative", scale = { min = 0 } }`, ``), `client = { cluster = "k3s+local://edge" }`, `client = { cluster = "k3s+local://edge", clients = 2 }`), `a second client would find the pod`},
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

// What a run leaves out suits its load, and a testbed_function is handed over as
// a whole.
func TestBenchmarkRunDefaultsSuitTheLoad(t *testing.T) {
	const functions = `
resource "testbed_function" "this" {
  for_each = toset(["hello-world", "payload-echo"])
  cluster  = "k3s+local://edge"
  name     = each.key
  builtin  = each.key
  runtime  = "knative"
  scale    = { min = 0 }
}
`
	cold := []string{
		`arms = {`, "load = { model = \"cold-start\" }\narms = {",
		`hello-world = {}`, `hello-world = { function = testbed_function.this["hello-world"] }`,
		`echo = true`, `echo = true, function = testbed_function.this["payload-echo"]`,
	}
	words := func(words ...string) knownvalue.Check {
		var all []knownvalue.Check
		for _, word := range words {
			all = append(all, knownvalue.StringExact(word))
		}
		return knownvalue.SetExact(all)
	}
	for name, test := range map[string]struct {
		config      string
		connections knownvalue.Check
		warmup      int64
		timeout     string
	}{
		"closed":     {benchmarkRun(), words("new", "reuse"), 3, "5s"},
		"open":       {benchmarkRun(`arms = {`, "load = { model = \"open\", rate = 5 }\narms = {"), words("new", "reuse"), 3, "5s"},
		"cold-start": {functions + benchmarkRun(cold...), words("new"), 0, "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			const run = "testbed_benchmark_run.this"
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:             providerConfig(t.TempDir()) + test.config,
					PlanOnly:           true,
					ExpectNonEmptyPlan: true,
					ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPreRefresh: []plancheck.PlanCheck{
						plancheck.ExpectKnownValue(run, tfjsonpath.New("connections"), test.connections),
						plancheck.ExpectKnownValue(run, tfjsonpath.New("warmup"), knownvalue.Int64Exact(test.warmup)),
						plancheck.ExpectKnownValue(run, tfjsonpath.New("timeout"), knownvalue.StringExact(test.timeout)),
					}},
				}},
			})
		})
	}
}

// A link that is too slow for a function that may have no pod is warned of.
func TestWarnOfSlowLinks(t *testing.T) {
	ctx := t.Context()
	var diags diag.Diagnostics
	run := func(least int64, rtts ...string) *benchmarkRunModel {
		attributes := benchmarkRunPlanAttributes()
		function := attributes["functions"].(schema.MapNestedAttribute).NestedObject.Type().(types.ObjectType)
		values := map[string]attr.Value{}
		for name, kind := range function.AttrTypes {
			values[name] = nullOf(ctx, kind)
		}
		target := function.AttrTypes["function"].(types.ObjectType)
		scale := target.AttrTypes["scale"].(types.ObjectType)
		values["function"] = types.ObjectValueMust(target.AttrTypes, map[string]attr.Value{
			"cluster": types.StringValue("k3s+local://edge"), "namespace": types.StringNull(), "name": types.StringValue("hello"), "runtime": types.StringValue("knative"),
			"scale": types.ObjectValueMust(scale.AttrTypes, map[string]attr.Value{"min": types.Int64Value(least)}),
		})
		scenario := attributes["scenarios"].(schema.MapNestedAttribute).NestedObject.Type().(types.ObjectType)
		scenarios := map[string]attr.Value{}
		for _, rtt := range rtts {
			scenarios["at "+rtt] = types.ObjectValueMust(scenario.AttrTypes, map[string]attr.Value{
				"profiles": types.MapValueMust(types.StringType, map[string]attr.Value{"wan/edge/cloud": types.StringValue(`{"rtt":"` + rtt + `"}`)}),
			})
		}
		return &benchmarkRunModel{
			Functions: types.MapValueMust(function, map[string]attr.Value{"hello": types.ObjectValueMust(function.AttrTypes, values)}),
			Scenarios: types.MapValueMust(scenario, scenarios),
		}
	}
	run(0, "10ms", "50ms").warnOfSlowLinks(ctx, &diags)
	run(1, "80ms").warnOfSlowLinks(ctx, &diags)
	if len(diags) > 0 {
		t.Errorf("a link or a function that does no harm: %v", diags)
	}
	run(0, "10ms", "80ms").warnOfSlowLinks(ctx, &diags)
	if len(diags) != 1 || diags.HasError() {
		t.Fatalf("got %v", diags)
	}
	for _, want := range []string{`Scenario "at 80ms" gives link wan/edge/cloud a round trip of 80ms`, "hello may have no pod", "scale = { min = 1 }"} {
		if !strings.Contains(diags[0].Detail(), want) {
			t.Errorf("the warning lacks %q: %s", want, diags[0].Detail())
		}
	}
}

// nullOf returns the null value of a type.
func nullOf(ctx context.Context, kind attr.Type) attr.Value {
	value, err := kind.ValueFromTerraform(ctx, tftypes.NewValue(kind.TerraformType(ctx), nil))
	if err != nil {
		panic(err)
	}
	return value
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
