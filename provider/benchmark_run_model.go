package provider

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/site"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

type benchmarkRunModel struct {
	Name           types.String         `tfsdk:"name"`
	Client         types.Object         `tfsdk:"client"`
	Functions      types.Map            `tfsdk:"functions"`
	Arms           types.Map            `tfsdk:"arms"`
	Baseline       types.String         `tfsdk:"baseline"`
	Scenarios      types.Map            `tfsdk:"scenarios"`
	Connections    types.Set            `tfsdk:"connections"`
	Requests       types.Int64          `tfsdk:"requests"`
	Warmup         types.Int64          `tfsdk:"warmup"`
	Blocks         types.Int64          `tfsdk:"blocks"`
	Load           types.Object         `tfsdk:"load"`
	Timeout        timetypes.GoDuration `tfsdk:"timeout"`
	ConnectTimeout timetypes.GoDuration `tfsdk:"connect_timeout"`
	Seed           types.Int64          `tfsdk:"seed"`
	MaxErrorRatio  types.Float64        `tfsdk:"max_error_ratio"`
	Verify         types.Object         `tfsdk:"verify"`
	Describe       types.Set            `tfsdk:"describe"`
	Expect         types.Map            `tfsdk:"expect"`
	Triggers       types.Map            `tfsdk:"triggers"`
	ResultsDir     types.String         `tfsdk:"results_dir"`
	Resume         types.Bool           `tfsdk:"resume"`
	KeepResults    types.Bool           `tfsdk:"keep_results"`
	Timeouts       timeouts.Value       `tfsdk:"timeouts"`

	ID            types.String `tfsdk:"id"`
	Started       types.String `tfsdk:"started"`
	Finished      types.String `tfsdk:"finished"`
	Results       types.List   `tfsdk:"results"`
	Comparisons   types.List   `tfsdk:"comparisons"`
	ResultsFolder types.String `tfsdk:"results_folder"`
	SamplesFile   types.String `tfsdk:"samples_file"`
	SamplesSHA256 types.String `tfsdk:"samples_sha256"`
	SHA256        types.Map    `tfsdk:"sha256"`
	Environment   types.String `tfsdk:"environment"`
	InvalidBlocks types.Int64  `tfsdk:"invalid_blocks"`
	Drift         types.Object `tfsdk:"drift"`
}

type benchmarkClientModel struct {
	Cluster   types.String `tfsdk:"cluster"`
	Namespace types.String `tfsdk:"namespace"`
	Image     types.String `tfsdk:"image"`
	Clients   types.Int64  `tfsdk:"clients"`
}

type benchmarkFunctionModel struct {
	Protocol      types.String `tfsdk:"protocol"`
	Method        types.String `tfsdk:"method"`
	PayloadBytes  types.Int64  `tfsdk:"payload_bytes"`
	ResponseBytes types.Int64  `tfsdk:"response_bytes"`
	Echo          types.Bool   `tfsdk:"echo"`
	Function      types.Object `tfsdk:"function"`
}

type benchmarkLoadModel struct {
	Model       types.String         `tfsdk:"model"`
	Concurrency types.Int64          `tfsdk:"concurrency"`
	ThinkTime   timetypes.GoDuration `tfsdk:"think_time"`
	Rate        types.Float64        `tfsdk:"rate"`
	Arrivals    types.String         `tfsdk:"arrivals"`
	IdleTimeout timetypes.GoDuration `tfsdk:"idle_timeout"`
}

type benchmarkArmModel struct {
	URLs  types.Map    `tfsdk:"urls"`
	Hosts types.Map    `tfsdk:"hosts"`
	Path  types.String `tfsdk:"path"`
	Hops  types.List   `tfsdk:"hops"`
}

type benchmarkHopModel struct {
	Name     types.String `tfsdk:"name"`
	Kind     types.String `tfsdk:"kind"`
	Protocol types.String `tfsdk:"protocol"`
	Network  types.String `tfsdk:"network"`
}

// hops returns the hops of an arm. It is false when a part of one is unknown.
func (m *benchmarkArmModel) hops(ctx context.Context, diags *diag.Diagnostics) ([]bench.Hop, bool) {
	if m.Hops.IsUnknown() {
		return nil, false
	}
	var hops []bench.Hop
	for i, value := range m.Hops.Elements() {
		var hop benchmarkHopModel
		if !decode(ctx, value, &hop, diags) || hop.Name.IsUnknown() || hop.Kind.IsUnknown() || hop.Protocol.IsUnknown() || hop.Network.IsUnknown() {
			return nil, false
		}
		made := bench.Hop{Name: hop.Name.ValueString(), Kind: bench.HopKind(hop.Kind.ValueString())}
		if i > 0 {
			made.Protocol = bench.HopProtocol(textOrDefault(hop.Protocol, string(bench.HopTCP)))
			made.Network = bench.HopNetwork(textOrDefault(hop.Network, string(bench.HopCluster)))
		}
		hops = append(hops, made)
	}
	return hops, true
}

// textOrDefault returns the value that an attribute has when it may be left out.
func textOrDefault(value types.String, byDefault string) string {
	if value.IsNull() {
		return byDefault
	}
	return value.ValueString()
}

type benchmarkScenarioModel struct {
	Profiles types.Map `tfsdk:"profiles"`
}

type benchmarkVerifyModel struct {
	Packets       types.Int64          `tfsdk:"packets"`
	RTTTolerance  timetypes.GoDuration `tfsdk:"rtt_tolerance"`
	LossTolerance types.Float64        `tfsdk:"loss_tolerance"`
}

// validate reports what is wrong with the part of a configuration that is
// known.
func (m *benchmarkRunModel) validate(ctx context.Context, diags *diag.Diagnostics) {
	m.validateArms(ctx, diags)
	m.validateScenarios(ctx, diags)
	m.validateExpect(ctx, diags)
	requests, blocks := int64OrDefault(m.Requests, 100), int64OrDefault(m.Blocks, 5)
	if requests < blocks && !m.Requests.IsUnknown() && !m.Blocks.IsUnknown() {
		diags.AddAttributeError(path.Root("requests"), "Too Few Requests",
			fmt.Sprintf("%d requests cannot be spread over %d blocks. Each block needs one at least: raise requests or lower blocks.", requests, blocks))
	}
	m.validateLoad(ctx, diags)
	m.validateColdStarts(ctx, diags)
	m.validateFunctions(ctx, diags)
	m.validateConnections(diags)
	for name, value := range map[string]timetypes.GoDuration{"timeout": m.Timeout, "connect_timeout": m.ConnectTimeout} {
		if value.IsNull() || value.IsUnknown() {
			continue
		}
		duration, more := value.ValueGoDuration()
		diags.Append(more...)
		if duration <= 0 {
			diags.AddAttributeError(path.Root(name), "Invalid Duration", fmt.Sprintf("%s is %s. Write a duration above zero, for example \"5s\".", name, value.ValueString()))
		}
	}
}

func (m *benchmarkRunModel) validateLoad(ctx context.Context, diags *diag.Diagnostics) {
	var model benchmarkLoadModel
	if decode(ctx, m.Load, &model, diags) && !anyUnknown(m.Load) {
		if err := model.load(0, diags).Validate(); err != nil {
			diags.AddAttributeError(path.Root("load"), "Invalid Load", sentence(err))
		}
	}
	var client benchmarkClientModel
	if !decode(ctx, m.Client, &client, diags) || client.Clients.IsUnknown() || m.Requests.IsUnknown() || m.Blocks.IsUnknown() {
		return
	}
	clients, requests, blocks := int64OrDefault(client.Clients, 1), int64OrDefault(m.Requests, 100), int64OrDefault(m.Blocks, 5)
	if requests >= blocks && blocks > 0 && requests/blocks < clients {
		diags.AddAttributeError(path.Root("requests"), "Too Few Requests",
			fmt.Sprintf("%d requests in %d blocks cannot be shared by %d clients. Each client needs one in every block at least: raise requests, or lower blocks or client.clients.", requests, blocks, clients))
	}
}

func (m *benchmarkRunModel) validateFunctions(ctx context.Context, diags *diag.Diagnostics) {
	for name, value := range m.Functions.Elements() {
		var function benchmarkFunctionModel
		if !decode(ctx, value, &function, diags) {
			continue
		}
		at := path.Root("functions").AtMapKey(name)
		if target := function.target(ctx, diags); target != nil && (target.Cluster.IsNull() || target.Name.IsNull()) {
			diags.AddAttributeError(at.AtName("function"), "Incomplete Function", "It has no cluster or no name. Assign the resource as a whole: function = testbed_function.NAME.")
		}
		if !anyUnknown(value) {
			if err := function.function().Validate(); err != nil {
				diags.AddAttributeError(at, "Invalid Function", sentence(err))
			}
		}
	}
}

func (m *benchmarkRunModel) validateConnections(diags *diag.Diagnostics) {
	for _, value := range m.Connections.Elements() {
		text, ok := value.(types.String)
		if !ok || text.IsUnknown() {
			continue
		}
		if _, err := load.ParseConnection(text.ValueString()); err != nil {
			diags.AddAttributeError(path.Root("connections"), "Invalid Connection Mode", sentence(err))
		}
	}
}

// anyUnknown tells whether a nested value has a part that is not known yet.
func anyUnknown(value attr.Value) bool {
	object, ok := value.(types.Object)
	if !ok || object.IsUnknown() {
		return true
	}
	for _, part := range object.Attributes() {
		if part.IsUnknown() {
			return true
		}
	}
	return false
}

// load returns the load model; its Poisson arrivals have the seed of the run.
func (m *benchmarkLoadModel) load(seed uint64, diags *diag.Diagnostics) load.Model {
	return load.Model{
		Kind:        load.ModelKind(m.Model.ValueString()),
		Concurrency: int(m.Concurrency.ValueInt64()),
		ThinkTime:   durationOf(m.ThinkTime, diags),
		Rate:        m.Rate.ValueFloat64(),
		Arrivals:    load.Arrivals(m.Arrivals.ValueString()),
		Seed:        seed,
		IdleTimeout: durationOf(m.IdleTimeout, diags),
	}
}

func (m *benchmarkFunctionModel) function() bench.Function {
	return bench.Function{
		Protocol:      load.Protocol(m.Protocol.ValueString()),
		Method:        m.Method.ValueString(),
		PayloadBytes:  int(m.PayloadBytes.ValueInt64()),
		ResponseBytes: int(m.ResponseBytes.ValueInt64()),
		Echo:          m.Echo.ValueBool(),
	}
}

// int64OrDefault returns the value that a configuration will have after its
// default is filled in.
func int64OrDefault(value types.Int64, byDefault int64) int64 {
	if value.IsNull() {
		return byDefault
	}
	return value.ValueInt64()
}

func (m *benchmarkRunModel) validateArms(ctx context.Context, diags *diag.Diagnostics) {
	if m.Arms.IsUnknown() {
		return
	}
	if baseline := m.Baseline; !baseline.IsUnknown() {
		name := "direct"
		if !baseline.IsNull() {
			name = baseline.ValueString()
		}
		if _, ok := m.Arms.Elements()[name]; !ok {
			diags.AddAttributeError(path.Root("baseline"), "Unknown Baseline",
				fmt.Sprintf("The baseline %q is not one of the arms. Name an arm that the others are compared with.", name))
		}
	}
	for name, value := range m.Arms.Elements() {
		var arm benchmarkArmModel
		if !decode(ctx, value, &arm, diags) {
			continue
		}
		if hops, known := arm.hops(ctx, diags); known {
			addAttributeFailure(diags, path.Root("arms").AtMapKey(name).AtName("hops"), bench.ValidateHops(hops))
		}
		arm.validateHosts(path.Root("arms").AtMapKey(name).AtName("hosts"), m.Functions, diags)
		if arm.URLs.IsUnknown() || m.Functions.IsUnknown() {
			continue
		}
		at := path.Root("arms").AtMapKey(name).AtName("urls")
		for function := range m.Functions.Elements() {
			if _, ok := arm.URLs.Elements()[function]; !ok {
				diags.AddAttributeError(at, "Missing URL", fmt.Sprintf("The arm %q has no URL for the function %q. Add one, or remove the function.", name, function))
			}
		}
		for function, value := range arm.URLs.Elements() {
			url, ok := value.(types.String)
			if !ok || url.IsUnknown() {
				continue
			}
			if err := anyJob(url.ValueString(), "").Validate(); err != nil {
				diags.AddAttributeError(at.AtMapKey(function), "Invalid URL", fmt.Sprintf("%q is no URL of a function. Write one like \"http://198.19.0.12:30080/\".", url.ValueString()))
			}
		}
	}
}

// hosts returns the hosts that requests ask for. A function whose host is null
// is asked for by that of its URL.
func (m *benchmarkArmModel) hosts() map[string]string {
	hosts := stringMap(m.Hosts)
	maps.DeleteFunc(hosts, func(_, host string) bool { return host == "" })
	if len(hosts) == 0 {
		return nil
	}
	return hosts
}

func (m *benchmarkArmModel) validateHosts(at path.Path, functions types.Map, diags *diag.Diagnostics) {
	for function, value := range m.Hosts.Elements() {
		if _, ok := functions.Elements()[function]; !ok && !functions.IsUnknown() {
			diags.AddAttributeError(at.AtMapKey(function), "Unknown Function", fmt.Sprintf("There is a host for %q, which is not one of the functions. Correct the name, or remove it.", function))
		}
		host, ok := value.(types.String)
		if !ok || host.IsUnknown() || host.IsNull() {
			continue
		}
		if err := anyJob("http://198.18.0.1", host.ValueString()).Validate(); err != nil || host.ValueString() == "" {
			diags.AddAttributeError(at.AtMapKey(function), "Invalid Host", fmt.Sprintf("%q is no host that a request can ask for. Write a name without scheme and path, for example the host of a testbed_function.", host.ValueString()))
		}
	}
}

// anyJob is a job about which all is right but for the URL and the host.
func anyJob(url, host string) load.Job {
	return load.Job{URL: url, Host: host, Connection: load.New, Requests: 1, Timeout: time.Second, ConnectTimeout: time.Second}
}

func (m *benchmarkRunModel) validateScenarios(ctx context.Context, diags *diag.Diagnostics) {
	for name, value := range m.Scenarios.Elements() {
		var scenario benchmarkScenarioModel
		if !decode(ctx, value, &scenario, diags) {
			continue
		}
		for id, value := range scenario.Profiles.Elements() {
			at := path.Root("scenarios").AtMapKey(name).AtName("profiles").AtMapKey(id)
			if _, err := link.Parse(id); err != nil {
				diags.AddAttributeError(at, "Invalid Link", "The link "+err.Error()+", the id of a testbed_link.")
			}
			text, ok := value.(types.String)
			if !ok || text.IsUnknown() {
				continue
			}
			if _, err := netem.Parse([]byte(text.ValueString())); err != nil {
				diags.AddAttributeError(at, "Invalid Profile", "Cannot "+err.Error()+".")
			}
		}
	}
}

// decode reads a nested value unless it is unknown as a whole.
func decode(ctx context.Context, value attr.Value, into any, diags *diag.Diagnostics) bool {
	object, ok := value.(types.Object)
	if !ok || object.IsUnknown() || object.IsNull() {
		return false
	}
	more := object.As(ctx, into, basetypes.ObjectAsOptions{})
	diags.Append(more...)
	return !more.HasError()
}

// spec returns the plan of a configuration that is known as a whole, and where
// it is carried out.
func (m *benchmarkRunModel) spec(ctx context.Context, diags *diag.Diagnostics) (bench.Plan, site.Options) {
	plan := bench.Plan{
		Name:           m.Name.ValueString(),
		Functions:      map[string]bench.Function{},
		Arms:           map[string]bench.Arm{},
		Baseline:       m.Baseline.ValueString(),
		Scenarios:      map[string]bench.Scenario{},
		Requests:       int(m.Requests.ValueInt64()),
		Warmup:         int(m.Warmup.ValueInt64()),
		Blocks:         int(m.Blocks.ValueInt64()),
		Seed:           uint64(m.Seed.ValueInt64()),
		Timeout:        durationOf(m.Timeout, diags),
		ConnectTimeout: durationOf(m.ConnectTimeout, diags),
		MaxErrorRatio:  m.MaxErrorRatio.ValueFloat64(),
	}
	for name, value := range m.Functions.Elements() {
		var function benchmarkFunctionModel
		if decode(ctx, value, &function, diags) {
			called := function.function()
			if target := function.target(ctx, diags); target != nil {
				called.Service = target.service()
			}
			plan.Functions[name] = called
		}
	}
	for name, value := range m.Arms.Elements() {
		var arm benchmarkArmModel
		if decode(ctx, value, &arm, diags) {
			urls := map[string]string{}
			diags.Append(arm.URLs.ElementsAs(ctx, &urls, false)...)
			hops, _ := arm.hops(ctx, diags) // all is known by now
			plan.Arms[name] = bench.Arm{URLs: urls, Hosts: arm.hosts(), Path: arm.Path.ValueString(), Hops: hops}
		}
	}
	for name, value := range m.Scenarios.Elements() {
		var scenario benchmarkScenarioModel
		if decode(ctx, value, &scenario, diags) {
			plan.Scenarios[name] = scenario.profiles(ctx, diags)
		}
	}
	var model benchmarkLoadModel
	if decode(ctx, m.Load, &model, diags) {
		plan.Load = model.load(plan.Seed, diags)
	}
	// A set has no order; the results have that of the modes.
	var chosen []string
	diags.Append(m.Connections.ElementsAs(ctx, &chosen, false)...)
	for _, name := range chosen {
		plan.Connections = append(plan.Connections, load.Connection(name))
	}
	slices.SortFunc(plan.Connections, load.Connection.Compare)
	var client benchmarkClientModel
	if decode(ctx, m.Client, &client, diags) {
		plan.Clients = int(client.Clients.ValueInt64())
	}
	return plan, m.options(ctx, diags)
}

func (m *benchmarkScenarioModel) profiles(ctx context.Context, diags *diag.Diagnostics) bench.Scenario {
	var texts map[string]string
	diags.Append(m.Profiles.ElementsAs(ctx, &texts, false)...)
	scenario := bench.Scenario{}
	for id, text := range texts {
		profile, err := netem.Parse([]byte(text))
		if err != nil {
			diags.AddAttributeError(path.Root("scenarios"), "Invalid Profile", "Cannot "+err.Error()+".")
		}
		scenario[id] = profile
	}
	return scenario
}

func (m *benchmarkRunModel) options(ctx context.Context, diags *diag.Diagnostics) site.Options {
	var client benchmarkClientModel
	decode(ctx, m.Client, &client, diags)
	options := site.Options{
		Cluster:      client.Cluster.ValueString(),
		Namespace:    client.Namespace.ValueString(),
		Image:        client.Image.ValueString(),
		Others:       stringsOf(ctx, m.Describe, diags),
		Verification: link.Verification{Packets: 25},
	}
	var verify benchmarkVerifyModel
	if decode(ctx, m.Verify, &verify, diags) {
		options.Verification = link.Verification{
			Packets:       int(verify.Packets.ValueInt64()),
			RTTTolerance:  durationOf(verify.RTTTolerance, diags),
			LossTolerance: verify.LossTolerance.ValueFloat64() / 100,
		}
	}
	return options
}

// durationOf returns a duration, 0 when it is null.
func durationOf(value timetypes.GoDuration, diags *diag.Diagnostics) time.Duration {
	if value.IsNull() {
		return 0
	}
	duration, more := value.ValueGoDuration()
	diags.Append(more...)
	return duration
}

// benchmarkRunInputs returns the attributes of a plan that define its run. What
// is about files, time and what is expected of the run does not.
func benchmarkRunInputs(plan tftypes.Value) (bench.Inputs, error) {
	var attributes map[string]tftypes.Value
	if err := plan.As(&attributes); err != nil {
		return nil, err
	}
	inputs := bench.Inputs{}
	for name := range benchmarkRunPlanAttributes() {
		value := attributes[name]
		switch name {
		case "results_dir", "keep_results", "resume", "expect":
			continue
		}
		if value.IsNull() {
			continue
		}
		var err error
		if inputs[name], err = plain(value); err != nil {
			return nil, fmt.Errorf("read the attribute %s: %w", name, err)
		}
	}
	return inputs, nil
}

// set takes over what a run found.
func (m *benchmarkRunModel) set(report bench.Report) diag.Diagnostics {
	var diags diag.Diagnostics
	m.Started = types.StringValue(report.Started.Format(time.RFC3339))
	m.Finished = types.StringValue(report.Finished.Format(time.RFC3339))
	m.ResultsFolder = types.StringValue(filepath.Dir(report.SamplesFile))
	m.SamplesFile = types.StringValue(report.SamplesFile)
	m.SamplesSHA256 = types.StringValue(report.SamplesSHA256)
	m.SHA256, _ = types.MapValueFrom(context.Background(), types.StringType, report.SHA256) // strings always convert
	m.Environment = types.StringValue(report.Environment)
	m.InvalidBlocks = types.Int64Value(int64(report.InvalidVisits))
	m.Drift = driftValue(report.Drift, &diags)
	var results, comparisons []map[string]attr.Value
	for _, result := range report.Results {
		results = append(results, resultValues(result))
	}
	for _, comparison := range report.Comparisons {
		comparisons = append(comparisons, comparisonValues(comparison))
	}
	m.Results = objectList(benchmarkResultAttributes(), results, &diags)
	m.Comparisons = objectList(benchmarkComparisonAttributes(), comparisons, &diags)
	return diags
}

// driftValue is null for a run with too few blocks.
func driftValue(drift *bench.Drift, diags *diag.Diagnostics) types.Object {
	kinds := attributeTypes(benchmarkDriftAttributes())
	if drift == nil {
		return types.ObjectNull(kinds)
	}
	value, more := types.ObjectValue(kinds, map[string]attr.Value{
		"percent": types.Float64Value(drift.Percent), "p": types.Float64Value(drift.P),
	})
	diags.Append(more...)
	return value
}

func attributeTypes(attributes map[string]schema.Attribute) map[string]attr.Type {
	kinds := map[string]attr.Type{}
	for name, attribute := range attributes {
		kinds[name] = attribute.GetType()
	}
	return kinds
}

func cellValues(cell bench.Cell) map[string]attr.Value {
	return map[string]attr.Value{
		"function":   types.StringValue(cell.Function),
		"scenario":   types.StringValue(cell.Scenario),
		"connection": types.StringValue(string(cell.Connection)),
		"arm":        types.StringValue(cell.Arm),
	}
}

func resultValues(r bench.Result) map[string]attr.Value {
	values := cellValues(r.Cell)
	values["count"], values["errors"] = types.Int64Value(int64(r.Count)), types.Int64Value(int64(r.Errors))
	values["lagging"] = types.BoolValue(r.Lagging)
	for _, column := range bench.ResultColumns() {
		values[column.Name] = types.Float64PointerValue(column.Value(r))
	}
	return values
}

func comparisonValues(c bench.Comparison) map[string]attr.Value {
	values := cellValues(c.Cell)
	values["baseline"] = types.StringValue(c.Baseline)
	for _, column := range bench.ComparisonColumns() {
		values[column.Name] = types.Float64PointerValue(column.Value(c))
	}
	return values
}

// objectList makes the value of a list of nested attributes.
func objectList(attributes map[string]schema.Attribute, elements []map[string]attr.Value, diags *diag.Diagnostics) types.List {
	kinds := attributeTypes(attributes)
	var objects []attr.Value
	for _, values := range elements {
		object, more := types.ObjectValue(kinds, values)
		diags.Append(more...)
		objects = append(objects, object)
	}
	list, more := types.ListValue(types.ObjectType{AttrTypes: kinds}, objects)
	diags.Append(more...)
	return list
}
