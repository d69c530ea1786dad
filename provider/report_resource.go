package provider

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report"
)

var _ resource.ResourceWithModifyPlan = (*reportResource)(nil)

type reportResource struct{}

func newReportResource() resource.Resource { return &reportResource{} }

type reportModel struct {
	Runs       types.List   `tfsdk:"runs"`
	OutputDir  types.String `tfsdk:"output_dir"`
	Title      types.String `tfsdk:"title"`
	Formats    types.Set    `tfsdk:"formats"`
	ID         types.String `tfsdk:"id"`
	HTML       types.String `tfsdk:"html"`
	Files      types.Map    `tfsdk:"files"`
	SHA256     types.Map    `tfsdk:"sha256"`
	RunsSHA256 types.String `tfsdk:"runs_sha256"`
}

func (m *reportModel) spec(ctx context.Context) (folders []string, options report.Options, diags diag.Diagnostics) {
	diags.Append(m.Runs.ElementsAs(ctx, &folders, false)...)
	diags.Append(m.Formats.ElementsAs(ctx, &options.Formats, false)...)
	options.Title = m.Title.ValueString()
	return folders, options, diags
}

// set takes over what was written.
func (m *reportModel) set(ctx context.Context, files map[string][]byte, runsDigest string) diag.Diagnostics {
	var diags, more diag.Diagnostics
	paths := map[string]string{}
	for name := range files {
		paths[name] = filepath.Join(m.OutputDir.ValueString(), filepath.FromSlash(name))
	}
	m.ID = m.OutputDir
	m.HTML = types.StringNull()
	if page, ok := paths[report.Page]; ok {
		m.HTML = types.StringValue(page)
	}
	m.Files, more = types.MapValueFrom(ctx, types.StringType, paths)
	diags.Append(more...)
	m.SHA256, more = types.MapValueFrom(ctx, types.StringType, report.Digests(files))
	diags.Append(more...)
	m.RunsSHA256 = types.StringValue(runsDigest)
	return diags
}

func (r *reportResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_report"
}

func (r *reportResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	var names []string
	var all []attr.Value
	for _, format := range report.Formats() {
		names = append(names, string(format))
		all = append(all, types.StringValue(string(format)))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Makes a report of one or more runs: a page that needs nothing but itself, figures and tables for a paper, and the samples for benchstat. " +
			"It is made again when the runs change or a file of it does. Import has no meaning for it, since it is made from the runs at any time.",
		Attributes: map[string]schema.Attribute{
			"runs": schema.ListAttribute{
				Required: true, ElementType: types.StringType,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.UniqueValues()},
				MarkdownDescription: "Folders of the runs: the `results_folder` of a `testbed_benchmark_run`, or one that was archived. Later runs are compared with the first one; runs over different link emulators are refused.",
			},
			"output_dir": schema.StringAttribute{
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^/`), "it must be an absolute path, for example \"/srv/report\" or abspath(\"report\")")},
				MarkdownDescription: "Absolute path of the folder on this machine that the report is written to. Files of the same names are overwritten; others stay.",
			},
			"title": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Title of the page; the names of the runs by default.",
			},
			"formats": schema.SetAttribute{
				Optional: true, Computed: true, ElementType: types.StringType,
				Default:             setdefault.StaticValue(types.SetValueMust(types.StringType, all)),
				Validators:          []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf(names...))},
				MarkdownDescription: "What to make: `html` is the page, `svg` and `png` are the figures, `csv` and `latex` (with booktabs) the tables, `markdown` is one page of what was found for a README or a wiki, `benchstat` is every request in the text format of Go benchmarks; all by default.",
			},
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				MarkdownDescription: "The folder of the report.",
			},
			"html": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Path of the page; null when `formats` leaves it out.",
			},
			"files": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Path of each file by its name within the report, for example `figures/response-time-hello-world.svg`.",
			},
			"sha256": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "SHA-256 of each file in hexadecimal, by the same names.",
			},
			"runs_sha256": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "SHA-256 of what the runs' folders held, in hexadecimal.",
			},
		},
	}
}

// ModifyPlan plans to make the report again when a file of it is not as it was
// written, or when a run's folder holds something else. A run whose folder is
// gone leaves the report as it is: it may be all that is left.
func (r *reportResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var state, plan reportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	digests := map[string]string{}
	resp.Diagnostics.Append(state.SHA256.ElementsAs(ctx, &digests, false)...)
	folders, _, diags := state.spec(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	current, err := report.Digest(folders)
	changed := err == nil && current != state.RunsSHA256.ValueString()
	if !changed && report.Intact(state.OutputDir.ValueString(), digests) {
		return
	}
	plan.HTML, plan.RunsSHA256 = types.StringUnknown(), types.StringUnknown()
	plan.Files, plan.SHA256 = types.MapUnknown(types.StringType), types.MapUnknown(types.StringType)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

func (r *reportResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model reportModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.apply(ctx, &model, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	}
}

// apply writes the report, and the model as the report is.
func (r *reportResource) apply(ctx context.Context, model *reportModel, diags *diag.Diagnostics) {
	folders, options, more := model.spec(ctx)
	diags.Append(more...)
	if diags.HasError() {
		return
	}
	digest, err := report.Digest(folders)
	var files map[string][]byte
	if err == nil {
		files, err = report.Build(folders, options)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		diags.AddAttributeError(path.Root("runs"), "Missing Results", "Cannot "+err.Error()+". Use the results_folder of a testbed_benchmark_run, or the path of an archived folder with its two files.")
		return
	case errors.Is(err, report.ErrIncomparable):
		diags.AddAttributeError(path.Root("runs"), "Incomparable Runs", "Cannot make one report: "+err.Error()+".")
		return
	case err == nil:
		err = report.Write(model.OutputDir.ValueString(), files)
	}
	if err != nil {
		addFailure(diags, "Make", "Report", model.OutputDir.ValueString(), err, "")
		return
	}
	diags.Append(model.set(ctx, files, digest)...)
}

// Read leaves the state alone: ModifyPlan compares it with the files.
func (r *reportResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update makes the report again and removes the files that it has no more.
func (r *reportResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model, state reportModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.apply(ctx, &model, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	var stale []string
	for name := range state.Files.Elements() {
		if _, ok := model.Files.Elements()[name]; !ok {
			stale = append(stale, name)
		}
	}
	if err := report.Remove(model.OutputDir.ValueString(), stale); err != nil {
		addFailure(&resp.Diagnostics, "Update", "Report", model.ID.ValueString(), err, "Remove the file yourself; the report does not need it.")
	}
}

// Delete removes the files of the report and no others.
func (r *reportResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model reportModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := report.Remove(model.OutputDir.ValueString(), slices.Collect(maps.Keys(model.Files.Elements()))); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Report", model.ID.ValueString(), err, "")
	}
}
