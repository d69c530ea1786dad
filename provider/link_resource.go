package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
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

func (r *linkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_link"
}

func (r *linkResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Puts a profile on the path between two hosts. A change is made in place, and one that was made by hand shows in the plan and is repaired by the next apply. On a `testbed_network` the network itself carries the link out; between any other hosts their kernels do, with `tc`.",
		Attributes: map[string]schema.Attribute{
			"between": schema.ListAttribute{
				Required:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.SizeBetween(2, 2), listvalidator.UniqueValues()},
				PlanModifiers:       []planmodifier.List{listplanmodifier.RequiresReplace()},
				MarkdownDescription: "URLs of the two hosts, for example `[testbed_local_host.edge.url, testbed_local_host.cloud.url]`. Forward is from the first to the second. Two hosts have one link on a network, or at one place, which is both directions. A change makes a new link.",
			},
			"profile": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The `json` of a `testbed_netem_profile`.",
			},
			"network": schema.StringAttribute{
				Optional:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the `testbed_network` that both are on. Without it the hosts' kernels carry the link out: an HTB queueing discipline at the root of the device by which packets to the other host leave, a class with a netem discipline for them, and nothing for all other packets. SSH between the two is never shaped, and a change that cuts the provider off is taken back by the host itself. A change makes a new link.",
			},
			"addresses": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.ListType{ElemType: types.StringType},
				Validators:          []validator.List{listvalidator.SizeBetween(2, 2), listvalidator.ValueListsAre(listvalidator.SizeAtLeast(1))},
				PlanModifiers:       []planmodifier.List{listplanmodifier.RequiresReplace()},
				MarkdownDescription: "Without `network`: for each of the two hosts the IPv4 and IPv6 addresses by which the other one reaches it, for example `[[\"192.0.2.1\"], [\"192.0.2.2\", \"2001:db8::2\"]]`. By default the addresses in their URLs, with `on = \"underlay\"`. A change makes a new link.",
			},
			"on": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.OneOf(string(link.Underlay), string(link.Overlay))},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplaceIf(placeDiffers, placeDiffersText, placeDiffersText)},
				MarkdownDescription: "Without `network`: where packets meet the profile, on the `underlay`, which is the network card, or on the `overlay`, which is the Nebula device, before they are encrypted. Packets have other sizes and numbers there, so results of the two do not compare. `underlay` by default. A change makes a new link.",
			},
			"shape_on": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Without `network`: URL of one of the two hosts, which then shapes both directions, what comes in by way of an `ifb` device, while nothing is changed on the other one. By default each host shapes what it sends.",
			},
			"keep_offloads": schema.BoolAttribute{
				Optional:            true,
				PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
				MarkdownDescription: "Without `network`: whether segmentation offloads (TSO, GSO) of the device stay on. They make packets of up to 64 KiB, and a loss or a place in the queue is that of such a packet. `false` by default: they are off while the device has a link. A change makes a new link.",
			},
			"replace_existing": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Without `network`: whether a queueing discipline that somebody else has put at the device's root may be replaced. It is put back when the device's last link is destroyed. `false` by default, which makes it an error.",
			},
			"verify": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Measures the link on its hosts whenever it changes, and fails the apply when the measured values miss the wanted ones; `{}` takes all defaults. A busy machine disturbs a measurement, so it is taken up to three times. By default nothing is measured.",
				Attributes: map[string]schema.Attribute{
					"packets":        schema.Int64Attribute{Optional: true, Validators: []validator.Int64{int64validator.Between(10, 1_000_000)}, MarkdownDescription: "Packets in each direction; `100` by default. Rare losses need many."},
					"interval":       schema.StringAttribute{Optional: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "Time between packets, as a Go duration; `10ms` by default."},
					"rtt_tolerance":  schema.StringAttribute{Optional: true, CustomType: timetypes.GoDurationType{}, MarkdownDescription: "How far the median round-trip time may be off, besides the sampling error that jitter brings, as a Go duration; by default the larger of 0.3 ms and 3 %, and of 0.5 ms and 5 % without `network`."},
					"loss_tolerance": schema.Float64Attribute{Optional: true, Validators: []validator.Float64{float64validator.Between(0, 100)}, MarkdownDescription: "How far the loss may be off, in percentage points, where that is more than three standard errors and one packet; `0` by default."},
					"rate":           schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether to also flood each direction that has a rate for a second; it has to arrive within 5 %. `false` by default."},
				},
			},
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "The network's and both hosts' names, `NETWORK/HOST/HOST`, or the place and both hosts' URLs, `PLACE/URL/URL`.",
			},
			"measured": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "What was measured when the link changed last; null without `verify`.",
				Attributes: map[string]schema.Attribute{
					"packets":             schema.Int64Attribute{Computed: true, MarkdownDescription: "Packets in each direction."},
					"wanted_rtt_ms":       schema.Float64Attribute{Computed: true, MarkdownDescription: "Median round-trip time that the profile adds, in milliseconds."},
					"base_rtt_ms":         schema.Float64Attribute{Computed: true, MarkdownDescription: "Median round-trip time of the path before it had a link, in milliseconds, to which the link adds; null on a network."},
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
			"shaping": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "What the hosts' kernels do, in the order of `between`; null on a network.",
				NestedObject: schema.NestedAttributeObject{
					Attributes: map[string]schema.Attribute{
						"host":         schema.StringAttribute{Computed: true, MarkdownDescription: "URL of the host."},
						"device":       schema.StringAttribute{Computed: true, MarkdownDescription: "Device whose packets are shaped, for example `eth0`."},
						"ingress":      schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether what comes in is shaped as well."},
						"limit":        schema.Int64Attribute{Computed: true, MarkdownDescription: "Packets that may wait on the way out: the profile's, or what is derived from rate and delay."},
						"offloads_off": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Offloads of the device that are off while it has a link, and were on before, for example `tso`."},
						"replaced":     schema.StringAttribute{Computed: true, MarkdownDescription: "Kind of the queueing discipline that was replaced, and comes back on destroy; null for none."},
					},
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
	resp.Diagnostics.Append(model.validate(ctx)...)
}

// ModifyPlan plans to measure a link that has to be verified and was not, or
// missed, and nothing for one that has not to be. It asks hosts whose kernels
// have to change whether they can.
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
	if !model.Network.IsNull() {
		model.Shaping = types.ListNull(shapingType)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("shaping"), model.Shaping)...)
	if r.data != nil && !req.Plan.Raw.Equal(req.State.Raw) && !resp.Diagnostics.HasError() {
		r.askHosts(ctx, &model, &resp.Diagnostics)
	}
}

// askTimeout bounds how long a plan waits for hosts.
const askTimeout = 30 * time.Second

// askHosts reports what the hosts lack for the link. A host that is not there
// yet, or cannot be reached, is no error of a plan: the apply says so.
func (r *linkResource) askHosts(ctx context.Context, model *linkModel, diags *diag.Diagnostics) {
	spec, known := model.rehearsed(ctx)
	if !known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var lacks *link.LackError
	if errors.As(r.links().Lacks(ctx, spec), &lacks) {
		diags.AddError("Unable to Plan Link", lacks.Error()+".")
	}
}

func (r *linkResource) links() link.Links {
	return link.Links{Data: datadir.Dir(r.data.dataDir), Hosts: r.data.hosts}
}

func (r *linkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model linkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, &model, "Create", r.links().Create, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// setLink is Create or Apply of link.Links.
type setLink func(context.Context, link.Spec) error

// apply sets and measures the link. It returns whether the link is there,
// which it is as well when it was measured and missed.
func (r *linkResource) apply(ctx context.Context, model *linkModel, verb string, set setLink, diags *diag.Diagnostics) (there bool) {
	spec, more := model.spec(ctx)
	diags.Append(more...)
	verification, more := model.verification(ctx)
	diags.Append(more...)
	if diags.HasError() {
		return false
	}
	probing := time.Duration(verification.Packets) * verification.Interval
	ctx, cancel := context.WithTimeout(ctx, linkTimeout+10*probing)
	defer cancel()
	err := set(ctx, spec)
	var other *link.OtherProfileError
	if errors.As(err, &other) {
		diags.AddAttributeError(path.Root("between"), "Unable to "+verb+" Link", fmt.Sprintf(
			"%s, by another testbed_link or by hand. Two hosts have one link, which is both directions: where they differ, use forward and reverse of its profile.\n\nRemove one of two resources. If no resource has that link, take it over with \"terraform import\" and the id %q.", err, spec.Link))
		return false
	}
	var observed link.Status
	if err == nil {
		observed, err = r.links().Observe(ctx, spec.Link)
	}
	if err != nil {
		addFailure(diags, verb, "Link", spec.String(), err, "")
		return false
	}
	diags.Append(model.set(ctx, spec.Link, observed)...)
	if model.Verify.IsNull() {
		return true
	}
	measured, err := r.links().Verify(ctx, spec.Link, spec.Profile, verification)
	if err != nil {
		addFailure(diags, "Verify", "Link", spec.String(), err, "The link is set, and the next apply measures it again. If the machine is busy, wait until it is not; otherwise widen the tolerances of verify or send more packets.")
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
	var observed link.Status
	if err == nil {
		observed, err = r.links().Observe(ctx, l)
	}
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		if !r.data.leave(&resp.Diagnostics, l.A, err) && !r.data.leave(&resp.Diagnostics, l.B, err) {
			addFailure(&resp.Diagnostics, "Read", "Link", model.ID.ValueString(), err, "")
		}
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
	if r.apply(ctx, &model, "Update", r.links().Apply, &resp.Diagnostics) {
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
		err = r.links().Remove(ctx, l)
	}
	var sides link.SideErrors
	if errors.As(err, &sides) {
		sides = slices.DeleteFunc(sides, func(side link.SideError) bool { return r.data.leave(&resp.Diagnostics, side.URL, side.Err) })
		if err = sides; len(sides) == 0 {
			return
		}
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Link", model.ID.ValueString(), err, "")
	}
}

// ImportState takes NETWORK/HOST/HOST, or PLACE/URL/URL.
func (r *linkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, err := link.Parse(req.ID); err != nil {
		addFailure(&resp.Diagnostics, "Import", "Link", req.ID, err, "")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
