package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// benchmarkTargetModel is the part of a testbed_function that a run has to know.
type benchmarkTargetModel struct {
	Cluster   types.String `tfsdk:"cluster"`
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	Runtime   types.String `tfsdk:"runtime"`
	Scale     types.Object `tfsdk:"scale"`
}

type benchmarkTargetScaleModel struct {
	Min types.Int64 `tfsdk:"min"`
}

// benchmarkTargetAttribute takes a testbed_function as a whole: what is not
// declared here is dropped when it is assigned.
func benchmarkTargetAttribute() schema.SingleNestedAttribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "The `testbed_function` that is called, as a whole: `function = testbed_function.hello`. Cold starts need it, and with it a run can warn of what harms functions that scale to zero.",
		Attributes: map[string]schema.Attribute{
			"cluster":   schema.StringAttribute{Optional: true, Validators: []validator.String{clusterURLValidator()}, MarkdownDescription: "URL of its cluster; needed."},
			"namespace": schema.StringAttribute{Optional: true, MarkdownDescription: "Its namespace; `default` by default."},
			"name":      schema.StringAttribute{Optional: true, MarkdownDescription: "Its name; needed."},
			"runtime":   schema.StringAttribute{Optional: true, MarkdownDescription: "How it is run; `deployment` by default."},
			"scale": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "How many pods it has.",
				Attributes: map[string]schema.Attribute{
					"min": schema.Int64Attribute{Optional: true, MarkdownDescription: "Least number; 1 by default."},
				},
			},
		},
	}
}

// target returns the testbed_function that is called, nil when it is not said or
// not known yet.
func (m *benchmarkFunctionModel) target(ctx context.Context, diags *diag.Diagnostics) *benchmarkTargetModel {
	var target benchmarkTargetModel
	if !decode(ctx, m.Function, &target, diags) {
		return nil
	}
	return &target
}

// service is where the function runs.
func (m *benchmarkTargetModel) service() *bench.Service {
	return &bench.Service{
		Cluster:   m.Cluster.ValueString(),
		Namespace: textOrDefault(m.Namespace, "default"),
		Name:      m.Name.ValueString(),
	}
}

// least returns how many pods the function has at least, and whether that is
// known. A Deployment has them all the time.
func (m *benchmarkTargetModel) least(ctx context.Context, diags *diag.Diagnostics) (pods int, known bool) {
	if m.Runtime.IsUnknown() || m.Scale.IsUnknown() {
		return 0, false
	}
	if m.Runtime.ValueString() != function.Knative {
		return 1, true
	}
	var scale benchmarkTargetScaleModel
	decode(ctx, m.Scale, &scale, diags)
	return (&scaleModel{Min: scale.Min}).scale().Min, !scale.Min.IsUnknown()
}

// coldStarts tells whether the load is one of cold starts, and whether that is
// known.
func (m *benchmarkRunModel) coldStarts(ctx context.Context, diags *diag.Diagnostics) (cold, known bool) {
	if m.Load.IsNull() {
		return false, true
	}
	var model benchmarkLoadModel
	if !decode(ctx, m.Load, &model, diags) || model.Model.IsUnknown() {
		return false, false
	}
	return model.Model.ValueString() == string(load.ColdStart), true
}

// validateColdStarts reports what cold starts cannot have, and what only they
// can have.
func (m *benchmarkRunModel) validateColdStarts(ctx context.Context, diags *diag.Diagnostics) {
	cold, known := m.coldStarts(ctx, diags)
	if !known {
		return
	}
	warmup := !m.Warmup.IsNull() && !m.Warmup.IsUnknown()
	if !cold {
		if warmup && m.Warmup.ValueInt64() == 0 {
			diags.AddAttributeError(path.Root("warmup"), "No Warm-Up", "The first request of a connection sets the session up and is no measured one, so each cell needs a warm-up of 1 request at least. Only cold starts have none.")
		}
		return
	}
	if warmup && m.Warmup.ValueInt64() != 0 {
		diags.AddAttributeError(path.Root("warmup"), "Warm-Up of Cold Starts", "Each cold start is measured by itself, so there is nothing to warm up. Leave warmup out.")
	}
	if !m.Connections.IsNull() && !m.Connections.IsUnknown() && !anyUnknownElement(m.Connections) && !m.Connections.Equal(connectionSet([]load.Connection{load.New})) {
		diags.AddAttributeError(path.Root("connections"), "Connections of Cold Starts", "Each cold start has a connection of its own. Leave connections out, or write [\"new\"].")
	}
	var client benchmarkClientModel
	if decode(ctx, m.Client, &client, diags) && client.Clients.ValueInt64() > 1 {
		diags.AddAttributeError(path.Root("client").AtName("clients"), "Clients of Cold Starts", "Cold starts are one request at a time: a second client would find the pod of the first one's request. Leave clients out.")
	}
	m.validateTargets(ctx, diags)
}

func anyUnknownElement(set types.Set) bool {
	return slices.ContainsFunc(set.Elements(), attr.Value.IsUnknown)
}

// validateTargets reports functions that never start cold.
func (m *benchmarkRunModel) validateTargets(ctx context.Context, diags *diag.Diagnostics) {
	for name, value := range m.Functions.Elements() {
		at := path.Root("functions").AtMapKey(name).AtName("function")
		var model benchmarkFunctionModel
		if !decode(ctx, value, &model, diags) || model.Function.IsUnknown() {
			continue
		}
		target := model.target(ctx, diags)
		if target == nil {
			diags.AddAttributeError(at, "Missing Function", fmt.Sprintf("A run of cold starts has to know where the function %q runs, so that it can wait until it has no pod. Name its resource: function = testbed_function.NAME.", name))
			continue
		}
		least, known := target.least(ctx, diags)
		switch {
		case !known:
		case target.Runtime.ValueString() != function.Knative:
			diags.AddAttributeError(at, "No Cold Starts", fmt.Sprintf("The function %q is a Deployment, which keeps its pods, so it has no cold start. Set runtime = \"knative\" and scale = { min = 0 } of its testbed_function.", name))
		case least > 0:
			diags.AddAttributeError(at, "No Cold Starts", fmt.Sprintf("The function %q keeps %d pods always, so it has no cold start. Set scale = { min = 0 } of its testbed_function.", name, least))
		}
	}
}

// slowLink is the round-trip time above which a link may keep functions from
// starting: the first timeout of the activator when it connects to a pod.
const slowLink = 50 * time.Millisecond

// warnOfSlowLinks names the scenarios in which functions that scale to zero may
// not start.
func (m *benchmarkRunModel) warnOfSlowLinks(ctx context.Context, diags *diag.Diagnostics) {
	idle := m.idleFunctions(ctx, diags)
	if len(idle) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.Scenarios.Elements())) {
		var scenario benchmarkScenarioModel
		if !decode(ctx, m.Scenarios.Elements()[name], &scenario, diags) {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(scenario.Profiles.Elements())) {
			text, ok := scenario.Profiles.Elements()[id].(types.String)
			if !ok || text.IsUnknown() {
				continue
			}
			profile, err := netem.Parse([]byte(text.ValueString()))
			if rtt := profile.Expect(0).RTT; err == nil && rtt > slowLink {
				diags.AddAttributeWarning(path.Root("scenarios").AtMapKey(name), "Slow Link and Scale to Zero", fmt.Sprintf(
					"Scenario %q gives link %s a round trip of %s, and %s may have no pod when called. "+slowLinkAdvice,
					name, id, rtt.Round(100*time.Microsecond), strings.Join(idle, ", ")))
			}
		}
	}
}

const slowLinkAdvice = "Where a link of more than 50 ms lies between Knative's activator and the node of the function, a cold start takes a second or more longer, and with a Knative whose mesh-compatibility-mode is not \"disabled\", as a testbed_knative sets it, the activator's probes of a new pod time out and the request may wait for ever. Set scale = { min = 1 } of the testbed_function, or keep the activator on the function's side of the link."

// idleFunctions returns the functions that lose their last pod when nobody calls
// them, as far as that is known.
func (m *benchmarkRunModel) idleFunctions(ctx context.Context, diags *diag.Diagnostics) []string {
	var idle []string
	for _, name := range slices.Sorted(maps.Keys(m.Functions.Elements())) {
		var model benchmarkFunctionModel
		if !decode(ctx, m.Functions.Elements()[name], &model, diags) {
			continue
		}
		if target := model.target(ctx, diags); target != nil {
			if least, known := target.least(ctx, diags); known && least == 0 {
				idle = append(idle, name)
			}
		}
	}
	return idle
}

// byLoad gives an attribute that is left out a value that suits the load.
type byLoad struct {
	usual, cold attr.Value
}

func (byLoad) Description(context.Context) string { return "depends on the model of the load" }

func (d byLoad) MarkdownDescription(ctx context.Context) string { return d.Description(ctx) }

// choose returns the value, nil when the load is not known yet.
func (d byLoad) choose(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) attr.Value {
	var of types.Object
	diags.Append(config.GetAttribute(ctx, path.Root("load"), &of)...)
	switch cold, known := (&benchmarkRunModel{Load: of}).coldStarts(ctx, diags); {
	case !known:
		return nil
	case cold:
		return d.cold
	}
	return d.usual
}

func (d byLoad) PlanModifySet(ctx context.Context, req planmodifier.SetRequest, resp *planmodifier.SetResponse) {
	if req.ConfigValue.IsNull() {
		resp.PlanValue = types.SetUnknown(types.StringType)
		if value, ok := d.choose(ctx, req.Config, &resp.Diagnostics).(types.Set); ok {
			resp.PlanValue = value
		}
	}
}

func (d byLoad) PlanModifyInt64(ctx context.Context, req planmodifier.Int64Request, resp *planmodifier.Int64Response) {
	if req.ConfigValue.IsNull() {
		resp.PlanValue = types.Int64Unknown()
		if value, ok := d.choose(ctx, req.Config, &resp.Diagnostics).(types.Int64); ok {
			resp.PlanValue = value
		}
	}
}

func (d byLoad) PlanModifyString(ctx context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if req.ConfigValue.IsNull() {
		resp.PlanValue = types.StringUnknown()
		if value, ok := d.choose(ctx, req.Config, &resp.Diagnostics).(types.String); ok {
			resp.PlanValue = value
		}
	}
}
