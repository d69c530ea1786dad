package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

var (
	_ resource.ResourceWithConfigure      = (*linkResource)(nil)
	_ resource.ResourceWithValidateConfig = (*linkResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*linkResource)(nil)
	_ resource.ResourceWithImportState    = (*linkResource)(nil)
)

// linkTimeout bounds applying and measuring a link, beyond what its probes
// take.
const linkTimeout = 2 * time.Minute

type linkResource struct {
	data *providerData
}

func newLinkResource() resource.Resource { return &linkResource{} }

type linkModel struct {
	Network  types.String `tfsdk:"network"`
	Between  types.List   `tfsdk:"between"`
	Profile  types.String `tfsdk:"profile"`
	Verify   types.Object `tfsdk:"verify"`
	ID       types.String `tfsdk:"id"`
	Measured types.Object `tfsdk:"measured"`
}

type linkVerifyModel struct {
	Packets       types.Int64          `tfsdk:"packets"`
	Interval      timetypes.GoDuration `tfsdk:"interval"`
	RTTTolerance  timetypes.GoDuration `tfsdk:"rtt_tolerance"`
	LossTolerance types.Float64        `tfsdk:"loss_tolerance"`
	Rate          types.Bool           `tfsdk:"rate"`
}

var measuredTypes = map[string]attr.Type{
	"packets":             types.Int64Type,
	"wanted_rtt_ms":       types.Float64Type,
	"rtt_median_ms":       types.Float64Type,
	"rtt_min_ms":          types.Float64Type,
	"rtt_max_ms":          types.Float64Type,
	"wanted_forward_loss": types.Float64Type,
	"wanted_reverse_loss": types.Float64Type,
	"forward_loss":        types.Float64Type,
	"reverse_loss":        types.Float64Type,
	"forward_rate_mbit":   types.Float64Type,
	"reverse_rate_mbit":   types.Float64Type,
}

// localURL begins the URL of each local host.
const localURL = "local://"

func (m *linkModel) spec(ctx context.Context) (link.Link, netem.Profile, diag.Diagnostics) {
	var urls []string
	diags := m.Between.ElementsAs(ctx, &urls, false)
	if diags.HasError() || len(urls) != 2 {
		return link.Link{}, netem.Profile{}, diags
	}
	profile, err := netem.Parse([]byte(m.Profile.ValueString()))
	addAttributeFailure(&diags, path.Root("profile"), err)
	return link.Link{
		Network: m.Network.ValueString(),
		A:       strings.TrimPrefix(urls[0], localURL),
		B:       strings.TrimPrefix(urls[1], localURL),
	}, profile, diags
}

func (m *linkModel) verification(ctx context.Context) (link.Verification, diag.Diagnostics) {
	if m.Verify.IsNull() {
		return link.Verification{}, nil
	}
	var v linkVerifyModel
	diags := m.Verify.As(ctx, &v, basetypes.ObjectAsOptions{})
	if diags.HasError() {
		return link.Verification{}, diags
	}
	verification := link.Verification{
		Packets:       int(v.Packets.ValueInt64()),
		LossTolerance: v.LossTolerance.ValueFloat64() / 100,
		Rate:          v.Rate.ValueBool(),
	}
	var more diag.Diagnostics
	if !v.Interval.IsNull() {
		verification.Interval, more = v.Interval.ValueGoDuration()
		diags.Append(more...)
	}
	if !v.RTTTolerance.IsNull() {
		verification.RTTTolerance, more = v.RTTTolerance.ValueGoDuration()
		diags.Append(more...)
	}
	return verification, diags
}

// setMeasured keeps a measurement.
func (m *linkModel) setMeasured(measured link.Measurement) diag.Diagnostics {
	ms := func(d time.Duration) attr.Value { return types.Float64Value(float64(d.Microseconds()) / 1000) }
	percent := func(share float64) attr.Value { return types.Float64Value(share * 100) }
	mbit := func(rate netem.Rate) attr.Value {
		if rate == 0 {
			return types.Float64Null()
		}
		return types.Float64Value(float64(rate) / 1e6)
	}
	var diags diag.Diagnostics
	m.Measured, diags = types.ObjectValue(measuredTypes, map[string]attr.Value{
		"packets":             types.Int64Value(int64(measured.Packets)),
		"wanted_rtt_ms":       ms(measured.WantedRTT),
		"rtt_median_ms":       ms(measured.RTTMedian),
		"rtt_min_ms":          ms(measured.RTTMin),
		"rtt_max_ms":          ms(measured.RTTMax),
		"wanted_forward_loss": percent(measured.WantedForward),
		"wanted_reverse_loss": percent(measured.WantedReverse),
		"forward_loss":        percent(measured.ForwardLoss),
		"reverse_loss":        percent(measured.ReverseLoss),
		"forward_rate_mbit":   mbit(measured.ForwardRate),
		"reverse_rate_mbit":   mbit(measured.ReverseRate),
	})
	return diags
}

// set takes over what the network does. A profile that does the same keeps its
// wording.
func (m *linkModel) set(ctx context.Context, l link.Link, observed netem.Profile) diag.Diagnostics {
	m.ID = types.StringValue(l.String())
	m.Network = types.StringValue(l.Network)
	if wanted, err := netem.Parse([]byte(m.Profile.ValueString())); err != nil || !wanted.Equal(observed) {
		m.Profile = types.StringValue(observed.JSON())
	}
	if m.Measured.IsUnknown() {
		m.Measured = types.ObjectNull(measuredTypes)
	}
	var diags diag.Diagnostics
	m.Between, diags = types.ListValueFrom(ctx, types.StringType, []string{localURL + l.A, localURL + l.B})
	return diags
}

func (r *linkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_link"
}

func (r *linkResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Puts a profile on the path between two hosts of a network, in place and without dropping packets that are on their way. A change by hand shows in the plan, and the next apply repairs it.",
		Attributes: map[string]schema.Attribute{
			"network": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the `testbed_network`. A change makes a new link.",
			},
			"between": schema.ListAttribute{
				Required:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.SizeBetween(2, 2), listvalidator.UniqueValues()},
				PlanModifiers:       []planmodifier.List{listplanmodifier.RequiresReplace()},
				MarkdownDescription: "URLs of the two hosts, for example `[testbed_local_host.edge.url, testbed_local_host.cloud.url]`. Forward is from the first to the second. Two hosts have one link on a network, which is both directions. A change makes a new link.",
			},
			"profile": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The `json` of a `testbed_netem_profile`.",
			},
			"verify": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Measures the link on its hosts whenever it changes, and fails the apply when the measured values miss the wanted ones; `{}` takes all defaults. A busy machine disturbs a measurement, so it is taken up to three times. By default nothing is measured.",
				Attributes: map[string]schema.Attribute{
					"packets":        schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(10, 1_000_000)}, MarkdownDescription: "Packets in each direction; `100` by default. Rare losses need many."},
					"interval":       schema.StringAttribute{Optional: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "Time between packets, as a Go duration; `10ms` by default."},
					"rtt_tolerance":  schema.StringAttribute{Optional: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "How far the median round-trip time may be off, besides the sampling error that jitter brings, as a Go duration; the larger of 0.3 ms and 3 % by default."},
					"loss_tolerance": schema.Float64Attribute{Optional: true, Validators: []validator.Float64{float64validator.Between(0, 100)}, MarkdownDescription: "How far the loss may be off, in percentage points, where that is more than three standard errors and one packet; `0` by default."},
					"rate":           schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to also flood each direction that has a rate for a second; it has to arrive within 5 %. `false` by default."},
				},
			},
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "The network's and both hosts' names, `NETWORK/HOST/HOST`.",
			},
			"measured": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "What was measured when the link changed last; null without `verify`.",
				Attributes: map[string]schema.Attribute{
					"packets":             schema.Int64Attribute{Computed: true, MarkdownDescription: "Packets in each direction."},
					"wanted_rtt_ms":       schema.Float64Attribute{Computed: true, MarkdownDescription: "Median round-trip time by the profile, in milliseconds."},
					"rtt_median_ms":       schema.Float64Attribute{Computed: true, MarkdownDescription: "Measured median round-trip time, in milliseconds."},
					"rtt_min_ms":          schema.Float64Attribute{Computed: true, MarkdownDescription: "Shortest round-trip time, in milliseconds."},
					"rtt_max_ms":          schema.Float64Attribute{Computed: true, MarkdownDescription: "Longest round-trip time, in milliseconds."},
					"wanted_forward_loss": schema.Float64Attribute{Computed: true, MarkdownDescription: "Loss there by the profile, in percent."},
					"wanted_reverse_loss": schema.Float64Attribute{Computed: true, MarkdownDescription: "Loss on the way back by the profile, in percent."},
					"forward_loss":        schema.Float64Attribute{Computed: true, MarkdownDescription: "Measured loss there, in percent."},
					"reverse_loss":        schema.Float64Attribute{Computed: true, MarkdownDescription: "Measured loss on the way back, in percent."},
					"forward_rate_mbit":   schema.Float64Attribute{Computed: true, MarkdownDescription: "Measured rate there, in Mbit/s; null unless asked for."},
					"reverse_rate_mbit":   schema.Float64Attribute{Computed: true, MarkdownDescription: "Measured rate on the way back, in Mbit/s; null unless asked for."},
				},
			},
		},
	}
}

func (r *linkResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *linkResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Profile.IsUnknown() {
		_, err := netem.Parse([]byte(model.Profile.ValueString()))
		addAttributeFailure(&resp.Diagnostics, path.Root("profile"), err)
	}
	for i, element := range model.Between.Elements() {
		url, ok := element.(types.String)
		if !ok || url.IsUnknown() || strings.HasPrefix(url.ValueString(), localURL) && len(url.ValueString()) > len(localURL) {
			continue
		}
		addAttributeFailure(&resp.Diagnostics, path.Root("between").AtListIndex(i),
			fmt.Errorf("%q is not a host of a network; write the url of a testbed_local_host, for example \"local://edge\"", url.ValueString()))
	}
}

// ModifyPlan plans to measure a link that has to be verified and was not, or
// missed, and nothing for one that has not to be.
func (r *linkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var model linkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	switch {
	case model.Verify.IsNull():
		model.Measured = types.ObjectNull(measuredTypes)
	case model.Measured.IsNull():
		model.Measured = types.ObjectUnknown(measuredTypes)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("measured"), model.Measured)...)
}

func (r *linkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, &model, "Create", link.Create, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// setLink is link.Create or link.Apply.
type setLink func(context.Context, datadir.Dir, link.Link, netem.Profile) error

// apply sets and measures the link. It returns whether the link is there,
// which it is as well when it was measured and missed.
func (r *linkResource) apply(ctx context.Context, model *linkModel, verb string, set setLink, diags *diag.Diagnostics) (there bool) {
	l, profile, more := model.spec(ctx)
	diags.Append(more...)
	verification, more := model.verification(ctx)
	diags.Append(more...)
	if diags.HasError() {
		return false
	}
	probing := time.Duration(verification.Packets) * verification.Interval
	ctx, cancel := context.WithTimeout(ctx, linkTimeout+10*probing)
	defer cancel()
	dir := datadir.Dir(r.data.dataDir)
	err := set(ctx, dir, l, profile)
	var other *link.OtherProfileError
	if errors.As(err, &other) {
		diags.AddAttributeError(path.Root("between"), "Unable to "+verb+" Link", fmt.Sprintf(
			"%s, by another testbed_link or by hand. Two hosts have one link, which is both directions: where they differ, use forward and reverse of its profile.\n\nRemove one of two resources. If no resource has that link, take it over with \"terraform import\" and the id %q.", err, l))
		return false
	}
	var observed netem.Profile
	if err == nil {
		observed, err = link.Observe(ctx, dir, l)
	}
	if err != nil {
		addFailure(diags, verb, "Link", l.String(), err, "")
		return false
	}
	diags.Append(model.set(ctx, l, observed)...)
	if model.Verify.IsNull() {
		return true
	}
	measured, err := link.Verify(ctx, dir, r.data.hosts, l, profile, verification)
	if err != nil {
		addFailure(diags, "Verify", "Link", l.String(), err, "The link is set, and the next apply measures it again. If the machine is busy, wait until it is not; otherwise widen the tolerances of verify or send more packets.")
		model.Measured = types.ObjectNull(measuredTypes)
		return true
	}
	diags.Append(model.setMeasured(measured)...)
	return true
}

func (r *linkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	l, err := link.Parse(model.ID.ValueString())
	var observed netem.Profile
	if err == nil {
		observed, err = link.Observe(ctx, datadir.Dir(r.data.dataDir), l)
	}
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "Link", model.ID.ValueString(), err, "")
		return
	}
	resp.Diagnostics.Append(model.set(ctx, l, observed)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *linkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, &model, "Update", link.Apply, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *linkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	l, err := link.Parse(model.ID.ValueString())
	if err == nil {
		err = link.Remove(ctx, datadir.Dir(r.data.dataDir), l)
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Link", model.ID.ValueString(), err, "")
	}
}

// ImportState takes NETWORK/HOST/HOST.
func (r *linkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, err := link.Parse(req.ID); err != nil {
		addFailure(&resp.Diagnostics, "Import", "Link", req.ID, err, "")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
