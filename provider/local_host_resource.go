package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

var (
	_ resource.ResourceWithConfigure      = (*localHostResource)(nil)
	_ resource.ResourceWithValidateConfig = (*localHostResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*localHostResource)(nil)
	_ resource.ResourceWithImportState    = (*localHostResource)(nil)
)

// localHostTimeout is far more than a host needs to start or end.
const localHostTimeout = time.Minute

type localHostResource struct {
	data *providerData
}

func newLocalHostResource() resource.Resource { return &localHostResource{} }

type localHostModel struct {
	Name      types.String            `tfsdk:"name"`
	Networks  []localHostNetworkModel `tfsdk:"networks"`
	ID        types.String            `tfsdk:"id"`
	URL       types.String            `tfsdk:"url"`
	Addresses types.Map               `tfsdk:"addresses"`
	Hostname  types.String            `tfsdk:"hostname"`
	Kernel    types.String            `tfsdk:"kernel"`
	Timeouts  timeouts.Value          `tfsdk:"timeouts"`
}

type localHostNetworkModel struct {
	Network types.String      `tfsdk:"network"`
	Address iptypes.IPAddress `tfsdk:"address"`
}

func (m *localHostModel) spec() (local.Spec, diag.Diagnostics) {
	var diags diag.Diagnostics
	spec := local.Spec{Name: m.Name.ValueString()}
	for _, network := range m.Networks {
		address, more := network.Address.ValueIPAddress()
		diags.Append(more...)
		spec.Networks = append(spec.Networks, local.Network{Name: network.Network.ValueString(), Address: address})
	}
	return spec, diags
}

func (m *localHostModel) set(status local.Status) {
	m.setName(status.Name)
	m.Kernel = types.StringValue(status.Kernel)
	// No networks are written as null or as an empty list.
	if len(status.Networks) > 0 || len(m.Networks) > 0 {
		m.Networks = []localHostNetworkModel{}
	}
	for _, network := range status.Networks {
		m.Networks = append(m.Networks, localHostNetworkModel{
			Network: types.StringValue(network.Name),
			Address: iptypes.NewIPAddressValue(network.Address.String()),
		})
	}
	m.setAddresses()
}

// setName sets what follows from the name alone.
func (m *localHostModel) setName(name string) {
	m.Name = types.StringValue(name)
	m.ID = types.StringValue(name)
	m.URL = types.StringValue(local.URL(name))
	m.Hostname = types.StringValue(name)
}

// setAddresses sets what follows from the networks alone.
func (m *localHostModel) setAddresses() {
	addresses := map[string]string{}
	for _, network := range m.Networks {
		if network.Network.IsUnknown() || network.Address.IsUnknown() {
			m.Addresses = types.MapUnknown(types.StringType)
			return
		}
		addresses[network.Network.ValueString()] = network.Address.ValueString()
	}
	m.Addresses, _ = types.MapValueFrom(context.Background(), types.StringType, addresses)
}

func (r *localHostResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_local_host"
}

func (r *localHostResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Makes a host on this machine out of Linux namespaces: it has processes, a network, a host name and control groups of its own, and a copy of the machine's file system in which nothing that it writes reaches the machine. `/var/lib`, `/run` and `/tmp` begin empty. It needs root, and what a host holds goes with it: it does not outlive a restart of the machine.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Host name, up to 63 lower-case letters, digits and inner hyphens. A change makes a new host.",
			},
			"networks": schema.ListNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Networks that the host is on, none by default. The first is its device `eth0` and has the default route, the second `eth1` and so on. Changes are made in place.",
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"network", "address"}}, Attributes: map[string]schema.Attribute{
					"network": schema.StringAttribute{
						Optional:            true,
						MarkdownDescription: "Name of a `testbed_network`; needed.",
					},
					"address": schema.StringAttribute{
						Optional:            true,
						CustomType:          iptypes.IPAddressType{},
						MarkdownDescription: "The host's address, within the network's `cidr` and no other host's; needed.",
					},
				}},
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
			"id": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "The name.",
			},
			"url": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What other resources call the host: `local://NAME`.",
			},
			"addresses": schema.MapAttribute{
				Computed:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Addresses by the name of their network.",
			},
			"hostname": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What the host calls itself, which is its name.",
			},
			"kernel": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "Release of the machine's kernel, as `uname -r` prints it.",
			},
		},
	}
}

func (r *localHostResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *localHostResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var name types.String
	var list types.List
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("name"), &name)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("networks"), &list)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !name.IsUnknown() {
		addAttributeFailure(&resp.Diagnostics, path.Root("name"), local.CheckName(name.ValueString()))
	}
	networks, known := knownNetworks(ctx, list, &resp.Diagnostics)
	if !known {
		return
	}
	for i, network := range networks {
		same := func(other localHostNetworkModel) bool { return other.Network.Equal(network.Network) }
		if !network.Network.IsUnknown() && slices.ContainsFunc(networks[:i], same) {
			addAttributeFailure(&resp.Diagnostics, path.Root("networks").AtListIndex(i).AtName("network"),
				fmt.Errorf("the host is on network %q already; give it one address on each network", network.Network.ValueString()))
		}
	}
}

// knownNetworks returns the elements of a list that is known and whose elements
// are; their attributes may be unknown.
func knownNetworks(ctx context.Context, list types.List, diags *diag.Diagnostics) (networks []localHostNetworkModel, known bool) {
	if list.IsUnknown() || slices.ContainsFunc(list.Elements(), attr.Value.IsUnknown) {
		return nil, false
	}
	diags.Append(list.ElementsAs(ctx, &networks, false)...)
	return networks, !diags.HasError()
}

func (r *localHostResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	var model localHostModel
	var list types.List
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &model.Name)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("networks"), &list)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Name.IsUnknown() {
		model.setName(model.Name.ValueString())
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("id"), model.ID)...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("url"), model.URL)...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("hostname"), model.Hostname)...)
	}
	var known bool
	if model.Networks, known = knownNetworks(ctx, list, &resp.Diagnostics); known {
		model.setAddresses()
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("addresses"), model.Addresses)...)
	}
}

func (r *localHostResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model localHostModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, localHostTimeout)
	resp.Diagnostics.Append(diags...)
	spec, diags := model.spec()
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := r.data.local.Create(ctx, spec)
	if errors.Is(err, fs.ErrExist) {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Unable to Create Host", fmt.Sprintf(
			"There is a host %q in %s already, made by another resource of this configuration or by another state.\n\nName this one otherwise. If no resource has the other, take it over with \"terraform import\" and the id %q; when nothing in that folder is wanted any more, \"%s/*/testbed-agent cleanup %s\" removes it all.",
			spec.Name, r.data.dataDir, spec.Name, datadir.Dir(r.data.dataDir).Agents(), r.data.dataDir))
		return
	}
	if err != nil {
		addHostFailure(&resp.Diagnostics, "Create", spec.Name, err)
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *localHostResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model localHostModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, localHostTimeout)
	defer cancel()
	name := model.ID.ValueString()
	status, err := r.data.local.Observe(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		// No destroy will come for what a host without init left.
		if err := r.data.local.Remove(ctx, name); err != nil {
			addFailure(&resp.Diagnostics, "Read", "Host", name, err, "")
			return
		}
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "Host", name, err, "")
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *localHostResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model localHostModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Update(ctx, localHostTimeout)
	resp.Diagnostics.Append(diags...)
	spec, diags := model.spec()
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := r.data.local.Apply(ctx, spec)
	if err != nil {
		addHostFailure(&resp.Diagnostics, "Update", spec.Name, err)
		return
	}
	model.set(status)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *localHostResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model localHostModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Delete(ctx, localHostTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.data.local.Remove(ctx, model.ID.ValueString()); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Host", model.ID.ValueString(), err, "")
	}
}

func (r *localHostResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}

// addHostFailure puts an error about one of the host's networks there.
func addHostFailure(diags *diag.Diagnostics, verb, name string, err error) {
	var network *local.NetworkError
	if errors.As(err, &network) {
		diags.AddAttributeError(path.Root("networks").AtListIndex(network.Index).AtName(network.Attribute), "Unable to "+verb+" Host", err.Error()+".")
		return
	}
	addFailure(diags, verb, "Host", name, err, "")
}
