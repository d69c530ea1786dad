package provider

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

var (
	_ resource.ResourceWithConfigure      = (*clusterlinkAccessPolicyResource)(nil)
	_ resource.ResourceWithImportState    = (*clusterlinkAccessPolicyResource)(nil)
	_ resource.ResourceWithValidateConfig = (*clusterlinkAccessPolicyResource)(nil)
)

type clusterlinkAccessPolicyResource struct {
	data *providerData
}

func newClusterlinkAccessPolicyResource() resource.Resource {
	return &clusterlinkAccessPolicyResource{}
}

type clusterlinkAccessPolicyModel struct {
	Cluster    types.String    `tfsdk:"cluster"`
	Name       types.String    `tfsdk:"name"`
	Action     types.String    `tfsdk:"action"`
	From       []selectorModel `tfsdk:"from"`
	To         []selectorModel `tfsdk:"to"`
	Namespace  types.String    `tfsdk:"namespace"`
	Privileged types.Bool      `tfsdk:"privileged"`
	Timeouts   timeouts.Value  `tfsdk:"timeouts"`
	ID         types.String    `tfsdk:"id"`
}

type selectorModel struct {
	MatchLabels      types.Map          `tfsdk:"match_labels"`
	MatchExpressions []requirementModel `tfsdk:"match_expressions"`
}

type requirementModel struct {
	Key      types.String `tfsdk:"key"`
	Operator types.String `tfsdk:"operator"`
	Values   types.List   `tfsdk:"values"`
}

func (m *clusterlinkAccessPolicyModel) spec() clusterlink.PolicySpec {
	spec := clusterlink.PolicySpec{
		Name:   m.Name.ValueString(),
		Action: m.Action.ValueString(),
		From:   selectors(m.From),
		To:     selectors(m.To),
	}
	if !m.Privileged.ValueBool() {
		spec.Namespace = m.Namespace.ValueString()
	}
	return spec
}

func selectors(models []selectorModel) []clusterlink.Selector {
	var list []clusterlink.Selector
	for _, model := range models {
		selector := clusterlink.Selector{Labels: stringMap(model.MatchLabels)}
		for _, expression := range model.MatchExpressions {
			selector.Requirements = append(selector.Requirements, clusterlink.Requirement{
				Key:      expression.Key.ValueString(),
				Operator: expression.Operator.ValueString(),
				Values:   stringList(expression.Values),
			})
		}
		list = append(list, selector)
	}
	return list
}

// selectorModels is the inverse of selectors. Where nothing changed it returns
// prior, which may have empty parts as well as none.
func selectorModels(prior []selectorModel, list []clusterlink.Selector) []selectorModel {
	if reflect.DeepEqual(selectors(prior), list) {
		return prior
	}
	models := []selectorModel{}
	for _, selector := range list {
		model := selectorModel{MatchLabels: mapValue(types.MapNull(types.StringType), selector.Labels, maps.Equal)}
		for _, requirement := range selector.Requirements {
			expression := requirementModel{
				Key:      types.StringValue(requirement.Key),
				Operator: types.StringValue(requirement.Operator),
				Values:   types.ListNull(types.StringType),
			}
			if len(requirement.Values) > 0 {
				expression.Values, _ = types.ListValueFrom(context.Background(), types.StringType, requirement.Values) // strings always convert
			}
			model.MatchExpressions = append(model.MatchExpressions, expression)
		}
		models = append(models, model)
	}
	return models
}

func (m *clusterlinkAccessPolicyModel) id() string {
	return m.Cluster.ValueString() + "/" + m.spec().Namespace + "/" + m.Name.ValueString()
}

func (m *clusterlinkAccessPolicyModel) observe(ctx context.Context, cluster *kube.Client) error {
	wanted := m.spec()
	spec, err := clusterlink.ObservePolicy(ctx, cluster, wanted.Namespace, wanted.Name)
	if err != nil {
		return err
	}
	m.ID = types.StringValue(m.id())
	m.Action = types.StringValue(spec.Action)
	m.From = selectorModels(m.From, spec.From)
	m.To = selectorModels(m.To, spec.To)
	return nil
}

func (r *clusterlinkAccessPolicyResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_access_policy"
}

func (r *clusterlinkAccessPolicyResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	selector := schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"match_labels": schema.MapAttribute{
			Optional:            true,
			ElementType:         types.StringType,
			MarkdownDescription: "Attributes and the values that they must have.",
		},
		"match_expressions": schema.ListNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Conditions on attributes, all of which must hold.",
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"key", "operator"}}, Attributes: map[string]schema.Attribute{
				"key": schema.StringAttribute{Optional: true, MarkdownDescription: "Attribute; needed."},
				"operator": schema.StringAttribute{
					Optional:            true,
					Validators:          []validator.String{stringvalidator.OneOf(clusterlink.Operators...)},
					MarkdownDescription: "`" + strings.Join(clusterlink.Operators, "`, `") + "`; needed.",
				},
				"values": schema.ListAttribute{
					Optional:            true,
					ElementType:         types.StringType,
					MarkdownDescription: "Values, for `In` and `NotIn`.",
				},
			}},
		},
	}}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Says who may call what over ClusterLink. Connections need a policy that allows them at both peers, that of the client and that of the service; what no policy allows is denied. " +
			"The attributes of clients are `client.clusterlink.net/namespace`, `client.clusterlink.net/service-account` and `client.clusterlink.net/labels.KEY`, those of services `export.clusterlink.net/name` and `export.clusterlink.net/namespace`, those of peers `peer.clusterlink.net/name` and `peer.clusterlink.net/labels.KEY`.",
		Attributes: map[string]schema.Attribute{
			"cluster": clusterAttribute(),
			"name":    nameAttribute("Name of the policy."),
			"action": schema.StringAttribute{
				Required:            true,
				Validators:          []validator.String{stringvalidator.OneOf(clusterlink.Actions...)},
				MarkdownDescription: "`allow`, or `deny`, which comes first.",
			},
			"from": schema.ListNestedAttribute{
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
				NestedObject:        selector,
				MarkdownDescription: "Clients, each of whom one selector must select; `[{}]` are all. As soon as one policy at a peer selects clients by attributes, clients that are no pods are denied there.",
			},
			"to": schema.ListNestedAttribute{
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
				NestedObject:        selector,
				MarkdownDescription: "Services, each of which one selector must select; `[{}]` are all.",
			},
			"namespace": namespaceAttribute(),
			"privileged": schema.BoolAttribute{
				Optional:            true,
				Computed:            true,
				Default:             booldefault.StaticBool(false),
				PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
				MarkdownDescription: "Whether the policy is for all namespaces of the cluster, `namespace` then means nothing, and comes before those that are not; `false` by default.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the policy may take to be accepted; 2 minutes by default.",
				Update: true, UpdateDescription: "How long a change may take; 2 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 2 minutes by default.",
			}),
			"id": clusterIDAttribute("NAMESPACE/NAME"),
		},
	}
}

func (r *clusterlinkAccessPolicyResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterlinkAccessPolicyResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	for _, side := range []string{"from", "to"} {
		var list types.List
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(side), &list)...)
		if resp.Diagnostics.HasError() || list.IsUnknown() || !fullyKnown(ctx, list) {
			return
		}
		var models []selectorModel
		resp.Diagnostics.Append(list.ElementsAs(ctx, &models, false)...)
		for i, selector := range models {
			for j, expression := range selector.MatchExpressions {
				expression.check(path.Root(side).AtListIndex(i).AtName("match_expressions").AtListIndex(j).AtName("values"), &resp.Diagnostics)
			}
		}
	}
}

func (m requirementModel) check(at path.Path, diags *diag.Diagnostics) {
	if m.Operator.IsUnknown() || m.Values.IsUnknown() {
		return
	}
	needed := m.Operator.ValueString() == "In" || m.Operator.ValueString() == "NotIn"
	if needed != (len(m.Values.Elements()) > 0) {
		diags.AddAttributeError(at, "Invalid Selector", "In and NotIn need values, Exists and DoesNotExist take none.")
	}
}

func fullyKnown(ctx context.Context, list types.List) bool {
	value, err := list.ToTerraformValue(ctx)
	return err == nil && value.IsFullyKnown()
}

func (r *clusterlinkAccessPolicyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkAccessPolicyModel
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

func (r *clusterlinkAccessPolicyResource) apply(ctx context.Context, limit time.Duration, verb string, model *clusterlinkAccessPolicyModel, diags *diag.Diagnostics) bool {
	work := clusterWork(func(ctx context.Context, cluster *kube.Client) error {
		if err := clusterlink.ApplyPolicy(ctx, cluster, model.spec()); err != nil {
			return err
		}
		return model.observe(ctx, cluster)
	})
	err := work.in(ctx, r.data, model.Cluster, limit)
	if err != nil {
		addFailure(diags, verb, "ClusterLink Access Policy", model.Name.ValueString(), err, "Check that the cluster has a testbed_clusterlink_peer and that the namespace exists.")
	}
	return err == nil
}

func (r *clusterlinkAccessPolicyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkAccessPolicyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if readInCluster(ctx, r.data, model.Cluster, "ClusterLink Access Policy", model.Name.ValueString(), resp, model.observe) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

func (r *clusterlinkAccessPolicyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model clusterlinkAccessPolicyModel
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

func (r *clusterlinkAccessPolicyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkAccessPolicyModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	limit, diags := model.Timeouts.Delete(ctx, clusterlinkTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	deleteInCluster(ctx, r.data, model.Cluster, limit, "ClusterLink Access Policy", model.Name.ValueString(), resp, func(ctx context.Context, cluster *kube.Client) error {
		return clusterlink.RemovePolicy(ctx, cluster, model.spec().Namespace, model.Name.ValueString())
	})
}

// ImportState takes CLUSTER/NAMESPACE/NAME, or CLUSTER//NAME for a privileged
// policy.
func (r *clusterlinkAccessPolicyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importFromCluster(ctx, req, resp, "namespace", "name")
	var namespace types.String
	resp.Diagnostics.Append(resp.State.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
	if resp.Diagnostics.HasError() {
		return
	}
	privileged := namespace.ValueString() == ""
	if privileged {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), "default")...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("privileged"), privileged)...)
}
