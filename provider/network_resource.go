package provider

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

var (
	_ resource.ResourceWithConfigure      = (*networkResource)(nil)
	_ resource.ResourceWithValidateConfig = (*networkResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*networkResource)(nil)
	_ resource.ResourceWithImportState    = (*networkResource)(nil)
)

// networkTimeout is far more than a daemon needs to start or end.
const networkTimeout = time.Minute

type networkResource struct {
	data *providerData
}

func newNetworkResource() resource.Resource { return &networkResource{} }

type networkModel struct {
	Name types.String       `tfsdk:"name"`
	CIDR cidrtypes.IPPrefix `tfsdk:"cidr"`
	MTU  types.Int64        `tfsdk:"mtu"`
	Seed types.Int64        `tfsdk:"seed"`
	ID   types.String       `tfsdk:"id"`
}

func (m *networkModel) spec() (underlay.Spec, diag.Diagnostics) {
	cidr, diags := m.CIDR.ValueIPPrefix()
	return underlay.Spec{Name: m.Name.ValueString(), CIDR: cidr, MTU: int(m.MTU.ValueInt64()), Seed: uint64(m.Seed.ValueInt64())}, diags
}

func (m *networkModel) set(spec underlay.Spec) {
	m.ID = types.StringValue(spec.Name)
	m.Name = types.StringValue(spec.Name)
	m.CIDR = cidrtypes.NewIPPrefixValue(spec.CIDR.String())
	m.MTU = types.Int64Value(int64(spec.MTU))
	m.Seed = types.Int64Value(int64(spec.Seed))
}

func (r *networkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_network"
}

func (r *networkResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs a private network between local hosts. Packets are forwarded in user space, so links can be emulated on kernels without netem, and nothing of the machine's own network changes. Without a `testbed_link` packets pass untouched.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       replace,
				MarkdownDescription: "Name, up to 63 lower-case letters, digits and inner hyphens. A change makes a new network.",
			},
			"cidr": schema.StringAttribute{
				Required:            true,
				CustomType:          cidrtypes.IPPrefixType{},
				PlanModifiers:       replace,
				MarkdownDescription: "Range of the hosts' addresses, for example `198.18.0.0/24` from the block that is reserved for tests. A change makes a new network.",
			},
			"mtu": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(1500),
				Validators:          []validator.Int64{int64validator.Between(576, 65535)},
				MarkdownDescription: "Longest IP packet, in bytes; `1500` by default. Loss and the like act on packets of this size even where the kernel hands over longer ones.",
			},
			"seed": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(0),
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
				MarkdownDescription: "Chooses what happens to which packet on links whose profile has no seed of its own; `0` by default. The same seed gives the same sequence of fates from the moment a profile is set.",
			},
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "The name.",
			},
		},
	}
}

func (r *networkResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *networkResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model networkModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Name.IsUnknown() {
		addAttributeFailure(&resp.Diagnostics, path.Root("name"), underlay.CheckName(model.Name.ValueString()))
	}
	if cidr, diags := model.CIDR.ValueIPPrefix(); !model.CIDR.IsUnknown() && !diags.HasError() {
		addAttributeFailure(&resp.Diagnostics, path.Root("cidr"), underlay.CheckCIDR(cidr))
	}
}

// ModifyPlan plans the id, which is known before the network is there.
func (r *networkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var name types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), name)...)
}

func (r *networkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model networkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.apply(ctx, &model, "Create", underlay.Create, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// runNetwork is underlay.Create or underlay.Apply.
type runNetwork func(ctx context.Context, dir datadir.Dir, program string, spec underlay.Spec) error

// apply makes the network as the model says, and the model as the network is.
func (r *networkResource) apply(ctx context.Context, model *networkModel, verb string, run runNetwork, diags *diag.Diagnostics) {
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	spec, more := model.spec()
	diags.Append(more...)
	if diags.HasError() {
		return
	}
	dir := datadir.Dir(r.data.dataDir)
	if err := underlay.Check(); err != nil {
		addFailure(diags, verb, "Network", spec.Name, err, "")
		return
	}
	program, err := agent.Install(dir)
	if err == nil {
		err = run(ctx, dir, program, spec)
	}
	var status underlay.Status
	if err == nil {
		status, err = underlay.Observe(ctx, dir, spec.Name)
	}
	if err != nil {
		addFailure(diags, verb, "Network", spec.Name, err, "")
		return
	}
	model.set(status.Spec)
}

func (r *networkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model networkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	status, err := underlay.Observe(ctx, datadir.Dir(r.data.dataDir), model.ID.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "Network", model.ID.ValueString(), err, "")
		return
	}
	model.set(status.Spec)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *networkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model networkModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.apply(ctx, &model, "Update", underlay.Apply, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *networkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model networkModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	if err := underlay.Remove(ctx, datadir.Dir(r.data.dataDir), model.ID.ValueString()); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Network", model.ID.ValueString(), err, "")
	}
}

func (r *networkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}
