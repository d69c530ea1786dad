package provider

import (
	"context"
	"errors"
	"io/fs"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/clusterlink"
)

var (
	_ resource.ResourceWithConfigure   = (*clusterlinkFabricResource)(nil)
	_ resource.ResourceWithImportState = (*clusterlinkFabricResource)(nil)
)

type clusterlinkFabricResource struct {
	data *providerData
}

func newClusterlinkFabricResource() resource.Resource { return &clusterlinkFabricResource{} }

type clusterlinkFabricModel struct {
	Name        types.String      `tfsdk:"name"`
	ID          types.String      `tfsdk:"id"`
	Certificate types.String      `tfsdk:"certificate"`
	Fingerprint types.String      `tfsdk:"fingerprint"`
	NotAfter    timetypes.RFC3339 `tfsdk:"not_after"`
}

func (m *clusterlinkFabricModel) set(status clusterlink.FabricStatus) {
	m.ID = types.StringValue(status.ID())
	m.Certificate = types.StringValue(status.Certificate)
	m.Fingerprint = types.StringValue(status.Fingerprint)
	m.NotAfter = timetypes.NewRFC3339TimeValue(status.Expires.UTC())
}

func (r *clusterlinkFabricResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_clusterlink_fabric"
}

func (r *clusterlinkFabricResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Makes the certificate authority of a ClusterLink fabric on the machine that Terraform runs on. Its private key stays in a file there, `keys/clusterlink/NAME/key.pem` in the provider's `data_dir`, and is in no state and on no cluster.",
		Attributes: map[string]schema.Attribute{
			"name": nameAttribute("Name of the fabric, which is the common name of its certificate."),
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       keep,
				MarkdownDescription: "Name and certificate of the fabric in short. Peers that reference the fabric by it rather than by its name get new certificates in the same apply when the fabric is made anew.",
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
			"not_after": schema.StringAttribute{
				Computed:            true,
				CustomType:          timetypes.RFC3339Type{},
				PlanModifiers:       keep,
				MarkdownDescription: "End of the certificate's validity, RFC 3339.",
			},
		},
	}
}

func (r *clusterlinkFabricResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *clusterlinkFabricResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model clusterlinkFabricModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	fabric, err := clusterlink.CreateFabric(ctx, r.data.dataDir, model.Name.ValueString())
	if err != nil {
		addFailure(&resp.Diagnostics, "Create", "ClusterLink Fabric", model.Name.ValueString(), err, "Check that the provider's data_dir can be written.")
		return
	}
	model.set(fabric.FabricStatus)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (r *clusterlinkFabricResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model clusterlinkFabricModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	fabric, err := clusterlink.OpenFabric(r.data.dataDir, model.Name.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "ClusterLink Fabric", model.Name.ValueString(), err, "Put back the files as the provider made them, or remove their folder to get a new fabric.")
		return
	}
	model.set(fabric.FabricStatus)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// Update has nothing to do: another name is another fabric.
func (r *clusterlinkFabricResource) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

func (r *clusterlinkFabricResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model clusterlinkFabricModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := clusterlink.RemoveFabric(r.data.dataDir, model.Name.ValueString()); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "ClusterLink Fabric", model.Name.ValueString(), err, "Remove the folder by hand.")
	}
}

// ImportState takes the name of a fabric whose files are in the data folder.
func (r *clusterlinkFabricResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), req.ID)...)
}
