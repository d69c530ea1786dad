package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure      = (*knativeResource)(nil)
	_ resource.ResourceWithValidateConfig = (*knativeResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*knativeResource)(nil)
	_ resource.ResourceWithImportState    = (*knativeResource)(nil)
)

const (
	knativeApplyTimeout  = 10 * time.Minute
	knativeDeleteTimeout = 5 * time.Minute
)

type knativeResource struct {
	data *providerData
}

func newKnativeResource() resource.Resource { return &knativeResource{} }

type knativeModel struct {
	Cluster              types.String         `tfsdk:"cluster"`
	Manifests            types.List           `tfsdk:"manifests"`
	AirgapImages         types.List           `tfsdk:"airgap_images"`
	Ingress              types.String         `tfsdk:"ingress"`
	IngressClass         types.String         `tfsdk:"ingress_class"`
	Domain               types.String         `tfsdk:"domain"`
	ScaleToZero          types.Bool           `tfsdk:"scale_to_zero"`
	GracePeriod          timetypes.GoDuration `tfsdk:"scale_to_zero_grace_period"`
	StableWindow         timetypes.GoDuration `tfsdk:"stable_window"`
	TargetBurstCapacity  types.Int64          `tfsdk:"target_burst_capacity"`
	ContainerConcurrency types.Int64          `tfsdk:"container_concurrency"`
	CPU                  types.String         `tfsdk:"cpu_request"`
	Memory               types.String         `tfsdk:"memory_request"`
	Timeouts             timeouts.Value       `tfsdk:"timeouts"`
	ID                   types.String         `tfsdk:"id"`
	Version              types.String         `tfsdk:"version"`
	IngressURL           types.String         `tfsdk:"ingress_url"`
	IngressIP            types.String         `tfsdk:"ingress_cluster_ip"`
}

func (m *knativeModel) spec(diags *diag.Diagnostics) knative.Spec {
	return knative.Spec{
		Ingress:              m.Ingress.ValueString(),
		Class:                m.IngressClass.ValueString(),
		Domain:               m.Domain.ValueString(),
		ScaleToZero:          m.ScaleToZero.ValueBool(),
		GracePeriod:          durationOf(m.GracePeriod, diags),
		StableWindow:         durationOf(m.StableWindow, diags),
		TargetBurstCapacity:  int(m.TargetBurstCapacity.ValueInt64()),
		ContainerConcurrency: int(m.ContainerConcurrency.ValueInt64()),
		CPU:                  m.CPU.ValueString(),
		Memory:               m.Memory.ValueString(),
	}
}

func (m *knativeModel) set(status knative.Status) {
	m.ID = m.Cluster
	m.Ingress = types.StringValue(status.Ingress)
	m.IngressClass = textOrNull(status.Class)
	m.Domain = types.StringValue(status.Domain)
	m.ScaleToZero = types.BoolValue(status.ScaleToZero)
	m.GracePeriod = keepDuration(m.GracePeriod, status.GracePeriod)
	m.StableWindow = keepDuration(m.StableWindow, status.StableWindow)
	m.TargetBurstCapacity = types.Int64Value(int64(status.TargetBurstCapacity))
	m.ContainerConcurrency = types.Int64Value(int64(status.ContainerConcurrency))
	if !function.SameQuantities(map[string]string{"cpu": m.CPU.ValueString(), "memory": m.Memory.ValueString()}, map[string]string{"cpu": status.CPU, "memory": status.Memory}) {
		m.CPU, m.Memory = types.StringValue(status.CPU), types.StringValue(status.Memory)
	}
	m.Version = types.StringValue(status.Version)
	m.IngressURL, m.IngressIP = types.StringNull(), types.StringNull()
	if status.NodePort != 0 {
		m.IngressURL = types.StringValue(fmt.Sprintf("http://%s", net.JoinHostPort(status.NodeIP, strconv.Itoa(status.NodePort))))
	}
	if status.ClusterIP != "" {
		m.IngressIP = types.StringValue(status.ClusterIP)
	}
}

// keepDuration returns prior when it says the same as found, however it is
// written.
func keepDuration(prior timetypes.GoDuration, found time.Duration) timetypes.GoDuration {
	if !prior.IsNull() && !prior.IsUnknown() {
		if duration, diags := prior.ValueGoDuration(); !diags.HasError() && duration == found {
			return prior
		}
	}
	return timetypes.NewGoDurationValue(found)
}

func (m *knativeModel) observe(ctx context.Context, cluster *kube.Client) error {
	status, err := knative.Observe(ctx, cluster)
	if err == nil {
		m.set(status)
	}
	return err
}

func (r *knativeResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_knative"
}

func (r *knativeResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	quantity := []validator.String{quantityValidator{}}
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Runs Knative Serving on a cluster, trimmed for an edge node: one replica of each part, small requests, and an ingress without Envoy. A cluster has one Knative, which is removed with all its functions.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"manifests": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(stringvalidator.RegexMatches(regexp.MustCompile(`^(/|https?://)`), "must be an absolute path on this machine or a URL"))},
				MarkdownDescription: "Absolute paths or URLs of a release's manifests; by default `serving-crds.yaml` and `serving-core.yaml` of Knative Serving " + knative.DefaultRelease + ", which are downloaded.",
			},
			"airgap_images": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ValueStringsAre(stringvalidator.RegexMatches(regexp.MustCompile(`^/`), "must be an absolute path on this machine"))},
				MarkdownDescription: "Absolute paths of image archives on this machine. They are loaded into the node of a k3s cluster when it lacks one of the images, so that no registry is needed.",
			},
			"ingress": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(knative.Ingresses[0]),
				Validators:          []validator.String{stringvalidator.OneOf(knative.Ingresses...)},
				MarkdownDescription: "What routes requests to functions: `built-in` is the testbed's own ingress, `traefik` a Traefik 3.6 or newer of the cluster with its Knative provider set up as below, `none` one that runs already and is named by `ingress_class`; `built-in` by default.",
			},
			"ingress_class": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Ingress class of functions, with `ingress = \"none\"` only, for example `kourier.ingress.networking.knative.dev`.",
			},
			"domain": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString("knative.test"),
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`), "must be a DNS name")},
				MarkdownDescription: "Domain of the host names by which callers outside the cluster ask the ingress for functions, `NAME.NAMESPACE.DOMAIN`; `knative.test` by default. After a change, functions say their new `host` at the next apply. With `svc.cluster.local` functions are seen inside the cluster only.",
			},
			"scale_to_zero": schema.BoolAttribute{
				Optional:            true,
				Computed:            true,
				Default:             booldefault.StaticBool(true),
				MarkdownDescription: "Whether functions that nobody calls lose their last pod, if their scale allows it; `true` by default.",
			},
			"scale_to_zero_grace_period": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{}, Default: stringdefault.StaticString("30s"),
				Validators:          []validator.String{durationFrom{least: time.Second}},
				MarkdownDescription: "How long the last pod is kept after that is decided, 1s or more; `30s` by default.",
			},
			"stable_window": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: timetypes.GoDurationType{}, Default: stringdefault.StaticString("1m"),
				Validators:          []validator.String{durationFrom{least: knative.LeastWindow, most: knative.MostWindow}},
				MarkdownDescription: "Time that the autoscaler averages over, from 6s to 1h in whole seconds; `1m` by default.",
			},
			"target_burst_capacity": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(0),
				Validators:          []validator.Int64{int64validator.AtLeast(-1)},
				MarkdownDescription: "How many requests more than usual a function has to take at once before the activator leaves the path. `0`, the default here, takes the activator out as soon as a pod runs; `-1` always keeps it in; Knative's own default, 211, keeps it in for small functions.",
			},
			"container_concurrency": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(0),
				Validators:          []validator.Int64{int64validator.Between(0, 1000)},
				MarkdownDescription: "Requests at once in one pod of functions that do not say theirs; 0, unlimited, by default.",
			},
			"cpu_request": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("20m"), Validators: quantity,
				MarkdownDescription: "CPU that each of the four programs of the control plane requests; `20m` by default.",
			},
			"memory_request": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("64Mi"), Validators: quantity,
				MarkdownDescription: "Memory that each of them requests; `64Mi` by default.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long Knative may take to become ready; 10 minutes by default.",
				Update: true, UpdateDescription: "How long Knative may take to become ready again; 10 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 5 minutes by default.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "The cluster, by which Knative is imported.",
			},
			"version": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Version of Knative Serving that the manifests are of, for example `1.23.0`; those that are built from the Go modules have the version of these, `0.50.0` for the same release.",
			},
			"ingress_url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "URL of the ingress at the node, which routes by the host of a request. Null with `ingress = \"none\"`, and when Traefik's public Service has no port of the node.",
			},
			"ingress_cluster_ip": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Address of the ingress inside the cluster, port 80. Null with `ingress = \"none\"`.",
			},
		},
	}
}

func (r *knativeResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *knativeResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model knativeModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || model.Ingress.IsUnknown() || model.IngressClass.IsUnknown() {
		return
	}
	switch foreign := model.Ingress.ValueString() == "none"; {
	case foreign && model.IngressClass.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("ingress_class"), "Missing Ingress Class", "With ingress = \"none\" functions are routed by an ingress that runs already. Name its class, for example \"kourier.ingress.networking.knative.dev\".")
	case !foreign && !model.IngressClass.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("ingress_class"), "Invalid Ingress Class", "The class follows from ingress. Remove ingress_class, or set ingress = \"none\".")
	}
}

// ModifyPlan says that what is computed follows from the manifests and the
// ingress, and that what was removed by hand comes back.
func (r *knativeResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	var state, plan knativeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !plan.Manifests.Equal(state.Manifests) || state.Version.ValueString() == "" {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("version"), types.StringUnknown())...)
	}
	if !plan.Ingress.Equal(state.Ingress) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ingress_url"), types.StringUnknown())...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("ingress_cluster_ip"), types.StringUnknown())...)
	}
}

func (r *knativeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model knativeModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Create(ctx, knativeApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	saveBegun(ctx, req.Plan, &resp.State, &resp.Diagnostics, model.Cluster.ValueString())
	if r.apply(ctx, limit, "Create", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *knativeResource) apply(ctx context.Context, limit time.Duration, verb string, model *knativeModel, diags *diag.Diagnostics) bool {
	spec := model.spec(diags)
	if diags.HasError() {
		return false
	}
	tflog.Info(ctx, "waiting for Knative", map[string]any{"cluster": model.Cluster.ValueString()})
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		release, err := r.release(ctx, stringList(model.Manifests))
		if err != nil {
			return err
		}
		if err := knative.Apply(ctx, cluster, spec, release, stringList(model.AirgapImages)); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if err != nil {
		next := "Apply again when the reason is gone."
		var skip *knative.UpgradeError
		var old *knative.OldKubernetesError
		var traefik *knative.TraefikError
		switch {
		case errors.As(err, &skip):
			next = "Apply the manifests of each minor release in between first, or destroy Knative and apply again."
		case errors.As(err, &traefik):
			next = "Set Traefik up as the documentation of testbed_knative shows, or use ingress = \"built-in\", which needs nothing and no port of the nodes that another ingress may have."
		case errors.As(err, &old):
			next = "Raise the version of the testbed_k3s_cluster, or name the manifests of an older release of Knative."
		}
		addFailure(diags, verb, "Knative", model.Cluster.ValueString(), err, next)
		return false
	}
	tflog.Info(ctx, "Knative is ready", map[string]any{"cluster": model.Cluster.ValueString()})
	return true
}

// release returns the manifests of a release as one, those of the default
// release when none are named.
func (r *knativeResource) release(ctx context.Context, locations []string) ([]byte, error) {
	if len(locations) == 0 {
		locations = knative.DefaultManifests()
	}
	var all bytes.Buffer
	for _, location := range locations {
		file, err := r.data.artifacts.Fetch(ctx, artifact.Source{Location: location})
		if err != nil {
			return nil, fmt.Errorf("get Knative's manifests: %w; without internet, name manifests that are on this machine", err)
		}
		content, err := os.ReadFile(file.Path)
		if err != nil {
			return nil, fmt.Errorf("get Knative's manifests: %w", err)
		}
		fmt.Fprintf(&all, "---\n%s\n", content)
	}
	return all.Bytes(), nil
}

func (r *knativeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model knativeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "Knative", model.Cluster.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *knativeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model knativeModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Update(ctx, knativeApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.apply(ctx, limit, "Update", &model, &resp.Diagnostics) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *knativeResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model knativeModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, knativeDeleteTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "Knative", model.Cluster.ValueString(), resp, knative.Remove)
}

func (r *knativeResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp)
}
