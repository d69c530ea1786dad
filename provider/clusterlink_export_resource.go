package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterlinkExportResource)(nil)
	_ resource.ResourceWithImportState = (*clusterlinkExportResource)(nil)
)

type clusterlinkExportResource struct {
	data *providerData
}

func newClusterlinkExportResource() resource.Resource { return &clusterlinkExportResource{} }

type clusterlinkExportModel struct {
	Cluster   types.String   `tfsdk:"cluster"`
	Name      types.String   `tfsdk:"name"`
	Port      types.Int64    `tfsdk:"port"`
	Namespace types.String   `tfsdk:"namespace"`
	Host      types.String   `tfsdk:"host"`
	Timeouts  timeouts.Value `tfsdk:"timeouts"`
	ID        types.String   `tfsdk:"id"`
}

func (m *clusterlinkExportModel) spec() clusterlink.ExportSpec {
	return clusterlink.ExportSpec{
		Namespace: m.Namespace.ValueString(),
		Name:      m.Name.ValueString(),
		Host:      m.Host.ValueString(),
		Port:      int(m.Port.ValueInt64()),
	}
}

func (m *clusterlinkExportModel) id() string {
	return m.Cluster.ValueString() + "/" + m.Namespace.ValueString() + "/" + m.Name.ValueString()
}

func (m *clusterlinkExportModel) observe(ctx context.Context, cluster *kube.Client) error {
	spec, err := clusterlink.ObserveExport(ctx, cluster, m.Namespace.ValueString(), m.Name.ValueString())
	if err != nil {
		return err
	}
	m.ID = types.StringValue(m.id())
	m.Port = types.Int64Value(int64(spec.Port))
	if m.Host.ValueString() != spec.Host {
		m.Host = types.StringValue(spec.Host)
	}
	return nil
}

func (r *clusterlinkExportResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_export"
}

func (r *clusterlinkExportResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Exports a service of a cluster to the other peers of its ClusterLink fabric, as far as access policies allow, and waits until ClusterLink finds it valid.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"name":    nameAttribute("Name of the export, and of the Service that is exported unless `host` is set."),
			"port": schema.Int64Attribute{
				Required:            true,
				Validators:          portRange,
				MarkdownDescription: "Port of the service.",
			},
			"namespace": namespaceAttribute(),
			"host": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Address or DNS name of what is exported, anywhere that the cluster reaches. The cluster address of a service saves ClusterLink a DNS query for each connection.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the export may take to be valid; 2 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 2 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 2 minutes by default.",
			}),
			"id": clusterIDAttribute("NAMESPACE/NAME"),
		},
	}
}

func (r *clusterlinkExportResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterlinkExportResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkExportModel
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

func (r *clusterlinkExportResource) apply(ctx context.Context, limit time.Duration, verb string, model *clusterlinkExportModel, diags *diag.Diagnostics) bool {
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := clusterlink.ApplyExport(ctx, cluster, model.spec()); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if err != nil {
		addFailure(diags, verb, "ClusterLink Export", model.Name.ValueString(), err, "Check that the namespace has a Service of this name, or set host.")
	}
	return err == nil
}

func (r *clusterlinkExportResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkExportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "ClusterLink Export", model.Name.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkExportResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model clusterlinkExportModel
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

func (r *clusterlinkExportResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkExportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "ClusterLink Export", model.Name.ValueString(), resp, func(ctx context.Context, cluster *kube.Client) error {
		return clusterlink.RemoveExport(ctx, cluster, model.Namespace.ValueString(), model.Name.ValueString())
	})
}

func (r *clusterlinkExportResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp, "namespace", "name")
}
