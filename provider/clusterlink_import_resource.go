package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterlinkImportResource)(nil)
	_ resource.ResourceWithImportState = (*clusterlinkImportResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*clusterlinkImportResource)(nil)
)

type clusterlinkImportResource struct {
	data *providerData
}

func newClusterlinkImportResource() resource.Resource { return &clusterlinkImportResource{} }

type clusterlinkImportModel struct {
	Cluster    types.String   `tfsdk:"cluster"`
	Name       types.String   `tfsdk:"name"`
	Port       types.Int64    `tfsdk:"port"`
	Sources    []sourceModel  `tfsdk:"sources"`
	Namespace  types.String   `tfsdk:"namespace"`
	TargetPort types.Int64    `tfsdk:"target_port"`
	LBScheme   types.String   `tfsdk:"lb_scheme"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
	ID         types.String   `tfsdk:"id"`
	Address    types.String   `tfsdk:"address"`
	URL        types.String   `tfsdk:"url"`
	ClusterIP  types.String   `tfsdk:"cluster_ip"`
}

type sourceModel struct {
	Peer      types.String `tfsdk:"peer"`
	Export    types.String `tfsdk:"export"`
	Namespace types.String `tfsdk:"namespace"`
}

func (m *clusterlinkImportModel) spec() clusterlink.ImportSpec {
	spec := clusterlink.ImportSpec{
		Namespace:  m.Namespace.ValueString(),
		Name:       m.Name.ValueString(),
		Port:       int(m.Port.ValueInt64()),
		TargetPort: int(m.TargetPort.ValueInt64()),
		Scheme:     m.LBScheme.ValueString(),
	}
	for _, source := range m.Sources {
		spec.Sources = append(spec.Sources, clusterlink.Source{
			Peer:      source.Peer.ValueString(),
			Namespace: source.Namespace.ValueString(),
			Export:    source.Export.ValueString(),
		})
	}
	return spec
}

func (m *clusterlinkImportModel) id() string {
	return m.Cluster.ValueString() + "/" + m.Namespace.ValueString() + "/" + m.Name.ValueString()
}

func (m *clusterlinkImportModel) observe(ctx context.Context, cluster *kube.Client) error {
	status, err := clusterlink.ObserveImport(ctx, cluster, m.Namespace.ValueString(), m.Name.ValueString())
	if err != nil {
		return err
	}
	spec := status.Spec
	m.ID = types.StringValue(m.id())
	m.Port = types.Int64Value(int64(spec.Port))
	m.TargetPort = types.Int64Value(int64(spec.TargetPort))
	m.LBScheme = types.StringValue(spec.Scheme)
	m.Sources = nil
	for _, source := range spec.Sources {
		m.Sources = append(m.Sources, sourceModel{
			Peer:      types.StringValue(source.Peer),
			Namespace: types.StringValue(source.Namespace),
			Export:    types.StringValue(source.Export),
		})
	}
	m.Address = types.StringValue(spec.Address())
	m.URL = types.StringValue("http://" + spec.Address())
	m.ClusterIP = textOrNull(status.ClusterIP)
	return nil
}

func (r *clusterlinkImportResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_import"
}

func (r *clusterlinkImportResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Imports a service that other ClusterLink peers export, so that pods of this cluster call it by a name of their own cluster. Each source is asked for its export before anything is made.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"name":    nameAttribute("Name of the import, by which pods call it. No Service of that name may exist."),
			"port": schema.Int64Attribute{
				Required:            true,
				Validators:          portRange,
				MarkdownDescription: "Port that pods call.",
			},
			"sources": schema.ListNestedAttribute{
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Exports to import; connections are spread over them.",
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"peer", "export"}}, Attributes: map[string]schema.Attribute{
					"peer":   schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the peer: the `peer` of a `testbed_clusterlink_connection`; needed."},
					"export": schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the export there; needed."},
					"namespace": schema.StringAttribute{
						Optional:            true,
						Computed:            true,
						Default:             stringdefault.StaticString("default"),
						MarkdownDescription: "Namespace of the export there; `default` by default.",
					},
				}},
			},
			"namespace": namespaceAttribute(),
			"target_port": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Validators:          portRange,
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
				MarkdownDescription: "Port on which the data plane's pods listen for the import; chosen by ClusterLink by default.",
			},
			"lb_scheme": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(clusterlink.Schemes[0]),
				Validators:          []validator.String{stringvalidator.OneOf(clusterlink.Schemes...)},
				MarkdownDescription: "How the source of a new connection is chosen: `" + strings.Join(clusterlink.Schemes, "`, `") + "`; `round-robin` by default.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the import may take to have its address; 2 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 2 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 2 minutes by default.",
			}),
			"id": clusterIDAttribute("NAMESPACE/NAME"),
			"address": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Name and port that pods of the cluster call.",
			},
			"url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "`http` URL of the address.",
			},
			"cluster_ip": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Address behind the name, for clients that must not ask DNS.",
			},
		},
	}
}

func (r *clusterlinkImportResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

// ModifyPlan says that the address changes with the port.
func (r *clusterlinkImportResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	unknownOnChange(ctx, req, resp, []string{"port"}, "address", "url")
}

func (r *clusterlinkImportResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkImportModel
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

func (r *clusterlinkImportResource) apply(ctx context.Context, limit time.Duration, verb string, model *clusterlinkImportModel, diags *diag.Diagnostics) bool {
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := clusterlink.ApplyImport(ctx, cluster, model.spec()); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if source := (*clusterlink.SourceError)(nil); errors.As(err, &source) {
		diags.AddAttributeError(path.Root("sources").AtListIndex(source.Index), "Unable to "+verb+" ClusterLink Import",
			source.Error()+".\n\nExport the service with a testbed_clusterlink_export on the cluster of that peer, connect the peers with a testbed_clusterlink_connection, and reference both so that they exist first.")
	} else if err != nil {
		addFailure(diags, verb, "ClusterLink Import", model.Name.ValueString(), err, "Check that the namespace has no Service of this name, and that the target port is free.")
	}
	return err == nil
}

func (r *clusterlinkImportResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkImportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "ClusterLink Import", model.Name.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkImportResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model clusterlinkImportModel
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

func (r *clusterlinkImportResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkImportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "ClusterLink Import", model.Name.ValueString(), resp, func(ctx context.Context, cluster *kube.Client) error {
		return clusterlink.RemoveImport(ctx, cluster, model.Namespace.ValueString(), model.Name.ValueString())
	})
}

func (r *clusterlinkImportResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp, "namespace", "name")
}
