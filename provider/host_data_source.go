package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
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
	URL          types.String         `tfsdk:"url"`
	Hostname     types.String         `tfsdk:"hostname"`
	OS           types.String         `tfsdk:"os"`
	Distribution types.String         `tfsdk:"distribution"`
	Arch         types.String         `tfsdk:"arch"`
	Userland     types.String         `tfsdk:"userland"`
	Kernel       types.String         `tfsdk:"kernel"`
	CPUs         types.Int64          `tfsdk:"cpus"`
	Memory       types.Int64          `tfsdk:"memory"`
	FreeDisk     types.Int64          `tfsdk:"free_disk"`
	Cgroup       types.Int64          `tfsdk:"cgroup"`
	Controllers  []types.String       `tfsdk:"cgroup_controllers"`
	Init         types.String         `tfsdk:"init"`
	Tun          types.Bool           `tfsdk:"tun"`
	Netem        types.Bool           `tfsdk:"netem"`
	IFB          types.Bool           `tfsdk:"ifb"`
	ClockOffset  timetypes.GoDuration `tfsdk:"clock_offset"`
	TCPPorts     []types.Int64        `tfsdk:"tcp_ports"`
	UDPPorts     []types.Int64        `tfsdk:"udp_ports"`
}

func (m *hostDataModel) set(facts host.Facts) {
	m.Hostname = types.StringValue(facts.Hostname)
	m.OS = types.StringValue(facts.OS)
	m.Distribution = types.StringValue(facts.Distribution)
	m.Arch = types.StringValue(facts.Arch)
	m.Userland = types.StringValue(facts.Userland)
	m.Kernel = types.StringValue(facts.Kernel)
	m.CPUs = types.Int64Value(int64(facts.CPUs))
	m.Memory = types.Int64Value(facts.Memory)
	m.FreeDisk = types.Int64Value(facts.FreeDisk)
	m.Cgroup = types.Int64Value(int64(facts.Cgroup))
	m.Init = types.StringValue(facts.Init)
	m.Tun = types.BoolValue(facts.Tun)
	m.Netem = types.BoolValue(facts.Netem)
	m.IFB = types.BoolValue(facts.IFB)
	m.ClockOffset = timetypes.NewGoDurationValue(facts.ClockOffset.Round(time.Millisecond))
	m.Controllers, m.TCPPorts, m.UDPPorts = []types.String{}, []types.Int64{}, []types.Int64{}
	for _, controller := range facts.Controllers {
		m.Controllers = append(m.Controllers, types.StringValue(controller))
	}
	for _, port := range facts.Ports {
		list := &m.TCPPorts
		if port.Protocol == "udp" {
			list = &m.UDPPorts
		}
		*list = append(*list, types.Int64Value(int64(port.Number)))
	}
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
				MarkdownDescription: "URL of the host, for example the `url` of a `testbed_local_host` or a `testbed_ssh_host`.",
			},
			"hostname": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What the host calls itself.",
			},
			"os": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Name of its distribution, for example `Debian GNU/Linux 12 (bookworm)`.",
			},
			"distribution": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Short name of its distribution, for example `debian`.",
			},
			"arch": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Architecture of its kernel as Go names it: `amd64`, `arm64` or `arm`.",
			},
			"userland": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Architecture of its programs; it differs from `arch` where a 64-bit kernel runs a 32-bit system, as on some Raspberry Pis.",
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
			"free_disk": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Space that is free below `/var/lib`, in bytes.",
			},
			"cgroup": schema.Int64Attribute{
				Computed:            true,
				MarkdownDescription: "Version of the control groups that carry the memory controller: `1` or `2`.",
			},
			"cgroup_controllers": schema.ListAttribute{
				ElementType: types.StringType, Computed: true,
				MarkdownDescription: "Controllers of control groups that are turned on, for example `memory`.",
			},
			"init": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "What keeps its services running: `systemd`, `openrc`, or the name of process 1.",
			},
			"tun": schema.BoolAttribute{
				Computed:            true,
				MarkdownDescription: "Whether TUN devices can be made, as an overlay needs them.",
			},
			"netem": schema.BoolAttribute{
				Computed:            true,
				MarkdownDescription: "Whether its kernel has `sch_netem`, as links between machines need it.",
			},
			"ifb": schema.BoolAttribute{
				Computed:            true,
				MarkdownDescription: "Whether its kernel has `ifb` devices, as shaping what arrives needs them.",
			},
			"clock_offset": schema.StringAttribute{
				Computed: true, CustomType: timetypes.GoDurationType{},
				MarkdownDescription: "How far its clock is ahead of this machine's, or behind when negative; exact to the time that asking takes.",
			},
			"tcp_ports": schema.ListAttribute{
				ElementType: types.Int64Type, Computed: true,
				MarkdownDescription: "TCP ports on which something listens.",
			},
			"udp_ports": schema.ListAttribute{
				ElementType: types.Int64Type, Computed: true,
				MarkdownDescription: "UDP ports on which something listens.",
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
		addFailure(&resp.Diagnostics, "Read", "Host", url, err, "Make the host first, for example as a testbed_local_host or a testbed_ssh_host whose url is used here.")
		return
	}
	model.set(facts)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
