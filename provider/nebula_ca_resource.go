package provider

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

var (
	_ resource.ResourceWithConfigure      = (*nebulaCAResource)(nil)
	_ resource.ResourceWithValidateConfig = (*nebulaCAResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*nebulaCAResource)(nil)
	_ resource.ResourceWithImportState    = (*nebulaCAResource)(nil)
)

type nebulaCAResource struct {
	data *providerData
}

func newNebulaCAResource() resource.Resource { return &nebulaCAResource{} }

type nebulaCAModel struct {
	Name        types.String         `tfsdk:"name"`
	Networks    types.Set            `tfsdk:"networks"`
	Groups      types.Set            `tfsdk:"groups"`
	Duration    timetypes.GoDuration `tfsdk:"duration"`
	Curve       types.String         `tfsdk:"curve"`
	Version     types.Int64          `tfsdk:"version"`
	KeyFile     types.String         `tfsdk:"key_file"`
	ID          types.String         `tfsdk:"id"`
	Certificate types.String         `tfsdk:"certificate"`
	Fingerprint types.String         `tfsdk:"fingerprint"`
	NotBefore   timetypes.RFC3339    `tfsdk:"not_before"`
	NotAfter    timetypes.RFC3339    `tfsdk:"not_after"`
}

func (m *nebulaCAModel) spec(ctx context.Context) (nebula.CASpec, diag.Diagnostics) {
	var diags diag.Diagnostics
	spec := nebula.CASpec{
		Name:     m.Name.ValueString(),
		Networks: prefixes(ctx, m.Networks, &diags),
		Groups:   stringsOf(ctx, m.Groups, &diags),
		Curve:    m.Curve.ValueString(),
		Version:  int(m.Version.ValueInt64()),
	}
	var more diag.Diagnostics
	spec.Duration, more = m.Duration.ValueGoDuration()
	diags.Append(more...)
	return spec, diags
}

func (m *nebulaCAModel) set(ctx context.Context, ca *nebula.CA) diag.Diagnostics {
	var diags diag.Diagnostics
	c := ca.Certificate
	text, err := c.MarshalPEM()
	if err != nil {
		addFailure(&diags, "Read", "Nebula CA", c.Name(), err, "")
	}
	fingerprint, err := c.Fingerprint()
	if err != nil {
		addFailure(&diags, "Read", "Nebula CA", c.Name(), err, "")
	}
	m.ID = m.KeyFile
	m.Certificate = types.StringValue(string(text))
	m.Fingerprint = types.StringValue(fingerprint)
	m.NotBefore = timetypes.NewRFC3339TimeValue(c.NotBefore().UTC())
	m.NotAfter = timetypes.NewRFC3339TimeValue(c.NotAfter().UTC())
	if !m.Name.IsNull() {
		return diags
	}
	// Import: what was asked for follows from what there is.
	spec := ca.Spec()
	m.Name = types.StringValue(spec.Name)
	m.Networks = prefixSet(ctx, spec.Networks, &diags)
	m.Groups = stringSet(ctx, spec.Groups, &diags)
	m.Duration = timetypes.NewGoDurationValue(spec.Duration)
	m.Curve = types.StringValue(spec.Curve)
	m.Version = types.Int64Value(int64(spec.Version))
	return diags
}

func (r *nebulaCAResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_nebula_ca"
}

func (r *nebulaCAResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replaceString := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	replaceSet := []planmodifier.Set{setplanmodifier.RequiresReplace()}
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Makes a certificate authority of the Nebula overlay on the machine that Terraform runs on. Its private key stays in one file there and is in no state; with the file the CA is gone. A change makes a new CA, and the nodes that reference its `id` get new certificates in the same apply.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       replaceString,
				MarkdownDescription: "Name in the certificate.",
			},
			"networks": schema.SetAttribute{
				Optional:            true,
				ElementType:         cidrtypes.IPPrefixType{},
				PlanModifiers:       replaceSet,
				MarkdownDescription: "Networks in which nodes can have their overlay addresses; any by default.",
			},
			"groups": schema.SetAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				PlanModifiers:       replaceSet,
				MarkdownDescription: "Groups that nodes can be in; any by default.",
			},
			"duration": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				CustomType:          timetypes.GoDurationType{},
				Default:             stringdefault.StaticString("8760h0m0s"),
				PlanModifiers:       replaceString,
				MarkdownDescription: "How long the certificate lasts from its making, as a Go duration; `8760h0m0s`, a year, by default. It starts a day before, so that hosts whose clocks are behind accept it.",
			},
			"curve": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				Default:             stringdefault.StaticString(nebula.Curves[0]),
				Validators:          []validator.String{stringvalidator.OneOf(nebula.Curves...)},
				PlanModifiers:       replaceString,
				MarkdownDescription: "Curve of all keys of the overlay: `" + strings.Join(nebula.Curves, "` or `") + "`; `" + nebula.Curves[0] + "` by default.",
			},
			"version": schema.Int64Attribute{
				Optional:            true,
				Computed:            true,
				Default:             int64default.StaticInt64(2),
				Validators:          []validator.Int64{int64validator.Between(1, 2)},
				PlanModifiers:       []planmodifier.Int64{int64planmodifier.RequiresReplace()},
				MarkdownDescription: "Version of all certificates of the overlay: `2`, the default, or `1`, which Nebula before 1.10 understands and which is for IPv4 only.",
			},
			"key_file": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Absolute path of the file, readable by its owner only, that holds the private key and the certificate; `keys/nebula/NAME.key` in the provider's `data_dir` by default.",
			},
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "The key file. Nodes reference the CA by it.",
			},
			"certificate": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Certificate in PEM.",
			},
			"fingerprint": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "SHA-256 of the certificate in hexadecimal.",
			},
			"not_before": schema.StringAttribute{
				Computed:            true,
				CustomType:          timetypes.RFC3339Type{},
				PlanModifiers:       keep,
				MarkdownDescription: "Start of the certificate's validity, RFC 3339.",
			},
			"not_after": schema.StringAttribute{
				Computed:            true,
				CustomType:          timetypes.RFC3339Type{},
				PlanModifiers:       keep,
				MarkdownDescription: "End of the certificate's validity, RFC 3339.",
			},
		},
	}
}

func (r *nebulaCAResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *nebulaCAResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model nebulaCAModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if file := model.KeyFile.ValueString(); file != "" && !filepath.IsAbs(file) {
		resp.Diagnostics.AddAttributeError(path.Root("key_file"), "Invalid Key File", "key_file is \""+file+"\"; it must be an absolute path.")
	}
}

func (r *nebulaCAResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.data == nil {
		return
	}
	var model nebulaCAModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.KeyFile.IsUnknown() && !model.Name.IsUnknown() {
		model.KeyFile = types.StringValue(nebula.KeyFile(r.data.dataDir, model.Name.ValueString()))
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("key_file"), model.KeyFile)...)
	}
	if req.Config.Raw.IsFullyKnown() {
		spec, diags := model.spec(ctx)
		resp.Diagnostics.Append(diags...)
		addFieldError(&resp.Diagnostics, spec.Check())
	}
}

func (r *nebulaCAResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model nebulaCAModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	spec, diags := model.spec(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if model.KeyFile.IsUnknown() {
		model.KeyFile = types.StringValue(nebula.KeyFile(r.data.dataDir, spec.Name))
	}
	ca, err := nebula.MakeCA(spec, model.KeyFile.ValueString(), time.Now())
	if addFieldError(&resp.Diagnostics, err) {
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Create", "Nebula CA", spec.Name, err, "Check that the folder of key_file can be written.")
		return
	}
	resp.Diagnostics.Append(model.set(ctx, ca)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *nebulaCAResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model nebulaCAModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	ca, err := nebula.LoadCA(model.KeyFile.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		resp.Diagnostics.AddWarning("Nebula CA Is Gone", "The key file "+model.KeyFile.ValueString()+" was removed, so this CA can sign nothing any more. "+
			"The next apply makes a new CA and gives all its nodes new certificates; to keep this one, put the file back first.")
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "Nebula CA", model.Name.ValueString(), err, "Put back the file as the provider made it, or remove it to get a new CA.")
		return
	}
	resp.Diagnostics.Append(model.set(ctx, ca)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Update has nothing to do: each change that matters makes a new CA.
func (r *nebulaCAResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (r *nebulaCAResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model nebulaCAModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := nebula.RemoveCA(r.data.dataDir, model.KeyFile.ValueString()); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Nebula CA", model.Name.ValueString(), err, "Remove the file by hand.")
	}
}

// ImportState takes the path of a key file, or the name of a CA whose key is
// at the default place.
func (r *nebulaCAResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("key_file"), nebulaKeyFile(r.data, req.ID))...)
}

// nebulaKeyFile returns the key file of the CA with an id, or with a name if
// its key is at the default place.
func nebulaKeyFile(data *providerData, ca string) string {
	if filepath.IsAbs(ca) {
		return ca
	}
	return nebula.KeyFile(data.dataDir, ca)
}
