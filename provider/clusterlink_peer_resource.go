package provider

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure      = (*clusterlinkPeerResource)(nil)
	_ resource.ResourceWithValidateConfig = (*clusterlinkPeerResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*clusterlinkPeerResource)(nil)
	_ resource.ResourceWithImportState    = (*clusterlinkPeerResource)(nil)
)

const (
	peerApplyTimeout  = 10 * time.Minute
	peerDeleteTimeout = 5 * time.Minute
)

var gatewayType = map[string]attr.Type{"host": types.StringType, "port": types.Int64Type}

func gatewayValue(gateway clusterlink.Gateway) types.Object {
	return types.ObjectValueMust(gatewayType, map[string]attr.Value{
		"host": types.StringValue(gateway.Host),
		"port": types.Int64Value(int64(gateway.Port)),
	})
}

type clusterlinkPeerResource struct {
	data *providerData
}

func newClusterlinkPeerResource() resource.Resource { return &clusterlinkPeerResource{} }

type clusterlinkPeerModel struct {
	Cluster            types.String   `tfsdk:"cluster"`
	Name               types.String   `tfsdk:"name"`
	Fabric             types.String   `tfsdk:"fabric"`
	Dataplane          types.String   `tfsdk:"dataplane"`
	DataplaneReplicas  types.Int64    `tfsdk:"dataplane_replicas"`
	Ingress            types.String   `tfsdk:"ingress"`
	IngressPort        types.Int64    `tfsdk:"ingress_port"`
	LogLevel           types.String   `tfsdk:"log_level"`
	Labels             types.Map      `tfsdk:"labels"`
	Registry           types.String   `tfsdk:"registry"`
	Tag                types.String   `tfsdk:"tag"`
	AirgapImages       types.List     `tfsdk:"airgap_images"`
	CertificateVersion types.String   `tfsdk:"certificate_version"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`
	ID                 types.String   `tfsdk:"id"`
	Gateway            types.Object   `tfsdk:"gateway"`
}

func (m *clusterlinkPeerModel) spec() clusterlink.PeerSpec {
	return clusterlink.PeerSpec{
		Name:               m.Name.ValueString(),
		Dataplane:          m.Dataplane.ValueString(),
		Replicas:           int(m.DataplaneReplicas.ValueInt64()),
		Ingress:            m.Ingress.ValueString(),
		IngressPort:        int(m.IngressPort.ValueInt64()),
		LogLevel:           m.LogLevel.ValueString(),
		Labels:             stringMap(m.Labels),
		Registry:           m.Registry.ValueString(),
		Tag:                m.Tag.ValueString(),
		CertificateVersion: m.CertificateVersion.ValueString(),
	}
}

func (m *clusterlinkPeerModel) set(status clusterlink.PeerStatus) {
	spec := status.Spec
	m.ID = m.Cluster
	if spec.Name != "" {
		m.Name = types.StringValue(spec.Name)
	}
	if !status.Fabric.Is(m.Fabric.ValueString()) {
		m.Fabric = types.StringValue(status.Fabric.ID())
	}
	m.Dataplane = types.StringValue(spec.Dataplane)
	m.DataplaneReplicas = types.Int64Value(int64(spec.Replicas))
	m.Ingress = types.StringValue(spec.Ingress)
	m.IngressPort = types.Int64Null()
	m.Gateway = types.ObjectNull(gatewayType)
	if status.Gateway.Port != 0 {
		m.IngressPort = types.Int64Value(int64(status.Gateway.Port))
		m.Gateway = gatewayValue(status.Gateway)
	}
	m.LogLevel = types.StringValue(spec.LogLevel)
	m.Labels = mapValue(m.Labels, spec.Labels, maps.Equal)
	m.Registry = types.StringValue(spec.Registry)
	m.Tag = types.StringValue(spec.Tag)
	if m.CertificateVersion.ValueString() != spec.CertificateVersion {
		m.CertificateVersion = types.StringValue(spec.CertificateVersion)
	}
}

func (m *clusterlinkPeerModel) observe(ctx context.Context, cluster *kube.Client) error {
	status, err := clusterlink.ObservePeer(ctx, cluster)
	if err == nil {
		m.set(status)
	}
	return err
}

func (r *clusterlinkPeerResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_peer"
}

func (r *clusterlinkPeerResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs ClusterLink on a cluster, as a peer of a fabric, and waits until it is ready. A cluster has one peer, whose operator, certificates, control plane and data plane are all managed here and removed with it. " +
			"Certificates are made once and kept as long as they belong to the fabric.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"name": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`), "must be a DNS name of small letters, digits, hyphens and dots")},
				MarkdownDescription: "Name of the peer in its certificate, by which the other peers know it.",
			},
			"fabric": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The fabric that the peer belongs to: the `id` or the `name` of a `testbed_clusterlink_fabric`.",
			},
			"dataplane": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(clusterlink.Dataplanes[0]),
				Validators:          []validator.String{stringvalidator.OneOf(clusterlink.Dataplanes...)},
				MarkdownDescription: "Data plane that carries the traffic: `" + strings.Join(clusterlink.Dataplanes, "` or `") + "`; `envoy` by default.",
			},
			"dataplane_replicas": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(1),
				Validators:          []validator.Int64{int64validator.Between(1, 10)},
				MarkdownDescription: "Number of data plane pods, 1 to 10; 1 by default.",
			},
			"ingress": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(clusterlink.Ingresses[0]),
				Validators:          []validator.String{stringvalidator.OneOf(clusterlink.Ingresses...)},
				MarkdownDescription: "How other peers reach this one: `" + strings.Join(clusterlink.Ingresses, "`, `") + "`; `NodePort` by default. A peer that only imports needs none.",
			},
			"ingress_port": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Validators:          portRange,
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Port of the ingress: of the node, 30000 to 32767, or of the load balancer. By default the cluster chooses a node port, and a load balancer has 443.",
			},
			"log_level": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString("warning"),
				Validators:          []validator.String{stringvalidator.OneOf(clusterlink.LogLevels...)},
				MarkdownDescription: "Least level that is logged: `" + strings.Join(clusterlink.LogLevels, "`, `") + "`; `warning` by default, since `info` logs each connection and shows in measurements.",
			},
			"labels": schema.MapAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.Map{mapvalidator.SizeAtMost(1)},
				MarkdownDescription: "Attribute of the peer that access policies can select it by, `peer.clusterlink.net/labels.KEY`. At most one: ClusterLink passes several in random order, which restarts its control plane again and again.",
			},
			"registry": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(clusterlink.DefaultRegistry),
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`[^/]$`), "must not end with a slash")},
				MarkdownDescription: "Registry and path of ClusterLink's images; `" + clusterlink.DefaultRegistry + "` by default.",
			},
			"tag": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(clusterlink.DefaultTag),
				MarkdownDescription: "Tag of ClusterLink's images; `" + clusterlink.DefaultTag + "` by default, which is the release of the definitions that this provider installs.",
			},
			"airgap_images": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ValueStringsAre(stringvalidator.RegexMatches(regexp.MustCompile(`^/`), "must be an absolute path on this machine"))},
				MarkdownDescription: "Absolute paths of image archives on this machine. They are loaded into the node of a k3s cluster when it lacks one of the images, so that no registry is needed.",
			},
			"certificate_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Any text. A change makes all certificates of the peer anew, in place.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the peer may take to become ready; 10 minutes by default.",
				Update: true, UpdateDescription: "How long the peer may take to become ready again; 10 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 5 minutes by default.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "The cluster, by which the peer is imported.",
			},
			"gateway": schema.SingleNestedAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Where other peers reach this one. Null without ingress.",
				Attributes: map[string]schema.Attribute{
					"host": schema.StringAttribute{Computed: true, MarkdownDescription: "Address of a node, or of the load balancer."},
					"port": schema.Int64Attribute{Computed: true, MarkdownDescription: "Port of the ingress."},
				},
			},
		},
	}
}

func (r *clusterlinkPeerResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterlinkPeerResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model clusterlinkPeerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || model.IngressPort.IsNull() || model.IngressPort.IsUnknown() || model.Ingress.IsUnknown() {
		return
	}
	port := model.IngressPort.ValueInt64()
	switch ingress := model.Ingress.ValueString(); {
	case ingress == "none":
		resp.Diagnostics.AddAttributeError(path.Root("ingress_port"), "Invalid Ingress Port", "A peer without ingress has no port. Remove ingress_port, or choose another ingress.")
	case ingress != "LoadBalancer" && (port < 30000 || port > 32767):
		resp.Diagnostics.AddAttributeError(path.Root("ingress_port"), "Invalid Ingress Port", fmt.Sprintf("ingress_port is %d; a node port is 30000 to 32767.", port))
	}
}

// ModifyPlan says that the gateway changes with the ingress, and leaves the
// port to the cluster again when another kind of ingress is wanted.
func (r *clusterlinkPeerResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var state, plan, config clusterlinkPeerModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.Ingress.Equal(state.Ingress) && config.IngressPort.IsNull() {
		plan.IngressPort = types.Int64Unknown()
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ingress_port"), plan.IngressPort)...)
	}
	if !plan.Ingress.Equal(state.Ingress) || !plan.IngressPort.Equal(state.IngressPort) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("gateway"), types.ObjectUnknown(gatewayType))...)
	}
}

func (r *clusterlinkPeerResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkPeerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Create(ctx, peerApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if name := r.present(ctx, model.Cluster); name != "" && name != model.Name.ValueString() {
		resp.Diagnostics.AddAttributeError(path.Root("cluster"), "Unable to Create ClusterLink Peer", fmt.Sprintf(
			"%s is the peer %q already, and a cluster is one peer.\n\nRemove one of two resources. If no resource has that peer, take it over with \"terraform import\" and the id %q.",
			model.Cluster.ValueString(), name, model.Cluster.ValueString()))
		return
	}
	saveBegun(ctx, req.Plan, &resp.State, &resp.Diagnostics, model.Cluster.ValueString())
	if r.apply(ctx, limit, "Create", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// present returns the name of the peer on a cluster, empty if there is none or
// the cluster cannot say, which apply will tell.
func (r *clusterlinkPeerResource) present(ctx context.Context, cluster types.String) string {
	var found clusterlink.PeerStatus
	_ = clusterWork(func(ctx context.Context, cluster *kube.Client) (err error) {
		found, err = clusterlink.ObservePeer(ctx, cluster)
		return err
	}).in(ctx, r.data, cluster, clusterReadTimeout)
	return found.Spec.Name
}

// apply reports whether the model is now that of a working peer.
func (r *clusterlinkPeerResource) apply(ctx context.Context, limit time.Duration, verb string, model *clusterlinkPeerModel, diags *diag.Diagnostics) bool {
	reference := model.Fabric.ValueString()
	fabric, err := clusterlink.OpenFabric(r.data.dataDir, clusterlink.FabricName(reference))
	if err != nil {
		diags.AddAttributeError(path.Root("fabric"), "Unable to Open ClusterLink Fabric", err.Error()+".\n\nReference a testbed_clusterlink_fabric of this data_dir.")
		return false
	}
	if !fabric.Is(reference) {
		diags.AddAttributeError(path.Root("fabric"), "Unable to Open ClusterLink Fabric", "The fabric in this data_dir is "+fabric.ID()+", not "+reference+".")
		return false
	}
	tflog.Info(ctx, "applying ClusterLink peer", map[string]any{"cluster": model.Cluster.ValueString()})
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := clusterlink.ApplyPeer(ctx, cluster, fabric, model.spec(), stringList(model.AirgapImages)); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err = work.in(ctx, r.data, model.Cluster, limit)
	if err != nil {
		addFailure(diags, verb, "ClusterLink Peer", model.Name.ValueString(), err, "Apply again when the reason is gone.")
		return false
	}
	tflog.Info(ctx, "ClusterLink peer is ready", map[string]any{"cluster": model.Cluster.ValueString()})
	return true
}

func (r *clusterlinkPeerResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkPeerModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "ClusterLink Peer", model.Cluster.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkPeerResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model clusterlinkPeerModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Update(ctx, peerApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, limit, "Update", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkPeerResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkPeerModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, peerDeleteTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "ClusterLink Peer", model.Name.ValueString(), resp, clusterlink.RemovePeer)
}

func (r *clusterlinkPeerResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp)
}
