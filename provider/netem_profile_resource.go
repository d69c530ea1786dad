package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

var (
	_ resource.Resource                   = (*netemProfileResource)(nil)
	_ resource.ResourceWithValidateConfig = (*netemProfileResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*netemProfileResource)(nil)
)

// netemProfileResource is a value only: it checks a profile and says what it
// does. There is nothing to read back, and so nothing to import.
type netemProfileResource struct{}

func newNetemProfileResource() resource.Resource { return &netemProfileResource{} }

// profileMTU and profileDevice stand in for those of a link, which a profile
// does not know.
const (
	profileMTU    = 1500
	profileDevice = "eth0"
)

// netemProfileModel is the computed part. The rest has the names and the
// meaning of netem.Settings and is read through JSON.
type netemProfileModel struct {
	JSON      types.String
	TC        types.Map
	Effective types.Object
}

var effectiveTypes = map[string]attr.Type{
	"rtt_ms":           types.Float64Type,
	"forward_delay_ms": types.Float64Type,
	"reverse_delay_ms": types.Float64Type,
	"forward_loss":     types.Float64Type,
	"reverse_loss":     types.Float64Type,
	"forward_limit":    types.Int64Type,
	"reverse_limit":    types.Int64Type,
}

func (m *netemProfileModel) set(p netem.Profile) diag.Diagnostics {
	var diags, more diag.Diagnostics
	m.JSON = types.StringValue(p.JSON())
	m.TC, diags = types.MapValue(types.StringType, map[string]attr.Value{
		"forward": types.StringValue(p.Forward.Tc(profileDevice, profileMTU)),
		"reverse": types.StringValue(p.Reverse.Tc(profileDevice, profileMTU)),
	})
	expected := p.Expect(profileMTU)
	m.Effective, more = types.ObjectValue(effectiveTypes, map[string]attr.Value{
		"rtt_ms":           types.Float64Value(float64(expected.RTT.Microseconds()) / 1000),
		"forward_delay_ms": types.Float64Value(float64(p.Forward.Delay) / 1e6),
		"reverse_delay_ms": types.Float64Value(float64(p.Reverse.Delay) / 1e6),
		"forward_loss":     types.Float64Value(expected.ForwardLoss * 100),
		"reverse_loss":     types.Float64Value(expected.ReverseLoss * 100),
		"forward_limit":    types.Int64Value(int64(p.Forward.EffectiveLimit(profileMTU))),
		"reverse_limit":    types.Int64Value(int64(p.Reverse.EffectiveLimit(profileMTU))),
	})
	diags.Append(more...)
	return diags
}

func (r *netemProfileResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_netem_profile"
}

func (r *netemProfileResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := profileAttributes("")
	attributes["rtt"] = schema.StringAttribute{
		Optional:            true,
		MarkdownDescription: "Round-trip time that the link adds, for example `10ms`; half of it each way. Set this or `delay`, not both.",
	}
	for _, direction := range []string{"forward", "reverse"} {
		attributes[direction] = schema.SingleNestedAttribute{
			Optional:            true,
			Attributes:          profileAttributes(" In this direction; as on the other side by default."),
			MarkdownDescription: "What is different on the " + map[string]string{"forward": "way from a link's first host to its second", "reverse": "way back"}[direction] + "; each attribute takes the place of the same one outside.",
		}
	}
	attributes["json"] = schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "The profile as canonical JSON, for the `profile` of a `testbed_link`.",
	}
	attributes["tc"] = schema.MapAttribute{
		Computed:            true,
		ElementType:         types.StringType,
		MarkdownDescription: "The `tc` command that each direction, `forward` and `reverse`, stands for. `keep_order` has no word in `tc`.",
	}
	attributes["effective"] = effectiveAttribute()
	resp.Schema = schema.Schema{
		MarkdownDescription: "Describes what a link does to packets, in the terms and with the semantics of Linux's netem. The whole profile is checked during the plan and nothing is dropped silently. It is a value only: there is nothing to import.",
		Attributes:          attributes,
	}
}

// effectiveAttribute describes effectiveTypes.
func effectiveAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Computed:            true,
		MarkdownDescription: "What the profile comes to, in numbers.",
		Attributes: map[string]schema.Attribute{
			"rtt_ms":           schema.Float64Attribute{Computed: true, MarkdownDescription: "Median round-trip time that a lone packet of 1500 bytes each way meets, in milliseconds."},
			"forward_delay_ms": schema.Float64Attribute{Computed: true, MarkdownDescription: "One-way delay there, in milliseconds."},
			"reverse_delay_ms": schema.Float64Attribute{Computed: true, MarkdownDescription: "One-way delay back, in milliseconds."},
			"forward_loss":     schema.Float64Attribute{Computed: true, MarkdownDescription: "Share of packets of which no intact copy arrives there, in percent. With a correlation it is below the configured one, as in netem."},
			"reverse_loss":     schema.Float64Attribute{Computed: true, MarkdownDescription: "The same on the way back, in percent."},
			"forward_limit":    schema.Int64Attribute{Computed: true, MarkdownDescription: "Packets that may wait there, of 1500 bytes each if it is derived."},
			"reverse_limit":    schema.Int64Attribute{Computed: true, MarkdownDescription: "The same on the way back."},
		},
	}
}

// profileAttributes are those that a whole profile and one direction have in
// common.
func profileAttributes(where string) map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description + where}
	}
	percent := func(description string) schema.Attribute {
		return schema.Float64Attribute{Optional: true, MarkdownDescription: description + ", from 0 to 100." + where}
	}
	count := func(least int64, description string) schema.Attribute {
		return schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.AtLeast(least)}, MarkdownDescription: description + where}
	}
	names := make([]string, len(netem.Distributions))
	for i, d := range netem.Distributions {
		names[i] = "`" + string(d) + "`"
	}
	return map[string]schema.Attribute{
		"delay":                 text("One-way delay, for example `5ms`."),
		"jitter":                text("Variation of the one-way delay, at most the delay. It reorders packets that follow each other closely, as in netem, unless `keep_order` is set."),
		"delay_correlation":     percent("How much of the last packet's deviation goes into the next one's, in percent"),
		"distribution":          text("Law of the jitter: " + strings.Join(names, ", ") + "; `uniform` by default. The jitter is the half-width of the uniform law and about the standard deviation of the others, which end at four times the jitter."),
		"loss":                  lossAttribute(where),
		"duplicate":             percent("Packets that arrive twice, in percent"),
		"duplicate_correlation": percent("Correlation of duplication, in percent"),
		"corrupt":               percent("Packets in which one bit is flipped, in percent"),
		"corrupt_correlation":   percent("Correlation of corruption, in percent"),
		"reorder":               percent("Packets that skip the delay and so overtake others, in percent; it needs a delay"),
		"reorder_correlation":   percent("Correlation of reordering, in percent"),
		"gap":                   count(1, "Only each packet of this number may overtake; it needs `reorder`."),
		"rate":                  text("Bandwidth in bits per second, for example `100mbit`."),
		"limit":                 count(1, "Packets that may wait; more are dropped. By default one and a half times what fits into delay and rate, at least 1000; without a rate, 10 Gbit/s are assumed."),
		"seed":                  count(0, "Chooses what happens to which packet; `0`, the default, leaves it to the network's seed."),
		"keep_order":            schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether no packet may overtake another in spite of jitter; `false` by default." + where},
	}
}

func lossAttribute(where string) schema.Attribute {
	percent := func(description string) schema.Attribute {
		return schema.Float64Attribute{Optional: true, MarkdownDescription: description + ", in percent."}
	}
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "Loss, by exactly one of the models `random`, `state` and `gemodel`. It acts in each direction and is never halved." + where,
		Attributes: map[string]schema.Attribute{
			"random": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Each packet is lost with the same probability.",
				Attributes: map[string]schema.Attribute{
					"percent":     schema.Float64Attribute{Required: true, MarkdownDescription: "Probability, in percent."},
					"correlation": percent("How much of the last draw goes into the next one. It makes losses rarer, as in netem; see `effective`"),
				},
			},
			"state": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Markov chain of four states: 1 receives in a gap, 2 receives in a burst, 3 loses in a burst, 4 loses in a gap.",
				Attributes: map[string]schema.Attribute{
					"p13": schema.Float64Attribute{Required: true, MarkdownDescription: "Probability of the way from state 1 to 3, in percent."},
					"p31": percent("From 3 to 1; 100 - `p13` by default"),
					"p32": percent("From 3 to 2; 0 by default"),
					"p23": percent("From 2 to 3; 100 by default"),
					"p14": percent("From 1 to 4; 0 by default"),
				},
			},
			"gemodel": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Gilbert-Elliott model with a good and a bad state.",
				Attributes: map[string]schema.Attribute{
					"p":           schema.Float64Attribute{Required: true, MarkdownDescription: "Probability of the way from good to bad, in percent."},
					"r":           percent("From bad to good; 100 - `p` by default"),
					"one_minus_h": percent("Loss in the bad state (netem's 1-h); 100 by default"),
					"one_minus_k": percent("Loss in the good state (netem's 1-k); 0 by default"),
				},
			},
		},
	}
}

func (r *netemProfileResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	if req.Config.Raw.IsFullyKnown() {
		_, diags := profileOf(req.Config.Raw)
		resp.Diagnostics.Append(diags...)
	}
}

// ModifyPlan plans what follows from a configuration that is known, so that
// links are planned with it.
func (r *netemProfileResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || !req.Config.Raw.IsFullyKnown() {
		return
	}
	resp.Diagnostics.Append(describe(req.Config.Raw, func(p path.Path, value any) diag.Diagnostics {
		return resp.Plan.SetAttribute(ctx, p, value)
	})...)
}

func (r *netemProfileResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(describe(req.Config.Raw, func(p path.Path, value any) diag.Diagnostics {
		return resp.State.SetAttribute(ctx, p, value)
	})...)
}

// Read has nothing to read.
func (r *netemProfileResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (r *netemProfileResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(describe(req.Config.Raw, func(p path.Path, value any) diag.Diagnostics {
		return resp.State.SetAttribute(ctx, p, value)
	})...)
}

// Delete has nothing to delete.
func (r *netemProfileResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}

// describe sets the computed attributes that follow from a configuration.
func describe(config tftypes.Value, set func(path.Path, any) diag.Diagnostics) diag.Diagnostics {
	profile, diags := profileOf(config)
	if diags.HasError() {
		return diags
	}
	var model netemProfileModel
	diags.Append(model.set(profile)...)
	diags.Append(set(path.Root("json"), model.JSON)...)
	diags.Append(set(path.Root("tc"), model.TC)...)
	diags.Append(set(path.Root("effective"), model.Effective)...)
	return diags
}

// profileOf reads a known configuration. Problems are on their attributes.
func profileOf(config tftypes.Value) (netem.Profile, diag.Diagnostics) {
	var diags diag.Diagnostics
	value, err := plain(config)
	var text []byte
	if err == nil {
		text, err = json.Marshal(value)
	}
	var settings netem.Settings
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		diags.AddError("Unable to Read Profile", fmt.Sprintf("%s. This is a bug in the provider; please report it.", err))
		return netem.Profile{}, diags
	}
	profile, err := settings.Profile()
	var problems netem.Problems
	if errors.As(err, &problems) {
		for _, problem := range problems {
			steps := strings.Split(problem.Attribute, ".")
			at := path.Root(steps[0])
			for _, step := range steps[1:] {
				at = at.AtName(step)
			}
			addAttributeFailure(&diags, at, errors.New(problem.Text))
		}
	}
	return profile, diags
}

// plain turns a known value into one that encoding/json prints, without the
// attributes that are null.
func plain(value tftypes.Value) (any, error) {
	switch {
	case value.Type().Is(tftypes.String):
		var text string
		err := value.As(&text)
		return text, err
	case value.Type().Is(tftypes.Bool):
		var yes bool
		err := value.As(&yes)
		return yes, err
	case value.Type().Is(tftypes.Number):
		var number big.Float
		err := value.As(&number)
		return json.Number(number.Text('f', -1)), err
	case value.Type().Is(tftypes.Set{}), value.Type().Is(tftypes.List{}):
		var elements []tftypes.Value
		if err := value.As(&elements); err != nil {
			return nil, err
		}
		list := []any{}
		for _, element := range elements {
			item, err := plain(element)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		return list, nil
	}
	var fields map[string]tftypes.Value
	if err := value.As(&fields); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for name, field := range fields {
		if field.IsNull() {
			continue
		}
		var err error
		if object[name], err = plain(field); err != nil {
			return nil, err
		}
	}
	return object, nil
}
