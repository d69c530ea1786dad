// Package provider is the Terraform side of the testbed: schemas, models and
// diagnostics. What happens on machines is in the packages below internal.
package provider

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

var (
	_ provider.ProviderWithFunctions          = (*testbedProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*testbedProvider)(nil)
)

// defaultDataDir is where local hosts, networks and keys live unless the
// configuration names another folder.
const defaultDataDir = "/var/lib/testbed"

type testbedProvider struct {
	version string

	// machines, when set, are the hosts instead of those of the data folder.
	machines host.Opener

	// dial, when set, opens connections to hosts that are reached by SSH.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	// downloads, when set, gets files from URLs.
	downloads *http.Client

	// owner is the id by which hosts know who changes them. A provider that is
	// configured again, as one that a debugger or a test serves, is the same.
	owner     string
	ownerOnce sync.Once
}

// New returns the constructor of the provider for a released version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &testbedProvider{version: version} }
}

type testbedModel struct {
	DataDir types.String `tfsdk:"data_dir"`
	SSH     *sshModel    `tfsdk:"ssh"`
}

// providerData is what every resource gets from Configure.
type providerData struct {
	// dataDir is an absolute path.
	dataDir string
	version string
	local   *local.Opener
	ssh     *ssh.Opener

	// sshUnknown says that the ssh settings are not known yet, so that no host
	// is to be connected to.
	sshUnknown bool

	hosts    host.Opener
	overlay  *nebula.Overlay
	clusters *kube.Opener

	artifacts *artifact.Cache
	forwards  *forwards
}

func (p *testbedProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "testbed"
	resp.Version = p.version
}

func (p *testbedProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Builds edge-cloud testbeds, emulates their networks and measures response times over them.",
		Attributes: map[string]schema.Attribute{
			"data_dir": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Absolute path of the folder on this machine that holds local hosts, networks, keys and results; `" + defaultDataDir + "` by default. Two testbeds in different folders do not know of each other.",
			},
			"ssh": sshAttribute(),
		},
	}
}

func (p *testbedProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var model testbedModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	data := &providerData{dataDir: defaultDataDir, version: p.version, overlay: nebula.NewOverlay(time.Now)}
	if dir := model.DataDir.ValueString(); dir != "" {
		if !filepath.IsAbs(dir) {
			resp.Diagnostics.AddAttributeError(path.Root("data_dir"), "Invalid Data Folder",
				"data_dir is \""+dir+"\"; it must be an absolute path, for example \""+defaultDataDir+"\" or abspath(\"./testbed\").")
			return
		}
		data.dataDir = filepath.Clean(dir)
	}
	data.local = local.NewOpener(data.dataDir)
	settings, diags := model.SSH.config(data.dataDir)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	settings.Dial = p.dial
	p.ownerOnce.Do(func() { p.owner = settings.Owner.ID })
	settings.Owner.ID = p.owner
	data.ssh = ssh.NewOpener(settings)
	data.sshUnknown = model.SSH.unknown()
	data.hosts = host.Schemes{"local": data.local, "ssh": data.ssh}
	if p.machines != nil {
		data.hosts = p.machines
	}
	data.clusters = kube.NewOpener(data.hosts)
	data.artifacts = artifact.NewCache(filepath.Join(data.dataDir, "cache"))
	if p.downloads != nil {
		data.artifacts.Client = p.downloads
	}
	data.forwards = &forwards{}
	resp.ResourceData = data
	resp.DataSourceData = data
	resp.EphemeralResourceData = data
}

func (p *testbedProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newBenchmarkRunResource,
		newNetworkResource,
		newLocalHostResource,
		newNetemProfileResource,
		newLinkResource,
		newClusterlinkFabricResource,
		newClusterlinkPeerResource,
		newClusterlinkConnectionResource,
		newClusterlinkExportResource,
		newClusterlinkImportResource,
		newClusterlinkAccessPolicyResource,
		newFunctionResource,
		newGatewayPairResource,
		newK3sClusterResource,
		newKnativeResource,
		newNebulaCAResource,
		newNebulaLighthouseResource,
		newNebulaNodeResource,
		newReportResource,
		newSSHHostResource,
	}
}

func (p *testbedProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newHostDataSource,
	}
}

func (p *testbedProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		newKubeconfigEphemeralResource,
	}
}

func (p *testbedProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		newBandwidthDelayProductFunction,
		newBytesFunction,
		newPercentileFunction,
	}
}
