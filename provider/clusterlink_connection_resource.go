package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterlinkConnectionResource)(nil)
	_ resource.ResourceWithImportState = (*clusterlinkConnectionResource)(nil)
)

// clusterlinkTimeout bounds what ClusterLink does with one object.
const clusterlinkTimeout = 2 * time.Minute

type clusterlinkConnectionResource struct {
	data *providerData
}

func newClusterlinkConnectionResource() resource.Resource { return &clusterlinkConnectionResource{} }

type clusterlinkConnectionModel struct {
	Cluster  types.String   `tfsdk:"cluster"`
	Peer     types.String   `tfsdk:"peer"`
	Gateways types.List     `tfsdk:"gateways"`
	Timeouts timeouts.Value `tfsdk:"timeouts"`
	ID       types.String   `tfsdk:"id"`
}

type gatewayModel struct {
	Host types.String `tfsdk:"host"`
	Port types.Int64  `tfsdk:"port"`
}

func (m *clusterlinkConnectionModel) spec(ctx context.Context) (clusterlink.ConnectionSpec, diag.Diagnostics) {
	spec := clusterlink.ConnectionSpec{Peer: m.Peer.ValueString()}
	var gateways []gatewayModel
	diags := m.Gateways.ElementsAs(ctx, &gateways, false)
	for _, gateway := range gateways {
		spec.Gateways = append(spec.Gateways, clusterlink.Gateway{Host: gateway.Host.ValueString(), Port: int(gateway.Port.ValueInt64())})
	}
	return spec, diags
}

func (m *clusterlinkConnectionModel) id() string {
	return m.Cluster.ValueString() + "/" + m.Peer.ValueString()
}

func (m *clusterlinkConnectionModel) observe(ctx context.Context, cluster *kube.Client) error {
	spec, err := clusterlink.ObserveConnection(ctx, cluster, m.Peer.ValueString())
	if err != nil {
		return err
	}
	m.ID = types.StringValue(m.id())
	gateways := make([]attr.Value, 0, len(spec.Gateways))
	for _, gateway := range spec.Gateways {
		gateways = append(gateways, gatewayValue(gateway))
	}
	m.Gateways = types.ListValueMust(types.ObjectType{AttrTypes: gatewayType}, gateways)
	return nil
}

func (r *clusterlinkConnectionResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_connection"
}

func (r *clusterlinkConnectionResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lets the ClusterLink peer of a cluster know another peer, and waits until it reaches it. A cluster that only exports needs no connection to its importers.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"peer": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Name of the other peer, as in its certificate: the `name` of its `testbed_clusterlink_peer`.",
			},
			"gateways": schema.ListNestedAttribute{
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Where the other peer is reached, for example its `gateway`; a peer without ingress has none. Of several, the data plane `go` uses the first only.",
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"host", "port"}}, Attributes: map[string]schema.Attribute{
					"host": schema.StringAttribute{Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)}, MarkdownDescription: "Address or DNS name; needed."},
					"port": schema.Int64Attribute{Optional: true, Validators: portRange, MarkdownDescription: "Port; needed."},
				}},
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the other peer may take to be reachable; 2 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 2 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 2 minutes by default.",
			}),
			"id": clusterIDAttribute("PEER"),
		},
	}
}

func (r *clusterlinkConnectionResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterlinkConnectionResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkConnectionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Create(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	saveBegun(ctx, req.Plan, &resp.State, &resp.Diagnostics, model.id())
	if r.apply(ctx, limit, "Create", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkConnectionResource) apply(ctx context.Context, limit time.Duration, verb string, model *clusterlinkConnectionModel, diags *diag.Diagnostics) bool {
	spec, more := model.spec(ctx)
	diags.Append(more...)
	if more.HasError() {
		return false
	}
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := clusterlink.ApplyConnection(ctx, cluster, spec); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if err != nil {
		addFailure(diags, verb, "ClusterLink Connection", model.Peer.ValueString(), err, "Check that the other peer runs, that its gateway can be reached from this cluster, and that both belong to one fabric.")
	}
	return err == nil
}

func (r *clusterlinkConnectionResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkConnectionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "ClusterLink Connection", model.Peer.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkConnectionResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model clusterlinkConnectionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Update(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, limit, "Update", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkConnectionResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkConnectionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "ClusterLink Connection", model.Peer.ValueString(), resp, func(ctx context.Context, cluster *kube.Client) error {
		return clusterlink.RemoveConnection(ctx, cluster, model.Peer.ValueString())
	})
}

func (r *clusterlinkConnectionResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp, "peer")
}
