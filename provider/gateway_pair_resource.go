package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/gateway"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure   = (*gatewayPairResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*gatewayPairResource)(nil)
	_ resource.ResourceWithImportState = (*gatewayPairResource)(nil)
)

const gatewayPairTimeout = 5 * time.Minute

type gatewayPairResource struct {
	data *providerData
}

func newGatewayPairResource() resource.Resource { return &gatewayPairResource{} }

type gatewayPairModel struct {
	Name               types.String                   `tfsdk:"name"`
	Client             types.String                   `tfsdk:"client"`
	Server             types.String                   `tfsdk:"server"`
	Services           map[string]gatewayServiceModel `tfsdk:"services"`
	Address            types.String                   `tfsdk:"address"`
	NodePort           types.Int64                    `tfsdk:"node_port"`
	Image              types.String                   `tfsdk:"image"`
	AirgapImages       types.List                     `tfsdk:"airgap_images"`
	KeyAlgorithm       types.String                   `tfsdk:"key_algorithm"`
	CertificateVersion types.String                   `tfsdk:"certificate_version"`
	Timeouts           timeouts.Value                 `tfsdk:"timeouts"`
	ID                 types.String                   `tfsdk:"id"`
	Gateway            types.Object                   `tfsdk:"gateway"`
	URLs               types.Map                      `tfsdk:"urls"`
}

type gatewayServiceModel struct {
	Port       types.Int64  `tfsdk:"port"`
	Service    types.String `tfsdk:"service"`
	Namespace  types.String `tfsdk:"namespace"`
	ListenPort types.Int64  `tfsdk:"listen_port"`
}

func (m *gatewayPairModel) spec() gateway.Spec {
	spec := gateway.Spec{
		Name:               m.Name.ValueString(),
		Services:           map[string]gateway.Service{},
		Image:              m.Image.ValueString(),
		Address:            m.Address.ValueString(),
		NodePort:           int(m.NodePort.ValueInt64()),
		KeyAlgorithm:       m.KeyAlgorithm.ValueString(),
		CertificateVersion: m.CertificateVersion.ValueString(),
	}
	for name, service := range m.Services {
		spec.Services[name] = gateway.Service{
			Namespace:  service.Namespace.ValueString(),
			Name:       textOrDefault(service.Service, name),
			Port:       int(service.Port.ValueInt64()),
			ListenPort: int(service.ListenPort.ValueInt64()),
		}
	}
	return spec
}

func (m *gatewayPairModel) id() string {
	return m.Client.ValueString() + "," + m.Server.ValueString() + "," + m.Name.ValueString()
}

func (m *gatewayPairModel) observe(ctx context.Context, pair gateway.Pair) error {
	status, err := pair.Observe(ctx, m.Name.ValueString(), m.Address.ValueString())
	if err == nil {
		m.set(status)
	}
	return err
}

func (m *gatewayPairModel) set(status gateway.Status) {
	spec := status.Spec
	m.ID = types.StringValue(m.id())
	before := m.Services
	m.Services = map[string]gatewayServiceModel{}
	urls := map[string]string{}
	for name, service := range spec.Services {
		model := gatewayServiceModel{
			Port:       types.Int64Value(int64(service.Port)),
			Namespace:  types.StringValue(service.Namespace),
			ListenPort: types.Int64Value(int64(service.ListenPort)),
		}
		// The name of the service may be left out when it is the same.
		if service.Name != name || !before[name].Service.IsNull() {
			model.Service = types.StringValue(service.Name)
		}
		m.Services[name] = model
		urls[name] = spec.URL(name)
	}
	m.URLs, _ = types.MapValueFrom(context.Background(), types.StringType, urls) // strings always convert
	m.NodePort, m.Gateway = types.Int64Null(), types.ObjectNull(gatewayType)
	if spec.NodePort != 0 {
		m.NodePort = types.Int64Value(int64(spec.NodePort))
		m.Gateway = gatewayValue(clusterlink.Gateway{Host: status.Host, Port: spec.NodePort})
	}
	m.Image = types.StringValue(spec.Image)
	m.KeyAlgorithm = types.StringValue(spec.KeyAlgorithm)
	if m.CertificateVersion.ValueString() != spec.CertificateVersion {
		m.CertificateVersion = types.StringValue(spec.CertificateVersion)
	}
}

func (r *gatewayPairResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_gateway_pair"
}

func (r *gatewayPairResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	cluster := func(about string) schema.StringAttribute {
		attribute := clusterAttribute()
		attribute.MarkdownDescription = about + " " + attribute.MarkdownDescription
		return attribute
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Joins two clusters with a pair of plain TCP gateways: haproxy on each, with mutual TLS 1.3 between them over a node port. " +
			"Requests pass the same points as with ClusterLink, but nobody is asked whether a connection is allowed: as an arm of a benchmark it separates the cost of proxies and TLS from that of authorisation. " +
			"The pair has an authority of its own, whose key is forgotten once both gateways have their certificates; the keys of those are in Secrets of the clusters alone.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`), "must be up to 40 small letters, digits and hyphens, and begin and end with a letter or a digit")},
				MarkdownDescription: "Name of the pair; everything of it lies in the namespace `testbed-gateway-NAME` of both clusters.",
			},
			"client": cluster("Where the services are called."),
			"server": cluster("Where the services run."),
			"services": schema.MapNestedAttribute{
				Required:            true,
				Validators:          []validator.Map{mapvalidator.SizeAtLeast(1), mapvalidator.KeysAre(dnsLabelValidator())},
				MarkdownDescription: "Services that the pair makes available, by the name that pods of the client's cluster call.",
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"port"}}, Attributes: map[string]schema.Attribute{
					"port": schema.Int64Attribute{
						Optional:            true,
						Validators:          portRange,
						MarkdownDescription: "Port of the Service in the server's cluster; needed.",
					},
					"service": schema.StringAttribute{
						Optional:            true,
						Validators:          []validator.String{dnsLabelValidator()},
						MarkdownDescription: "Name of that Service; the same name by default.",
					},
					"namespace": schema.StringAttribute{
						Optional: true, Computed: true, Default: stringdefault.StaticString("default"),
						Validators:          []validator.String{dnsLabelValidator()},
						MarkdownDescription: "Namespace of that Service; `default` by default.",
					},
					"listen_port": schema.Int64Attribute{
						Optional: true, Computed: true, Default: int64default.StaticInt64(80),
						Validators:          portRange,
						MarkdownDescription: "Port that pods of the client's cluster call; 80 by default.",
					},
				}},
			},
			"address": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Address or name by which the client's cluster reaches a node of the server's; the node's internal address by default.",
			},
			"node_port": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Validators:          nodePortRange,
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Port of the server's gateway at its node, 30000 to 32767; chosen by the cluster by default.",
			},
			"image": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(gateway.DefaultImage),
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Image of haproxy 2.6 or later with the program in its `PATH`; `" + gateway.DefaultImage + "` by default.",
			},
			"airgap_images": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ValueStringsAre(stringvalidator.RegexMatches(regexp.MustCompile(`^/`), "must be an absolute path on this machine"))},
				MarkdownDescription: "Absolute paths of image archives on this machine. They are loaded into the node of each k3s cluster that lacks the image, so that no registry is needed.",
			},
			"key_algorithm": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(gateway.KeyAlgorithms[0]),
				Validators:          []validator.String{stringvalidator.OneOf(gateway.KeyAlgorithms...)},
				MarkdownDescription: "Kind of the certificates' keys: `" + strings.Join(gateway.KeyAlgorithms, "` or `") + "`; `" + gateway.KeyAlgorithms[0] + "` by default, as ClusterLink has them, so that a full handshake costs the same.",
			},
			"certificate_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Any text. A change makes all certificates of the pair anew, in place.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long it may take until all services are reached; 5 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 5 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 5 minutes by default.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "`CLIENT,SERVER,NAME`, by which it is imported.",
			},
			"gateway": schema.SingleNestedAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Where the client's gateway reaches the server's.",
				Attributes: map[string]schema.Attribute{
					"host": schema.StringAttribute{Computed: true, MarkdownDescription: "Address of a node of the server's cluster."},
					"port": schema.Int64Attribute{Computed: true, MarkdownDescription: "Its node port."},
				},
			},
			"urls": schema.MapAttribute{
				Computed:            true,
				ElementType:         types.StringType,
				PlanModifiers:       []planmodifier.Map{mapplanmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "`http` URL of each service, as pods of the client's cluster call it.",
			},
		},
	}
}

func (r *gatewayPairResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

// ModifyPlan says that the URLs change with the services, and the gateway with
// its address and port.
func (r *gatewayPairResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var services, wantedServices types.Map
	var port, wantedPort types.Int64
	var address, wantedAddress types.String
	for attribute, values := range map[string][2]any{
		"services": {&services, &wantedServices}, "node_port": {&port, &wantedPort}, "address": {&address, &wantedAddress},
	} {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(attribute), values[0])...)
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(attribute), values[1])...)
	}
	if !services.Equal(wantedServices) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("urls"), types.MapUnknown(types.StringType))...)
	}
	if !port.Equal(wantedPort) || !address.Equal(wantedAddress) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("gateway"), types.ObjectUnknown(gatewayType))...)
	}
}

func (r *gatewayPairResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model gatewayPairModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Create(ctx, gatewayPairTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	saveBegun(ctx, req.Plan, &resp.State, &resp.Diagnostics, model.id())
	if r.apply(ctx, limit, "Create", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// in does work with clients of both clusters, within a time. A cluster that
// does not exist is nil.
func (r *gatewayPairResource) in(ctx context.Context, model *gatewayPairModel, limit time.Duration, work func(context.Context, gateway.Pair) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var pair gateway.Pair
	for _, side := range []struct {
		url  types.String
		into **kube.Client
	}{{model.Client, &pair.Client}, {model.Server, &pair.Server}} {
		cluster, err := r.data.clusters.Open(ctx, side.url.ValueString())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		defer cluster.Close()
		*side.into = cluster
	}
	return work(ctx, pair)
}

func (r *gatewayPairResource) apply(ctx context.Context, limit time.Duration, verb string, model *gatewayPairModel, diags *diag.Diagnostics) bool {
	err := r.in(ctx, model, limit, func(ctx context.Context, pair gateway.Pair) error {
		for attribute, side := range map[string]struct {
			cluster *kube.Client
			url     types.String
		}{"client": {pair.Client, model.Client}, "server": {pair.Server, model.Server}} {
			if side.cluster == nil {
				diags.AddAttributeError(path.Root(attribute), "Unable to "+verb+" Gateway Pair",
					"There is no cluster "+side.url.ValueString()+".\n\nUse the url of a testbed_k3s_cluster, so that the cluster is made first.")
			}
		}
		if diags.HasError() {
			return nil
		}
		if err := pair.Apply(ctx, model.spec(), stringList(model.AirgapImages), time.Now()); err != nil {
			return err
		}
		return model.observe(ctx, pair)
	})
	if lacking := (*gateway.ServiceError)(nil); errors.As(err, &lacking) {
		diags.AddAttributeError(path.Root("services").AtMapKey(lacking.Name), "Unable to "+verb+" Gateway Pair",
			fmt.Sprintf("Gateway Pair %q: %s.\n\nReference the port of a testbed_function, so that it is made first, or name another service.", model.Name.ValueString(), lacking))
	} else if err != nil {
		addFailure(diags, verb, "Gateway Pair", model.Name.ValueString(), err, "Apply again when the reason is gone.")
	}
	return !diags.HasError()
}

func (r *gatewayPairResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model gatewayPairModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := r.in(ctx, &model, clusterReadTimeout, model.observe)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		resp.State.RemoveResource(ctx)
	case err != nil:
		addFailure(&resp.Diagnostics, "Read", "Gateway Pair", model.Name.ValueString(), err,
			"Check that the clusters "+model.Client.ValueString()+" and "+model.Server.ValueString()+" run and can be reached.")
	default:
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *gatewayPairResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model gatewayPairModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Update(ctx, gatewayPairTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, limit, "Update", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *gatewayPairResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model gatewayPairModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, gatewayPairTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := r.in(ctx, &model, limit, func(ctx context.Context, pair gateway.Pair) error { return pair.Remove(ctx, model.Name.ValueString()) })
	if err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Gateway Pair", model.Name.ValueString(), err, "Check that both clusters run and can be reached, and destroy again.")
	}
}

func (r *gatewayPairResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	parts := strings.Split(req.ID, ",")
	if len(parts) != 3 || !clusterURL.MatchString(parts[0]) || !clusterURL.MatchString(parts[1]) {
		resp.Diagnostics.AddError("Invalid Import Identifier",
			fmt.Sprintf("%q is not of the form CLIENT,SERVER,NAME, for example \"k3s+local://edge,k3s+local://cloud,edge-cloud\".", req.ID))
		return
	}
	for i, attribute := range []string{"client", "server", "name"} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), parts[i])...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}
