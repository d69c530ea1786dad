package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// What the resources that live in a cluster have in common.

var (
	portRange     = []validator.Int64{int64validator.Between(1, 65535)}
	nodePortRange = []validator.Int64{int64validator.Between(30000, 32767)}

	clusterURL = regexp.MustCompile(`^(k3s\+[a-z]+://.+|kubeconfig:///.+)$`)
	dnsLabel   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

func clusterAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Required:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          []validator.String{clusterURLValidator()},
		MarkdownDescription: "URL of the cluster, for example `k3s+local://edge`, which is the `url` of a `testbed_k3s_cluster`, or `kubeconfig:///path?context=NAME`.",
	}
}

func clusterURLValidator() validator.String {
	return stringvalidator.RegexMatches(clusterURL, "must be the URL of a cluster, for example \"k3s+local://edge\" or the url of a testbed_k3s_cluster")
}

func nameAttribute(description string) schema.StringAttribute {
	return schema.StringAttribute{
		Required:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          []validator.String{dnsLabelValidator()},
		MarkdownDescription: description,
	}
}

func dnsLabelValidator() validator.String {
	return stringvalidator.RegexMatches(dnsLabel, "must be at most 63 small letters, digits and hyphens, and begin and end with a letter or a digit")
}

func namespaceAttribute() schema.StringAttribute {
	return schema.StringAttribute{
		Optional:            true,
		Computed:            true,
		Default:             stringdefault.StaticString("default"),
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          []validator.String{dnsLabelValidator()},
		MarkdownDescription: "Namespace, which has to exist; `default` by default.",
	}
}

func clusterIDAttribute(parts string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		MarkdownDescription: "`CLUSTER/" + parts + "`, by which it is imported.",
	}
}

// clusterReadTimeout bounds a Read, which waits for nothing.
const clusterReadTimeout = time.Minute

// clusterWork is something that is done with the API of a cluster.
type clusterWork func(ctx context.Context, cluster *kube.Client) error

// in does the work with a client of the cluster, within a time.
func (work clusterWork) in(ctx context.Context, data *providerData, url types.String, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cluster, err := data.clusters.Open(ctx, url.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		return &noClusterError{err}
	}
	if err != nil {
		return err
	}
	defer cluster.Close()
	return work(ctx, cluster)
}

// noClusterError says that there is no cluster, rather than no such thing in it.
type noClusterError struct{ error }

func (e *noClusterError) Unwrap() error { return e.error }

// saveBegun puts what is about to be made into the state, so that a failure
// half-way leaves nothing behind that the state does not know. What is not
// known yet is null.
func saveBegun(ctx context.Context, plan tfsdk.Plan, state *tfsdk.State, diags *diag.Diagnostics, id string) {
	known, err := tftypes.Transform(plan.Raw, func(_ *tftypes.AttributePath, value tftypes.Value) (tftypes.Value, error) {
		if value.IsKnown() {
			return value, nil
		}
		return tftypes.NewValue(value.Type(), nil), nil
	})
	if err != nil {
		diags.AddError("Unable to Save State", err.Error()+". This is a bug in the provider; please report it.")
		return
	}
	state.Raw = known
	diags.Append(state.SetAttribute(ctx, path.Root("id"), id)...)
}

// readInCluster reports whether the work found the thing. One that is gone is
// removed from the state.
func readInCluster(ctx context.Context, data *providerData, url types.String, thing, name string, resp *resource.ReadResponse, work clusterWork) bool {
	err := work.in(ctx, data, url, clusterReadTimeout)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		resp.State.RemoveResource(ctx)
	case err != nil && data.leave(&resp.Diagnostics, strings.TrimPrefix(url.ValueString(), "k3s+"), err):
	case err != nil:
		addFailure(&resp.Diagnostics, "Read", thing, name, err, "Check that the cluster "+url.ValueString()+" runs and can be reached.")
	}
	return err == nil
}

// deleteInCluster removes a thing by the work. One that is gone, also with its
// cluster, is no error.
func deleteInCluster(ctx context.Context, data *providerData, url types.String, limit time.Duration, thing, name string, resp *resource.DeleteResponse, work clusterWork) {
	err := work.in(ctx, data, url, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !data.leave(&resp.Diagnostics, strings.TrimPrefix(url.ValueString(), "k3s+"), err) {
		addFailure(&resp.Diagnostics, "Delete", thing, name, err, "Check that the cluster "+url.ValueString()+" runs and can be reached, and destroy again.")
	}
}

// importFromCluster reads an import id, which is the URL of a cluster and the
// given attributes, separated by slashes. The URL has slashes too.
func importFromCluster(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse, attributes ...string) {
	parts := strings.Split(req.ID, "/")
	split := len(parts) - len(attributes)
	wanted := "CLUSTER"
	for _, attribute := range attributes {
		wanted += "/" + strings.ToUpper(attribute)
	}
	if split < 1 || !clusterURL.MatchString(strings.Join(parts[:max(split, 0)], "/")) {
		resp.Diagnostics.AddError("Invalid Import Identifier",
			fmt.Sprintf("%q is not of the form %s, for example \"k3s+local://edge%s\".", req.ID, wanted, strings.ToLower(strings.TrimPrefix(wanted, "CLUSTER"))))
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("cluster"), strings.Join(parts[:split], "/"))...)
	for i, attribute := range attributes {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), parts[split+i])...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}

// unknownOnChange plans computed attributes anew when one that they follow from
// changes.
func unknownOnChange(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, from []string, computed ...string) {
	if req.State.Raw.IsNull() || req.Plan.Raw.IsNull() {
		return
	}
	changed := false
	for _, attribute := range from {
		var before, after types.Int64
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root(attribute), &before)...)
		resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(attribute), &after)...)
		changed = changed || !before.Equal(after)
	}
	if !changed || resp.Diagnostics.HasError() {
		return
	}
	for _, attribute := range computed {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(attribute), types.StringUnknown())...)
	}
}

// stringMap returns the elements of a map of strings, none when it is null.
func stringMap(m types.Map) map[string]string {
	if len(m.Elements()) == 0 {
		return nil
	}
	elements := make(map[string]string, len(m.Elements()))
	for key, value := range m.Elements() {
		if text, ok := value.(types.String); ok {
			elements[key] = text.ValueString()
		}
	}
	return elements
}

// mapValue is the inverse of stringMap. Where nothing changed it returns prior,
// which may be an empty map as well as none.
func mapValue(prior types.Map, elements map[string]string, equal func(a, b map[string]string) bool) types.Map {
	if !prior.IsUnknown() && equal(stringMap(prior), elements) {
		return prior
	}
	if len(elements) == 0 {
		return types.MapNull(types.StringType)
	}
	values, _ := types.MapValueFrom(context.Background(), types.StringType, elements) // strings always convert
	return values
}

// stringList returns the elements of a list of strings, none when it is null.
func stringList(list types.List) []string {
	var elements []string
	for _, value := range list.Elements() {
		if text, ok := value.(types.String); ok {
			elements = append(elements, text.ValueString())
		}
	}
	return elements
}
