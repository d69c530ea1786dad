package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

var _ datasource.DataSourceWithConfigure = (*hostDataSource)(nil)

type hostDataSource struct {
	hosts host.Opener
}

func newHostDataSource() datasource.DataSource { return &hostDataSource{} }

type hostDataModel struct {
	URL      types.String `tfsdk:"url"`
	Hostname types.String `tfsdk:"hostname"`
	OS       types.String `tfsdk:"os"`
	Arch     types.String `tfsdk:"arch"`
	Kernel   types.String `tfsdk:"kernel"`
	CPUs     types.Int64  `tfsdk:"cpus"`
	Memory   types.Int64  `tfsdk:"memory"`
	Cgroup   types.Int64  `tfsdk:"cgroup"`
}

func (m *hostDataModel) set(facts host.Facts) {
	m.Hostname = types.StringValue(facts.Hostname)
	m.OS = types.StringValue(facts.OS)
	m.Arch = types.StringValue(facts.Arch)
	m.Kernel = types.StringValue(facts.Kernel)
	m.CPUs = types.Int64Value(int64(facts.CPUs))
	m.Memory = types.Int64Value(facts.Memory)
	m.Cgroup = types.Int64Value(int64(facts.Cgroup))
}

func (d *hostDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_host"
}

func (d *hostDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Tells what a host is, without changing anything on it.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "URL of the host, for example the `url` of a `testbed_local_host`.",
			},
			"hostname": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What the host calls itself.",
			},
			"os": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Name of its distribution, for example `Debian GNU/Linux 12 (bookworm)`.",
			},
			"arch": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Architecture as Go names it: `amd64`, `arm64` or `arm`.",
			},
			"kernel": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Release of its kernel, as `uname -r` prints it.",
			},
			"cpus": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Number of CPUs that it can use.",
			},
			"memory": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Size of its memory, in bytes.",
			},
			"cgroup": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Version of the control groups that carry the memory controller: `1` or `2`.",
			},
		},
	}
}

func (d *hostDataSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	if data := configured(req.ProviderData, &resp.Diagnostics); data != nil {
		d.hosts = data.hosts
	}
}

func (d *hostDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model hostDataModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	url := model.URL.ValueString()
	h, err := d.hosts.Open(ctx, url)
	var facts host.Facts
	if err == nil {
		facts, err = h.Facts(ctx)
	}
	if err != nil {
		addFailure(&resp.Diagnostics, "Read", "Host", url, err, "Make the host first, for example as a testbed_local_host whose url is used here.")
		return
	}
	model.set(facts)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
