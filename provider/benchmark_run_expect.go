package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

type benchmarkExpectationModel struct {
	Function           types.String  `tfsdk:"function"`
	Scenario           types.String  `tfsdk:"scenario"`
	Connection         types.String  `tfsdk:"connection"`
	Arm                types.String  `tfsdk:"arm"`
	MaxOverheadPercent types.Float64 `tfsdk:"max_overhead_percent"`
	MinOverheadPercent types.Float64 `tfsdk:"min_overhead_percent"`
	MaxOverheadMS      types.Float64 `tfsdk:"max_overhead_ms"`
	MinOverheadMS      types.Float64 `tfsdk:"min_overhead_ms"`
	MaxMedianMS        types.Float64 `tfsdk:"max_median_ms"`
	MaxP99MS           types.Float64 `tfsdk:"max_p99_ms"`
}

// benchmarkExpectAttribute is no part of a run's definition: other expectations
// are held against the numbers that are there.
func benchmarkExpectAttribute() schema.MapNestedAttribute {
	name := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: about + "; any by default.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}}
	}
	number := func(about string, least float64) schema.Float64Attribute {
		return schema.Float64Attribute{Optional: true, MarkdownDescription: about, Validators: []validator.Float64{float64validator.AtLeast(least)}}
	}
	const least = -1e12 // a difference of times may be below zero
	return schema.MapNestedAttribute{
		Optional: true,
		MarkdownDescription: "Hypotheses, by a name of your choice. Each is about the cells that its first four attributes leave, and holds when the 95 % interval of every one of them is within all bounds as a whole; " +
			"an interval that is too wide to tell does not hold. When one does not hold, the apply fails with the numbers; the results are kept in the state and in the folder of the run. " +
			"A new run is then marked as tainted, as Terraform does with any resource whose creation fails, so that the next apply measures again; `terraform untaint` keeps it. " +
			"A change of the expectations alone measures nothing and holds them against the results in the state. Each interval is taken by itself: of 20 hypotheses that hold by a hair, one is wrong.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"function":             name("Function"),
			"scenario":             name("Scenario"),
			"connection":           name("Connection mode"),
			"arm":                  name("Arm"),
			"max_overhead_percent": number("How much longer the arm may take than the baseline, in percent of the baseline's median; `0` says at most as long.", -100),
			"min_overhead_percent": number("How much longer the arm has to take, in percent of the baseline's median: an effect that is to be found.", -100),
			"max_overhead_ms":      number("How much longer the arm may take than the baseline, as a difference of medians in milliseconds.", least),
			"min_overhead_ms":      number("How much longer the arm has to take, as a difference of medians in milliseconds.", least),
			"max_median_ms":        number("How long the median may be, in milliseconds.", 0),
			"max_p99_ms":           number("How long the 99th percentile may be, in milliseconds; it needs 1000 requests.", 0),
		}},
	}
}

// expectation returns the hypothesis of a model; unknown values bound nothing.
func (m *benchmarkExpectationModel) expectation() bench.Expectation {
	return bench.Expectation{
		Cell: bench.Cell{
			Function: m.Function.ValueString(), Scenario: m.Scenario.ValueString(),
			Connection: load.Connection(m.Connection.ValueString()), Arm: m.Arm.ValueString(),
		},
		MaxOverheadPercent: m.MaxOverheadPercent.ValueFloat64Pointer(), MinOverheadPercent: m.MinOverheadPercent.ValueFloat64Pointer(),
		MaxOverheadMS: m.MaxOverheadMS.ValueFloat64Pointer(), MinOverheadMS: m.MinOverheadMS.ValueFloat64Pointer(),
		MaxMedianMS: m.MaxMedianMS.ValueFloat64Pointer(), MaxP99MS: m.MaxP99MS.ValueFloat64Pointer(),
	}
}

// unknown tells whether a bound is not known yet.
func (m *benchmarkExpectationModel) unknown() bool {
	return slices.ContainsFunc([]types.Float64{m.MaxOverheadPercent, m.MinOverheadPercent, m.MaxOverheadMS, m.MinOverheadMS, m.MaxMedianMS, m.MaxP99MS}, types.Float64.IsUnknown)
}

// validateExpect reports expectations that no run can meet or fail.
func (m *benchmarkRunModel) validateExpect(ctx context.Context, diags *diag.Diagnostics) {
	for name, value := range m.Expect.Elements() {
		var model benchmarkExpectationModel
		if !decode(ctx, value, &model, diags) {
			continue
		}
		at := path.Root("expect").AtMapKey(name)
		m.validateNames(at, &model, diags)
		expectation := model.expectation()
		switch {
		case model.unknown():
		case !expectation.Bounded():
			diags.AddAttributeError(at, "Unbounded Expectation", fmt.Sprintf("The expectation %q bounds nothing. Add a bound, for example max_overhead_percent = 5.", name))
		case !model.Arm.IsUnknown() && !m.Baseline.IsUnknown() && expectation.OnOverhead() && expectation.Arm == m.baseline():
			diags.AddAttributeError(at.AtName("arm"), "Expectation on the Baseline",
				fmt.Sprintf("The expectation %q bounds the overhead of %q, which is the baseline that overheads are measured against. Name another arm.", name, expectation.Arm))
		}
		for _, pair := range [][2]types.Float64{{model.MinOverheadPercent, model.MaxOverheadPercent}, {model.MinOverheadMS, model.MaxOverheadMS}} {
			low, high := pair[0].ValueFloat64Pointer(), pair[1].ValueFloat64Pointer()
			if low != nil && high != nil && *low > *high {
				diags.AddAttributeError(at, "Impossible Expectation", fmt.Sprintf("The expectation %q wants an overhead of at least %g and of at most %g. Exchange the bounds.", name, *low, *high))
			}
		}
	}
}

// validateNames reports names of an expectation that the run does not have.
func (m *benchmarkRunModel) validateNames(at path.Path, model *benchmarkExpectationModel, diags *diag.Diagnostics) {
	for _, part := range []struct {
		what   string
		name   types.String
		of     types.Map
		plural string
	}{
		{"function", model.Function, m.Functions, "functions"},
		{"scenario", model.Scenario, m.Scenarios, "scenarios"},
		{"arm", model.Arm, m.Arms, "arms"},
	} {
		if part.name.IsNull() || part.name.IsUnknown() || part.of.IsUnknown() {
			continue
		}
		if _, ok := part.of.Elements()[part.name.ValueString()]; !ok {
			diags.AddAttributeError(at.AtName(part.what), "Unknown Name", fmt.Sprintf("%q is not one of the %s %q.",
				part.name.ValueString(), part.plural, slices.Sorted(maps.Keys(part.of.Elements()))))
		}
	}
	if model.Connection.IsNull() || model.Connection.IsUnknown() || m.Connections.IsNull() || m.Connections.IsUnknown() {
		return
	}
	if !slices.ContainsFunc(m.Connections.Elements(), model.Connection.Equal) {
		diags.AddAttributeError(at.AtName("connection"), "Unknown Name", fmt.Sprintf("%q is not one of the connection modes %s.", model.Connection.ValueString(), m.Connections))
	}
}

// baseline returns the arm that others are compared with once the default of a
// configuration is filled in.
func (m *benchmarkRunModel) baseline() string {
	if m.Baseline.IsNull() {
		return "direct"
	}
	return m.Baseline.ValueString()
}

// judge adds an error for each expectation that the results do not meet.
func (m *benchmarkRunModel) judge(ctx context.Context, diags *diag.Diagnostics) {
	measured := m.measured()
	for _, name := range slices.Sorted(maps.Keys(m.Expect.Elements())) {
		var model benchmarkExpectationModel
		if !decode(ctx, m.Expect.Elements()[name], &model, diags) {
			continue
		}
		unmet := model.expectation().Unmet(measured, m.baseline())
		if len(unmet) == 0 {
			continue
		}
		diags.AddAttributeError(path.Root("expect").AtMapKey(name), "Expectation Not Met",
			fmt.Sprintf("The run %s does not meet the expectation %q.\n\n  %s\n\nThe results are kept, in the state and in %s. Terraform marks a new run as tainted and measures again at the next apply; "+
				"terraform untaint keeps it as it is, and then a change of expect is held against the same results.",
				m.ID.ValueString(), name, strings.Join(unmet, "\n  "), m.ResultsFolder.ValueString()))
	}
}

// measured returns the numbers of each cell as the state has them.
func (m *benchmarkRunModel) measured() []bench.Measured {
	var order []bench.Cell
	cells := map[bench.Cell]map[string]*float64{}
	for _, value := range slices.Concat(m.Results.Elements(), m.Comparisons.Elements()) {
		object, ok := value.(types.Object)
		if !ok {
			continue
		}
		attributes := object.Attributes()
		cell := bench.Cell{
			Function: textOf(attributes["function"]), Scenario: textOf(attributes["scenario"]),
			Connection: load.Connection(textOf(attributes["connection"])), Arm: textOf(attributes["arm"]),
		}
		if cells[cell] == nil {
			cells[cell], order = map[string]*float64{}, append(order, cell)
		}
		for name, value := range attributes {
			if number, ok := value.(types.Float64); ok {
				cells[cell][name] = number.ValueFloat64Pointer()
			}
		}
	}
	var measured []bench.Measured
	for _, cell := range order {
		measured = append(measured, bench.Measured{Cell: cell, Numbers: cells[cell]})
	}
	return measured
}

func textOf(value attr.Value) string {
	text, _ := value.(types.String)
	return text.ValueString()
}
