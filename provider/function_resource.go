package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

var (
	_ resource.ResourceWithConfigure        = (*functionResource)(nil)
	_ resource.ResourceWithConfigValidators = (*functionResource)(nil)
	_ resource.ResourceWithValidateConfig   = (*functionResource)(nil)
	_ resource.ResourceWithModifyPlan       = (*functionResource)(nil)
	_ resource.ResourceWithImportState      = (*functionResource)(nil)
)

const functionTimeout = 5 * time.Minute

type functionResource struct {
	data *providerData
}

func newFunctionResource() resource.Resource { return &functionResource{} }

type functionModel struct {
	Cluster      types.String        `tfsdk:"cluster"`
	Name         types.String        `tfsdk:"name"`
	Builtin      types.String        `tfsdk:"builtin"`
	Image        types.String        `tfsdk:"image"`
	Args         types.List          `tfsdk:"args"`
	Env          types.Map           `tfsdk:"env"`
	Namespace    types.String        `tfsdk:"namespace"`
	Runtime      types.String        `tfsdk:"runtime"`
	Port         types.Int64         `tfsdk:"port"`
	Replicas     types.Int64         `tfsdk:"replicas"`
	Scale        *scaleModel         `tfsdk:"scale"`
	NodePort     types.Int64         `tfsdk:"node_port"`
	Underlay     iptypes.IPv4Address `tfsdk:"underlay"`
	Resources    *resourcesModel     `tfsdk:"resources"`
	Timeouts     timeouts.Value      `tfsdk:"timeouts"`
	ID           types.String        `tfsdk:"id"`
	Service      types.String        `tfsdk:"service"`
	URL          types.String        `tfsdk:"url"`
	ClusterIPURL types.String        `tfsdk:"cluster_ip_url"`
	NodePortURL  types.String        `tfsdk:"node_port_url"`
	UnderlayURL  types.String        `tfsdk:"underlay_url"`
	Host         types.String        `tfsdk:"host"`
	Revision     types.String        `tfsdk:"revision"`
	Private      types.String        `tfsdk:"private_service"`
}

// scaleModel is the scale of a Knative function.
type scaleModel struct {
	Min                 types.Int64 `tfsdk:"min"`
	Max                 types.Int64 `tfsdk:"max"`
	Initial             types.Int64 `tfsdk:"initial"`
	Concurrency         types.Int64 `tfsdk:"concurrency"`
	TargetBurstCapacity types.Int64 `tfsdk:"target_burst_capacity"`
}

// scale returns the scale of a Knative function, one pod always where nothing
// is said, so that a measurement holds no cold start unless it is wanted.
func (m *scaleModel) scale() *function.Scale {
	scale := &function.Scale{Min: 1, Max: 1, Initial: 1}
	if m == nil {
		return scale
	}
	for value, into := range map[*types.Int64]*int{&m.Min: &scale.Min, &m.Max: &scale.Max, &m.Initial: &scale.Initial, &m.Concurrency: &scale.Concurrency} {
		if !value.IsNull() {
			*into = int(value.ValueInt64())
		}
	}
	if m.Initial.IsNull() && scale.Min > 1 {
		scale.Initial = scale.Min
	}
	if !m.TargetBurstCapacity.IsNull() {
		scale.TargetBurstCapacity = new(int(m.TargetBurstCapacity.ValueInt64()))
	}
	return scale
}

// set takes over what differs from what the model stands for.
func (m *scaleModel) set(found *function.Scale) {
	wanted := m.scale()
	for _, field := range []struct {
		into        *types.Int64
		want, found int
	}{
		{&m.Min, wanted.Min, found.Min}, {&m.Max, wanted.Max, found.Max},
		{&m.Initial, wanted.Initial, found.Initial}, {&m.Concurrency, wanted.Concurrency, found.Concurrency},
	} {
		if field.want != field.found {
			*field.into = types.Int64Value(int64(field.found))
		}
	}
	m.TargetBurstCapacity = types.Int64Null()
	if found.TargetBurstCapacity != nil {
		m.TargetBurstCapacity = types.Int64Value(int64(*found.TargetBurstCapacity))
	}
}

type resourcesModel struct {
	Requests types.Map `tfsdk:"requests"`
	Limits   types.Map `tfsdk:"limits"`
}

func (m *functionModel) spec() function.Spec {
	spec := function.Spec{
		Namespace: m.Namespace.ValueString(),
		Name:      m.Name.ValueString(),
		Builtin:   m.Builtin.ValueString(),
		Image:     m.Image.ValueString(),
		Args:      stringList(m.Args),
		Env:       stringMap(m.Env),
		Runtime:   m.Runtime.ValueString(),
		Port:      int(m.Port.ValueInt64()),
		Replicas:  int(m.Replicas.ValueInt64()),
		NodePort:  int(m.NodePort.ValueInt64()),
		Underlay:  m.Underlay.ValueString(),
	}
	if spec.Runtime == function.Knative {
		spec.Scale = m.Scale.scale()
	}
	if m.Resources != nil {
		spec.Requests, spec.Limits = stringMap(m.Resources.Requests), stringMap(m.Resources.Limits)
	}
	return spec
}

func (m *functionModel) id() string {
	return m.Cluster.ValueString() + "/" + m.Namespace.ValueString() + "/" + m.Name.ValueString()
}

func (m *functionModel) observe(ctx context.Context, cluster *kube.Client) error {
	status, err := function.Observe(ctx, cluster, m.Namespace.ValueString(), m.Name.ValueString())
	if err == nil {
		m.set(status)
	}
	return err
}

func (m *functionModel) set(status function.Status) {
	status.Spec.Underlay = m.Underlay.ValueString() // only checked, not kept in the cluster
	spec := status.Spec
	m.ID = types.StringValue(m.id())
	m.Builtin = textOrNull(spec.Builtin)
	m.Image = textOrNull(spec.Image)
	if !slices.Equal(stringList(m.Args), spec.Args) {
		m.Args, _ = types.ListValueFrom(context.Background(), types.StringType, spec.Args) // strings always convert
	}
	m.Env = mapValue(m.Env, spec.Env, maps.Equal)
	m.Runtime = types.StringValue(cmp.Or(spec.Runtime, function.Deployment))
	m.Port = types.Int64Value(int64(spec.Port))
	m.setScale(spec)
	m.NodePort = types.Int64Null()
	if spec.NodePort != 0 {
		m.NodePort = types.Int64Value(int64(spec.NodePort))
	}
	if m.Resources == nil && len(spec.Requests)+len(spec.Limits) > 0 {
		m.Resources = &resourcesModel{Requests: types.MapNull(types.StringType), Limits: types.MapNull(types.StringType)}
	}
	if m.Resources != nil {
		m.Resources.Requests = mapValue(m.Resources.Requests, spec.Requests, function.SameQuantities)
		m.Resources.Limits = mapValue(m.Resources.Limits, spec.Limits, function.SameQuantities)
	}
	m.Service = types.StringValue(spec.Host())
	m.URL = types.StringValue(status.URL())
	m.ClusterIPURL = types.StringValue(status.ClusterIPURL())
	m.NodePortURL = types.StringValue(status.NodePortURL())
	m.UnderlayURL = textOrNull(status.UnderlayURL())
	m.Host, m.Revision, m.Private = types.StringNull(), types.StringNull(), types.StringNull()
	if routes := status.Routes; routes != nil {
		m.Host, m.Revision, m.Private = textOrNull(routes.Host), textOrNull(routes.Revision), textOrNull(routes.PrivateService)
	}
}

// setScale sets how many pods there are, which Knative decides from a scale.
func (m *functionModel) setScale(spec function.Spec) {
	if spec.Scale == nil {
		m.Replicas = types.Int64Value(int64(spec.Replicas))
		return
	}
	if m.Replicas.IsNull() {
		m.Replicas = types.Int64Value(1) // the default, which says nothing of a Knative function
	}
	scale := m.Scale
	if scale == nil {
		scale = &scaleModel{}
	}
	scale.set(spec.Scale)
	if *scale != (scaleModel{}) {
		m.Scale = scale
	}
}

func textOrNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

func (r *functionResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_function"
}

func (r *functionResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	quantities := []validator.Map{mapvalidator.ValueStringsAre(quantityValidator{})}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs a workload that an experiment calls over HTTP: one of the built-in functions, which need no registry, or any image. It is reachable inside its cluster and at a port of its node.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"name":    nameAttribute("Name of the function, of its Deployment and of its Service."),
			"builtin": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.OneOf(function.Builtins...)},
				MarkdownDescription: "Built-in function, for k3s clusters: `hello-world` answers with the same 1,024 bytes each time, `payload-echo` with the request's body, `payload-recv` with its length; the first and the last answer with as many bytes as the header `Testbed-Response-Bytes` asks for. Exactly one of `builtin` and `image` is needed.",
			},
			"image": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Reference of a container image that serves HTTP.",
			},
			"args": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ConflictsWith(path.MatchRoot("builtin"))},
				MarkdownDescription: "Arguments of the image's program.",
			},
			"env": schema.MapAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Environment variables. Do not put secrets here.",
			},
			"namespace": namespaceAttribute(),
			"runtime": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(function.Runtimes[0]),
				Validators:          []validator.String{stringvalidator.OneOf(function.Runtimes...)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "How the function is run: `" + strings.Join(function.Runtimes, "`, `") + "`; `deployment` by default. A `knative` function needs a `testbed_knative` on its cluster.",
			},
			"port": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(function.DefaultPort),
				Validators:          portRange,
				MarkdownDescription: fmt.Sprintf("Port of the container, and of the Service of a Deployment; %d by default. The Services of Knative have port 80.", function.DefaultPort),
			},
			"replicas": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(1),
				Validators:          []validator.Int64{int64validator.AtLeast(1)},
				MarkdownDescription: "Number of pods of a Deployment; 1 by default.",
			},
			"scale": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "Number of pods of a Knative function, which has exactly one by default, so that no cold start is measured unless it is wanted.",
				Attributes: map[string]schema.Attribute{
					"min": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
						MarkdownDescription: "Least number; 0 lets the last pod go when nobody calls. 1 by default.",
					},
					"max": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.AtLeast(0)},
						MarkdownDescription: "Largest number, 0 for no limit; 1 by default.",
					},
					"initial": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.AtLeast(1)},
						MarkdownDescription: "Pods that a new revision starts with before it answers; `min`, or 1, by default.",
					},
					"concurrency": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.Between(0, 1000)},
						MarkdownDescription: "Requests at once in one pod, 0 for no limit; 0 by default.",
					},
					"target_burst_capacity": schema.Int64Attribute{
						Optional: true, Validators: []validator.Int64{int64validator.AtLeast(-1)},
						MarkdownDescription: "When the activator leaves the path: `-1` never, `0` once a pod runs; that of the `testbed_knative` by default.",
					},
				},
			},
			"node_port": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Validators:          nodePortRange,
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseNonNullStateForUnknown()},
				MarkdownDescription: "Port of the node, 30000 to 32767; chosen by the cluster by default.",
			},
			"underlay": schema.StringAttribute{
				Optional:            true,
				CustomType:          iptypes.IPv4AddressType{},
				MarkdownDescription: "Address of the node on its underlay, at which the node port is checked to answer as well: the path to `underlay_url` passes no overlay.",
			},
			"resources": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "What a pod gets of the node's resources.",
				Attributes: map[string]schema.Attribute{
					"requests": schema.MapAttribute{
						Optional:            true,
						ElementType:         types.StringType,
						Validators:          quantities,
						MarkdownDescription: "Least amounts, for example `{ cpu = \"100m\", memory = \"64Mi\" }`.",
					},
					"limits": schema.MapAttribute{
						Optional:            true,
						ElementType:         types.StringType,
						Validators:          quantities,
						MarkdownDescription: "Largest amounts. A limit of `cpu` pauses a pod that exceeds it, which shows in measurements.",
					},
				},
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the function may take to answer; 5 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 5 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 5 minutes by default.",
			}),
			"id": clusterIDAttribute("NAMESPACE/NAME"),
			"service": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "DNS name of the function inside its cluster.",
			},
			"url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "URL by that name, for pods of the cluster.",
			},
			"cluster_ip_url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "URL by the Service's address, for pods of the cluster that must not ask DNS. That of a Knative function leads to its pods, past ingress and activator.",
			},
			"node_port_url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "URL by the node's address, for clients in other clusters. That of a Knative function leads to its pods, past ingress and activator.",
			},
			"host": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Host by which callers outside the cluster ask the ingress for a Knative function; null otherwise.",
			},
			"revision": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Revision of a Knative function that answers now; null otherwise.",
			},
			"private_service": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "DNS name of the Service that leads to the pods of that revision, `REVISION-private`; null otherwise.",
			},
			"underlay_url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "URL by the node's `underlay` address, for clients in other clusters that do without the overlay; null without `underlay`.",
			},
		},
	}
}

func (r *functionResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *functionResource) ConfigValidators(context.Context) []resource.ConfigValidator {
	return []resource.ConfigValidator{resourcevalidator.ExactlyOneOf(path.MatchRoot("builtin"), path.MatchRoot("image"))}
}

// ValidateConfig refuses what the other runtime would need.
func (r *functionResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model functionModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || model.Runtime.IsUnknown() {
		return
	}
	if model.Runtime.ValueString() == function.Knative {
		model.validateKnative(&resp.Diagnostics)
	} else if model.Scale != nil {
		resp.Diagnostics.AddAttributeError(path.Root("scale"), "Invalid Scale", "A Deployment has a fixed number of pods. Use replicas, or runtime = \"knative\".")
	}
}

// validateKnative refuses what Knative's webhook would, or what would never
// become ready.
func (m *functionModel) validateKnative(diags *diag.Diagnostics) {
	if !m.Replicas.IsNull() {
		diags.AddAttributeError(path.Root("replicas"), "Invalid Replicas", "Knative decides how many pods there are. Say how with scale, for example scale = { min = 2, max = 2 }.")
	}
	if name := m.Name.ValueString(); len(name) > function.LongestKnativeName || name != "" && name[0] <= '9' {
		diags.AddAttributeError(path.Root("name"), "Invalid Name", fmt.Sprintf("The name of a Knative function begins with a letter and has %d characters at most, since its Services are named after it: %q has %d.", function.LongestKnativeName, name, len(name)))
	}
	if port := int(m.Port.ValueInt64()); function.ReservedPort(port) {
		diags.AddAttributeError(path.Root("port"), "Invalid Port", fmt.Sprintf("Knative's queue-proxy listens on port %d of each pod. Have the function listen on another, for example %d.", port, function.DefaultPort))
	}
	for name := range m.Env.Elements() {
		if function.ReservedVariable(name) {
			diags.AddAttributeError(path.Root("env").AtMapKey(name), "Invalid Variable", fmt.Sprintf("Knative itself sets %s. Remove it, or give it another name.", name))
		}
	}
	if m.Scale == nil || m.Scale.Max.IsUnknown() {
		return
	}
	scale := m.Scale.scale()
	for _, other := range []struct {
		name   string
		wanted types.Int64
		pods   int
	}{{"least", m.Scale.Min, scale.Min}, {"initial", m.Scale.Initial, scale.Initial}} {
		if !other.wanted.IsUnknown() && scale.Max != 0 && scale.Max < other.pods {
			diags.AddAttributeError(path.Root("scale"), "Invalid Scale", fmt.Sprintf("The largest number of pods is %d and the %s number %d. Set max to %d or more, or to 0 for no limit.", scale.Max, other.name, other.pods, other.pods))
			return
		}
	}
}

// ModifyPlan says that the URLs change with the ports.
func (r *functionResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	unknownOnChange(ctx, req, resp, []string{"port", "node_port"}, "url", "cluster_ip_url", "node_port_url", "underlay_url")
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var before, after iptypes.IPv4Address
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("underlay"), &before)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("underlay"), &after)...)
	if !before.Equal(after) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("underlay_url"), types.StringUnknown())...)
	}
}

func (r *functionResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model functionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Create(ctx, functionTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	saveBegun(ctx, req.Plan, &resp.State, &resp.Diagnostics, model.id())
	if r.apply(ctx, limit, "Create", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *functionResource) apply(ctx context.Context, limit time.Duration, verb string, model *functionModel, diags *diag.Diagnostics) bool {
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := function.Apply(ctx, cluster, model.spec()); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if errors.Is(err, function.ErrUnderlay) {
		diags.AddAttributeError(path.Root("underlay"), "Unable to "+verb+" Function", fmt.Sprintf(
			"Function %q: %s.\n\nCheck that the address is one of the node, and that kube-proxy answers on all addresses: with k3s, config = jsonencode({ \"kube-proxy-arg\" = [\"nodeport-addresses=0.0.0.0/0\"] }) of the testbed_k3s_cluster.",
			model.Name.ValueString(), err))
	} else if err != nil {
		addFailure(diags, verb, "Function", model.Name.ValueString(), err, model.afterFailure(err))
	}
	return err == nil
}

// afterFailure says what to do about an error.
func (m *functionModel) afterFailure(err error) string {
	var image *workload.ImageError
	if !errors.As(err, &image) {
		return "Apply again when the reason is gone."
	}
	next := "Check the image's name, tag and registry. On a cluster without a registry, put the image's archive among the airgap_images of the testbed_k3s_cluster"
	if m.Runtime.ValueString() == function.Knative {
		next += ", under a name that begins with \"dev.local/\": any other Knative looks up in its registry, unless it has a digest"
	}
	return next + "."
}

func (r *functionResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model functionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "Function", model.Name.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *functionResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model functionModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Update(ctx, functionTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, limit, "Update", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *functionResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model functionModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, functionTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "Function", model.Name.ValueString(), resp, func(ctx context.Context, cluster *kube.Client) error {
		return function.Remove(ctx, cluster, model.Namespace.ValueString(), model.Name.ValueString())
	})
}

func (r *functionResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp, "namespace", "name")
}

// quantityValidator accepts Kubernetes quantities.
type quantityValidator struct{}

func (quantityValidator) Description(context.Context) string { return "must be a Kubernetes quantity" }

func (v quantityValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (quantityValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := function.CheckQuantity(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Quantity", err.Error()+".")
	}
}
