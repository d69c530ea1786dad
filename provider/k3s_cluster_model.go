package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"sigs.k8s.io/yaml"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
)

type k3sClusterModel struct {
	Name         types.String         `tfsdk:"name"`
	Servers      types.List           `tfsdk:"servers"`
	Agents       types.List           `tfsdk:"agents"`
	Version      types.String         `tfsdk:"version"`
	Mirror       types.String         `tfsdk:"mirror"`
	Binary       types.Object         `tfsdk:"binary"`
	AirgapImages types.List           `tfsdk:"airgap_images"`
	Registries   jsontypes.Normalized `tfsdk:"registries"`
	ClusterCIDR  cidrtypes.IPv4Prefix `tfsdk:"cluster_cidr"`
	ServiceCIDR  cidrtypes.IPv4Prefix `tfsdk:"service_cidr"`
	TLSSANs      types.List           `tfsdk:"tls_sans"`
	Disable      types.List           `tfsdk:"disable"`
	Config       jsontypes.Normalized `tfsdk:"config"`
	Timeouts     timeouts.Value       `tfsdk:"timeouts"`

	ID                types.String `tfsdk:"id"`
	URL               types.String `tfsdk:"url"`
	APIEndpoint       types.String `tfsdk:"api_endpoint"`
	KubernetesVersion types.String `tfsdk:"kubernetes_version"`
	NodeNames         types.List   `tfsdk:"node_names"`
	StaleNodes        types.List   `tfsdk:"stale_nodes"`
	CASHA256          types.String `tfsdk:"ca_sha256"`
	ConfigYAML        types.String `tfsdk:"config_yaml"`
	BinarySHA256      types.String `tfsdk:"binary_sha256"`
	AirgapSHA256      types.List   `tfsdk:"airgap_sha256"`
}

type k3sNodeModel struct {
	Host      types.String        `tfsdk:"host"`
	NodeIP    iptypes.IPv4Address `tfsdk:"node_ip"`
	Interface types.String        `tfsdk:"interface"`
}

// k3sAgentModel is k3sNodeModel with a name.
type k3sAgentModel struct {
	Host      types.String        `tfsdk:"host"`
	NodeIP    iptypes.IPv4Address `tfsdk:"node_ip"`
	Interface types.String        `tfsdk:"interface"`
	Name      types.String        `tfsdk:"name"`
}

type k3sBinaryModel struct {
	Source types.String `tfsdk:"source"`
	SHA256 types.String `tfsdk:"sha256"`
}

var k3sNodeType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"host": types.StringType, "node_ip": iptypes.IPv4AddressType{}, "interface": types.StringType,
}}

var k3sAgentType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"host": types.StringType, "node_ip": iptypes.IPv4AddressType{}, "interface": types.StringType, "name": types.StringType,
}}

// server returns the one server. The list has one element by validation.
func (m *k3sClusterModel) server(ctx context.Context) (k3sNodeModel, diag.Diagnostics) {
	var servers []k3sNodeModel
	diags := m.Servers.ElementsAs(ctx, &servers, false)
	if len(servers) != 1 {
		return k3sNodeModel{}, diags
	}
	return servers[0], diags
}

// rendered reports whether all that config.yaml holds is known.
func (m *k3sClusterModel) rendered(ctx context.Context) bool {
	for _, value := range []attr.Value{m.Name, m.Servers, m.ClusterCIDR, m.ServiceCIDR, m.TLSSANs, m.Disable, m.Config} {
		raw, err := value.ToTerraformValue(ctx)
		if err != nil || !raw.IsFullyKnown() {
			return false
		}
	}
	return true
}

// spec returns the specification without its files.
func (m *k3sClusterModel) spec(ctx context.Context) (k3s.Spec, diag.Diagnostics) {
	server, diags := m.server(ctx)
	nodeIP, more := server.NodeIP.ValueIPv4Address()
	diags.Append(more...)
	pods, more := m.ClusterCIDR.ValueIPv4Prefix()
	diags.Append(more...)
	services, more := m.ServiceCIDR.ValueIPv4Prefix()
	diags.Append(more...)
	spec := k3s.Spec{
		Name:        m.Name.ValueString(),
		NodeIP:      nodeIP,
		Interface:   server.Interface.ValueString(),
		ClusterCIDR: pods,
		ServiceCIDR: services,
	}
	diags.Append(m.TLSSANs.ElementsAs(ctx, &spec.TLSSANs, false)...)
	diags.Append(m.Disable.ElementsAs(ctx, &spec.Disable, false)...)
	if !m.Config.IsNull() {
		diags.Append(m.Config.Unmarshal(&spec.Config)...)
	}
	if !m.Registries.IsNull() && !m.Registries.IsUnknown() {
		text, err := yaml.JSONToYAML([]byte(m.Registries.ValueString()))
		if err != nil {
			diags.AddAttributeError(path.Root("registries"), "Invalid Registries", err.Error()+".")
		}
		spec.Registries = string(text)
	}
	return spec, diags
}

// version returns the release that is to be installed, or "" for a binary.
func (m *k3sClusterModel) version() string {
	switch {
	case !m.Binary.IsNull():
		return ""
	case m.Version.IsNull():
		return k3s.DefaultVersion
	}
	return m.Version.ValueString()
}

// sources returns where the program and the image archives come from; for an
// empty arch only those that do not depend on it. ok is false when some are
// not known yet.
func (m *k3sClusterModel) sources(ctx context.Context, arch string) (binary artifact.Source, images []artifact.Source, ok bool, diags diag.Diagnostics) {
	if m.Binary.IsUnknown() || m.Version.IsUnknown() || m.Mirror.IsUnknown() || m.AirgapImages.IsUnknown() {
		return binary, nil, false, nil
	}
	var archive artifact.Source
	if version := m.version(); version == "" {
		var given k3sBinaryModel
		diags.Append(m.Binary.As(ctx, &given, objectAsEmpty)...)
		if given.Source.IsUnknown() || given.SHA256.IsUnknown() {
			return binary, nil, false, diags
		}
		binary = artifact.Source{Location: given.Source.ValueString(), SHA256: strings.ToLower(given.SHA256.ValueString())}
	} else if arch != "" {
		var err error
		downloads := k3s.Downloads
		if !m.Mirror.IsNull() {
			downloads = m.Mirror.ValueString()
		}
		if binary, archive, err = k3s.Release(downloads, version, arch); err != nil {
			diags.AddAttributeError(path.Root("version"), "Unable to Find k3s Release", err.Error()+". Give a program that you built as `binary`.")
			return binary, nil, false, diags
		}
	}
	if m.AirgapImages.IsNull() {
		if archive.Location != "" {
			images = append(images, archive)
		}
		return binary, images, arch != "" || m.version() == "", diags
	}
	var locations []types.String
	diags.Append(m.AirgapImages.ElementsAs(ctx, &locations, false)...)
	for _, location := range locations {
		if location.IsUnknown() {
			return binary, nil, false, diags
		}
		images = append(images, artifact.Source{Location: location.ValueString()})
	}
	return binary, images, true, diags
}

// fetch gets the files for a host.
func (m *k3sClusterModel) fetch(ctx context.Context, cache *artifact.Cache, h host.Host) (binary artifact.File, images []artifact.File, diags diag.Diagnostics) {
	facts, err := h.Facts(ctx)
	if err != nil {
		addFailure(&diags, "Ask", "Host", h.URL(), err, "")
		return binary, nil, diags
	}
	program, archives, ok, diags := m.sources(ctx, facts.Arch)
	if diags.HasError() || !ok {
		return binary, nil, diags
	}
	if binary, err = cache.Fetch(ctx, program); err != nil {
		detail := fmt.Sprintf("The program of cluster %q: %s.", m.Name.ValueString(), err)
		var checksum *artifact.ChecksumError
		if !filepath.IsAbs(program.Location) && !errors.As(err, &checksum) {
			detail += "\n\nMachines without internet need binary and airgap_images, as files that lie on them."
		}
		diags.AddAttributeError(m.binaryPath(), "Unable to Get k3s", detail)
		return binary, nil, diags
	}
	for i, archive := range archives {
		at := path.Root("airgap_images")
		if !m.AirgapImages.IsNull() {
			at = at.AtListIndex(i)
		}
		file, err := cache.Fetch(ctx, archive)
		if err != nil {
			diags.AddAttributeError(at, "Unable to Get k3s Images", fmt.Sprintf("An image archive of cluster %q: %s.", m.Name.ValueString(), err))
			return binary, nil, diags
		}
		images = append(images, file)
	}
	return binary, images, diags
}

// checkPlanned refuses files that are not those that the plan was made for.
func (m *k3sClusterModel) checkPlanned(ctx context.Context, spec k3s.Spec, diags *diag.Diagnostics) {
	const summary = "File Changed Since Plan"
	if !m.BinarySHA256.IsUnknown() && m.BinarySHA256.ValueString() != spec.Binary.SHA256 {
		diags.AddAttributeError(m.binaryPath(), summary, spec.Binary.Path+" is not the program that the plan was made for. Plan and apply again.")
	}
	if planned := m.AirgapSHA256; !planned.IsUnknown() && !planned.Equal(k3sDigests(ctx, spec.AirgapImages, diags)) {
		diags.AddAttributeError(path.Root("airgap_images"), summary, "The image archives are not those that the plan was made for. Plan and apply again.")
	}
}

func k3sDigests(ctx context.Context, images []artifact.File, diags *diag.Diagnostics) types.List {
	digests := []string{}
	for _, image := range images {
		digests = append(digests, image.SHA256)
	}
	slices.Sort(digests)
	list, more := types.ListValueFrom(ctx, types.StringType, slices.Compact(digests))
	diags.Append(more...)
	return list
}

func (m *k3sClusterModel) binaryPath() path.Path {
	if m.Binary.IsNull() {
		return path.Root("version")
	}
	return path.Root("binary").AtName("source")
}

// inputPath is the attribute that a field of a node's specification comes from.
func (m *k3sClusterModel) inputPath(at path.Path, field string) path.Path {
	switch field {
	case "binary":
		return m.binaryPath()
	case "node_ip", "interface", "host":
		return at.AtName(field)
	case "name":
		if !at.Equal(path.Root("servers").AtListIndex(0)) {
			return at.AtName(field)
		}
	}
	return path.Root(field)
}

// locate sets what follows from the host alone.
func (m *k3sClusterModel) locate(hostURL string, nodeIP netip.Addr) {
	m.ID = types.StringValue("k3s+" + hostURL)
	m.URL = m.ID
	m.APIEndpoint = types.StringValue(fmt.Sprintf("https://%s:%d", nodeIP, k3s.APIPort))
}

// forget makes null what is only known once the cluster was observed.
func (m *k3sClusterModel) forget() {
	m.KubernetesVersion = types.StringNull()
	m.NodeNames = types.ListNull(types.StringType)
	m.StaleNodes = types.ListNull(types.StringType)
	m.CASHA256 = types.StringNull()
	m.ConfigYAML = types.StringNull()
	m.BinarySHA256 = types.StringNull()
	m.AirgapSHA256 = types.ListNull(types.StringType)
}

// setHost sets what was observed on the host.
func (m *k3sClusterModel) setHost(ctx context.Context, status k3s.NodeStatus) diag.Diagnostics {
	m.ConfigYAML = types.StringValue(status.ConfigYAML)
	m.BinarySHA256 = types.StringValue(status.BinarySHA256)
	var diags diag.Diagnostics
	m.AirgapSHA256, diags = types.ListValueFrom(ctx, types.StringType, slices.Compact(append([]string{}, status.Images...)))
	return diags
}

// set sets all that was observed.
func (m *k3sClusterModel) set(ctx context.Context, status k3s.Status) diag.Diagnostics {
	diags := m.setHost(ctx, status.NodeStatus)
	m.KubernetesVersion = types.StringValue(status.KubernetesVersion)
	m.CASHA256 = types.StringValue(status.CASHA256)
	names, _ := m.names(ctx)
	m.NodeNames = stringListValue(slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(status.Nodes, name) }))
	return diags
}

// adopt sets the inputs of an imported cluster from its configuration, and
// what to keep with the state. Where its files came from cannot be told.
func (m *k3sClusterModel) adopt(ctx context.Context, hosts host.Opener, hostURL string, status k3s.Status, applied *k3sApplied) diag.Diagnostics {
	var diags diag.Diagnostics
	spec, err := k3s.ParseConfig(status.ConfigYAML)
	if err != nil {
		diags.AddError("Unable to Import Cluster", err.Error()+". Import a cluster that this provider made.")
		return diags
	}
	m.Name = types.StringValue(spec.Name)
	m.ClusterCIDR = cidrtypes.NewIPv4PrefixValue(spec.ClusterCIDR.String())
	m.ServiceCIDR = cidrtypes.NewIPv4PrefixValue(spec.ServiceCIDR.String())
	server := k3sNodeModel{Host: types.StringValue(hostURL), NodeIP: iptypes.NewIPv4AddressValue(spec.NodeIP.String())}
	if spec.Interface != "" {
		server.Interface = types.StringValue(spec.Interface)
	}
	list := func(to *types.List, of attr.Type, from any) {
		var more diag.Diagnostics
		*to, more = types.ListValueFrom(ctx, of, from)
		diags.Append(more...)
	}
	list(&m.Servers, k3sNodeType, []k3sNodeModel{server})
	list(&m.Disable, types.StringType, append([]string{}, spec.Disable...))
	if len(spec.TLSSANs) > 0 {
		list(&m.TLSSANs, types.StringType, spec.TLSSANs)
	}
	if len(spec.Config) > 0 {
		text, err := json.Marshal(spec.Config)
		if err != nil {
			diags.AddError("Unable to Import Cluster", err.Error())
		}
		m.Config = jsontypes.NewNormalizedValue(string(text))
	}
	m.locate(hostURL, spec.NodeIP)
	if applied.Registries = status.Registries; status.Registries != "" {
		text, err := yaml.YAMLToJSON([]byte(status.Registries))
		if err != nil {
			diags.AddError("Unable to Import Cluster", fmt.Sprintf("Its registries.yaml: %s.", err))
		}
		m.Registries = jsontypes.NewNormalizedValue(string(text))
	}
	diags.Append(m.adoptAgents(ctx, hosts, hostURL, applied)...)
	return diags
}
