package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
)

var (
	_ resource.ResourceWithConfigure      = (*k3sClusterResource)(nil)
	_ resource.ResourceWithValidateConfig = (*k3sClusterResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*k3sClusterResource)(nil)
	_ resource.ResourceWithImportState    = (*k3sClusterResource)(nil)
)

const (
	k3sApplyTimeout  = 15 * time.Minute
	k3sReadTimeout   = time.Minute
	k3sDeleteTimeout = 5 * time.Minute

	k3sAppliedKey = "applied"
)

var objectAsEmpty = basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}

type k3sClusterResource struct {
	data      *providerData
	hosts     host.Opener
	artifacts *artifact.Cache
}

func newK3sClusterResource() resource.Resource { return &k3sClusterResource{} }

func (r *k3sClusterResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_k3s_cluster"
}

func (r *k3sClusterResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	stable := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	location := stringvalidator.RegexMatches(regexp.MustCompile(`^(/|https?://)`), "must be an absolute path on this machine or an http(s) URL")
	node := func(modifiers ...planmodifier.String) map[string]schema.Attribute {
		return map[string]schema.Attribute{
			"host": schema.StringAttribute{
				Optional:            true,
				PlanModifiers:       modifiers,
				MarkdownDescription: "URL of the host, for example the `url` of a `testbed_local_host`; needed.",
			},
			"node_ip": schema.StringAttribute{
				Optional:            true,
				CustomType:          iptypes.IPv4AddressType{},
				PlanModifiers:       modifiers,
				MarkdownDescription: "Address of the host that the cluster uses, for example its address in the Nebula overlay; needed.",
			},
			"interface": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Network interface between nodes, for example the Nebula device; pods get an MTU 50 bytes below its own. By default k3s takes the one of the default route.",
			},
		}
	}
	agent := node()
	agent["name"] = schema.StringAttribute{
		Optional:            true,
		Validators:          []validator.String{dnsLabelValidator()},
		MarkdownDescription: "Name of the node; by default the cluster's name and that of the host, for example `edge-pi2` for `local://pi2` and `edge-192-0-2-7` for `ssh://192.0.2.7`.",
	}
	disabled := []string{"metrics-server", "servicelb", "traefik"}
	elements := []attr.Value{}
	for _, component := range disabled {
		elements = append(elements, types.StringValue(component))
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Installs k3s on hosts and waits until its cluster works: the services run, the API server is ready, the nodes are Ready and CoreDNS is available. " +
			"Agents join and leave in place; the program, image archives and configuration change in place too: k3s restarts and the pods stay. " +
			"The token is made on the server and goes from there to the agents only; `testbed_kubeconfig` gives the credentials to other providers without storing them.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:      true,
				PlanModifiers: replace,
				Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`),
					"must be at most 63 small letters, digits and hyphens, and begin and end with a letter or a digit")},
				MarkdownDescription: "Name of the cluster, which is also the name of its server's node.",
			},
			"servers": schema.ListNestedAttribute{
				Required:            true,
				Validators:          []validator.List{listvalidator.SizeBetween(1, 1)},
				NestedObject:        schema.NestedAttributeObject{Validators: []validator.Object{needed{"host", "node_ip"}}, Attributes: node(replace...)},
				MarkdownDescription: "The cluster's servers, exactly one for now. A server is also a node.",
			},
			"agents": schema.ListNestedAttribute{
				Optional:     true,
				NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"host", "node_ip"}}, Attributes: agent},
				MarkdownDescription: "Further nodes, with the program, image archives and registries of the server and with those keys of `config` that agents have. " +
					"They join and leave while the cluster runs; the pods of one that leaves move to other nodes first. One that was changed on its host is left out of the state, and joins again by the next apply. " +
					"Images that other resources loaded into the nodes are not on an agent that joins later.",
			},
			"registries": schema.StringAttribute{
				Optional:            true,
				CustomType:          jsontypes.NormalizedType{},
				MarkdownDescription: "Registry mirrors of all nodes, as a JSON object with what k3s's `registries.yaml` holds, for example `jsonencode({ mirrors = { \"docker.io\" = { endpoint = [\"http://192.0.2.1:5000\"] } } })`. It must not hold credentials, which would enter the state.",
			},
			"version": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^v\d+\.\d+\.\d+(-rc\d+)?\+k3s\d+$`), "must be a k3s release, for example \""+k3s.DefaultVersion+"\"")},
				MarkdownDescription: "Release of k3s to download, checked by its checksum file; `" + k3s.DefaultVersion + "` by default. Upgrades happen in place; do not skip a minor version.",
			},
			"mirror": schema.StringAttribute{
				Optional:            true,
				Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^https?://.+`), "must be an http(s) URL")},
				MarkdownDescription: "URL below which releases lie as on GitHub, `VERSION/FILE`, with their checksum files; `" + k3s.Downloads + "` by default. Each node gets the program and images of its own architecture.",
			},
			"binary": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "A k3s program to install instead of a release, for machines without internet.",
				Attributes: map[string]schema.Attribute{
					"source": schema.StringAttribute{
						Required:            true,
						Validators:          []validator.String{location},
						MarkdownDescription: "Absolute path on this machine, or http(s) URL.",
					},
					"sha256": schema.StringAttribute{
						Optional:            true,
						Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[0-9a-fA-F]{64}$`), "must be a SHA-256 in 64 hexadecimal digits")},
						MarkdownDescription: "SHA-256 that the program must have, in hexadecimal.",
					},
				},
			},
			"airgap_images": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				Validators:          []validator.List{listvalidator.ValueStringsAre(location)},
				MarkdownDescription: "Archives of container images that the nodes import, so that they need no registry: absolute paths on this machine, or http(s) URLs. By default the air-gap archive of the release when k3s is downloaded, and none with `binary`.",
			},
			"cluster_cidr": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				CustomType:          cidrtypes.IPv4PrefixType{},
				Default:             stringdefault.StaticString("10.42.0.0/16"),
				PlanModifiers:       replace,
				MarkdownDescription: "Addresses of pods; `10.42.0.0/16` by default. Clusters that talk to each other need different ones.",
			},
			"service_cidr": schema.StringAttribute{
				Optional:            true,
				Computed:            true,
				CustomType:          cidrtypes.IPv4PrefixType{},
				Default:             stringdefault.StaticString("10.43.0.0/16"),
				PlanModifiers:       replace,
				MarkdownDescription: "Addresses of services; `10.43.0.0/16` by default. Clusters that talk to each other need different ones.",
			},
			"tls_sans": schema.ListAttribute{
				Optional:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Further names and addresses in the API server's certificate. The node's name and address are always there.",
			},
			"disable": schema.ListAttribute{
				Optional:            true,
				Computed:            true,
				ElementType:         types.StringType,
				Default:             listdefault.StaticValue(types.ListValueMust(types.StringType, elements)),
				MarkdownDescription: "Packaged components to leave out; `[\"" + strings.Join(disabled, "\", \"") + "\"]` by default, which disturb measurements and are not needed for them.",
			},
			"config": schema.StringAttribute{
				Optional:            true,
				CustomType:          jsontypes.NormalizedType{},
				MarkdownDescription: "Further keys of k3s's `config.yaml`, as a JSON object, for example `jsonencode({ \"kubelet-arg\" = [\"max-pods=50\"] })`. A release on a machine with version 1 of control groups needs the kubelet argument `fail-cgroupv1=false`. Do not put secrets here.",
			},
			"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
				Create: true, CreateDescription: "How long the cluster may take to become ready; 15 minutes by default.",
				Update: true, UpdateDescription: "How long the cluster may take to become ready again; 15 minutes by default.",
				Delete: true, DeleteDescription: "How long the removal may take; 5 minutes by default.",
			}),
			"id": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       stable,
				MarkdownDescription: "The cluster's URL.",
			},
			"url": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       stable,
				MarkdownDescription: "URL by which other resources name the cluster, for example `k3s+local://edge`.",
			},
			"api_endpoint": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       stable,
				MarkdownDescription: "URL of the API server in the network of the nodes.",
			},
			"kubernetes_version": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Version that the node reports.",
			},
			"node_names": schema.ListAttribute{
				Computed:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Names of the nodes that the cluster has, of those that it is made of, sorted.",
			},
			"stale_nodes": schema.ListAttribute{
				Computed:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "Names of nodes whose `interface` was made anew after k3s started, which has lost its routes since. The next apply starts k3s again there, so it is empty after each apply.",
			},
			"ca_sha256": schema.StringAttribute{
				Computed:            true,
				PlanModifiers:       stable,
				MarkdownDescription: "SHA-256 fingerprint of the API server's CA certificate, in hexadecimal.",
			},
			"config_yaml": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Content of `/etc/rancher/k3s/config.yaml` on the server. A change made by hand shows up here and is undone by the next apply.",
			},
			"binary_sha256": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "SHA-256 of the k3s program on the server, in hexadecimal.",
			},
			"airgap_sha256": schema.ListAttribute{
				Computed:            true,
				ElementType:         types.StringType,
				MarkdownDescription: "SHA-256 of the image archives on the server, in hexadecimal, sorted.",
			},
		},
	}
}

func (r *k3sClusterResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	if data := configured(req.ProviderData, &resp.Diagnostics); data != nil {
		r.data, r.hosts, r.artifacts = data, data.hosts, data.artifacts
	}
}

func (r *k3sClusterResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model k3sClusterModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !model.Version.IsNull() && !model.Binary.IsNull() && !model.Binary.IsUnknown() {
		resp.Diagnostics.AddAttributeError(path.Root("version"), "Conflicting k3s Program",
			"The version follows from the program that binary names. Set version to download a release, or binary, but not both.")
	}
	model.validateNetworks(ctx, &resp.Diagnostics)
	model.validateNodes(ctx, &resp.Diagnostics)
	model.validateConfig(&resp.Diagnostics)
	model.validateRegistries(&resp.Diagnostics)
}

// validateNetworks checks that the networks are apart from each other and from
// the node.
func (m *k3sClusterModel) validateNetworks(ctx context.Context, diags *diag.Diagnostics) {
	const summary = "Invalid Cluster Network"
	prefix := func(name string, value cidrtypes.IPv4Prefix, byDefault string) (netip.Prefix, bool) {
		if value.IsUnknown() {
			return netip.Prefix{}, false
		}
		text := value.ValueString()
		if value.IsNull() {
			text = byDefault
		}
		parsed, err := netip.ParsePrefix(text)
		if err != nil {
			return netip.Prefix{}, false // reported by the type
		}
		if parsed != parsed.Masked() {
			diags.AddAttributeError(path.Root(name), summary, fmt.Sprintf("%s is the network %s written with a host's bits. Write %q.", text, parsed.Masked(), parsed.Masked()))
			return netip.Prefix{}, false
		}
		return parsed, true
	}
	pods, podsKnown := prefix("cluster_cidr", m.ClusterCIDR, "10.42.0.0/16")
	services, servicesKnown := prefix("service_cidr", m.ServiceCIDR, "10.43.0.0/16")
	if podsKnown && servicesKnown && pods.Overlaps(services) {
		diags.AddAttributeError(path.Root("service_cidr"), summary, fmt.Sprintf("service_cidr %s overlaps cluster_cidr %s. Choose networks that are apart.", services, pods))
	}
	for _, node := range m.nodes(ctx) {
		address, err := netip.ParseAddr(node.NodeIP.ValueString())
		if err != nil {
			continue // not known yet, or reported by the type
		}
		for name, network := range map[string]netip.Prefix{"cluster_cidr": pods, "service_cidr": services} {
			if network.Contains(address) {
				diags.AddAttributeError(node.at.AtName("node_ip"), summary,
					fmt.Sprintf("node_ip %s is inside %s %s. Choose a network for the cluster that the hosts do not use.", address, name, network))
			}
		}
	}
}

// validateNodes checks that the nodes are different ones.
func (m *k3sClusterModel) validateNodes(ctx context.Context, diags *diag.Diagnostics) {
	seen := map[string]string{}
	for _, node := range m.nodes(ctx) {
		name, known := node.nodeName(m.Name.ValueString())
		if known && !dnsLabel.MatchString(name) {
			diags.AddAttributeError(node.at, "Invalid Node Name", fmt.Sprintf("The node would be called %q, which is too long. Give it a name.", name))
		}
		for what, value := range map[string]string{"host": node.Host.ValueString(), "node_ip": node.NodeIP.ValueString(), "name": name} {
			if value == "" || what == "name" && (!known || m.Name.IsUnknown()) {
				continue
			}
			if other, ok := seen[what+" "+value]; ok {
				diags.AddAttributeError(node.at, "Node Given Twice", fmt.Sprintf("The %s %q is that of %s already. A host is one node of one cluster.", what, value, other))
			}
			seen[what+" "+value] = node.at.String()
		}
	}
}

// validateRegistries checks that the registries are an object without
// credentials.
func (m *k3sClusterModel) validateRegistries(diags *diag.Diagnostics) {
	if m.Registries.IsNull() || m.Registries.IsUnknown() {
		return
	}
	at := path.Root("registries")
	var registries struct {
		Mirrors map[string]any            `json:"mirrors"`
		Configs map[string]map[string]any `json:"configs"`
	}
	decoder := json.NewDecoder(strings.NewReader(m.Registries.ValueString()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&registries); err != nil {
		diags.AddAttributeError(at, "Invalid Registries", fmt.Sprintf("registries must be a JSON object with mirrors and configs, for example jsonencode({ mirrors = { \"docker.io\" = { endpoint = [\"http://192.0.2.1:5000\"] } } }): %s.", err))
		return
	}
	for name, config := range registries.Configs {
		if _, ok := config["auth"]; ok {
			diags.AddAttributeError(at, "Invalid Registries",
				fmt.Sprintf("registries has credentials for %q, which would enter the state. Take them out, and use a registry that needs none or airgap_images.", name))
		}
	}
}

// validateConfig checks that the further configuration leaves alone what the
// resource manages.
func (m *k3sClusterModel) validateConfig(diags *diag.Diagnostics) {
	if m.Config.IsNull() || m.Config.IsUnknown() {
		return
	}
	at := path.Root("config")
	var config map[string]any
	if err := json.Unmarshal([]byte(m.Config.ValueString()), &config); err != nil {
		diags.AddAttributeError(at, "Invalid k3s Configuration", "config must be a JSON object of keys of config.yaml, for example jsonencode({ \"kubelet-arg\" = [\"max-pods=50\"] }).")
		return
	}
	reserved := k3s.Reserved()
	for key := range config {
		if reason, ok := reserved[strings.TrimSuffix(key, "+")]; ok {
			diags.AddAttributeError(at, "Invalid k3s Configuration", fmt.Sprintf("config cannot set %q: %s. Remove it.", key, reason))
		}
	}
}

// ModifyPlan plans what will be on the host, so that what was changed there by
// hand is planned to be undone.
func (r *k3sClusterResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.artifacts == nil {
		return
	}
	var plan, state k3sClusterModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	exists := !req.State.Raw.IsNull()
	if exists {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	applied := r.applied(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.ConfigYAML = types.StringUnknown()
	if plan.rendered(ctx) {
		spec, diags := plan.spec(ctx)
		resp.Diagnostics.Append(diags...)
		if text, err := spec.ConfigYAML(); err == nil {
			plan.ConfigYAML = types.StringValue(text)
		}
	}
	plan.BinarySHA256, plan.AirgapSHA256 = r.plannedDigests(ctx, plan, state, applied, &resp.Diagnostics)
	plan.KubernetesVersion = types.StringUnknown()
	if exists && plan.BinarySHA256.Equal(state.BinarySHA256) && !state.KubernetesVersion.IsNull() {
		plan.KubernetesVersion = state.KubernetesVersion
	}
	plan.NodeNames = types.ListUnknown(types.StringType)
	if names, known := plan.names(ctx); known && plan.agentsAre(ctx, applied) {
		plan.NodeNames = stringListValue(names)
	}
	plan.StaleNodes = stringListValue(nil)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// plannedDigests tells which files will be on the host: those whose source can
// be read here, or that a checksum names, or those that were applied last when
// the source is the same.
func (r *k3sClusterResource) plannedDigests(ctx context.Context, plan, state k3sClusterModel, applied k3sApplied, diags *diag.Diagnostics) (types.String, types.List) {
	binary, images, known, more := plan.sources(ctx, "")
	diags.Append(more...)

	digest := types.StringUnknown()
	sameSource := plan.Binary.Equal(state.Binary) && plan.version() == applied.Version
	if found, ok := r.artifacts.Known(binary); known && ok {
		digest = types.StringValue(found)
	} else if binary.SHA256 != "" {
		digest = types.StringValue(binary.SHA256)
	} else if sameSource && applied.Binary != "" {
		digest = types.StringValue(applied.Binary)
	}

	var files []artifact.File
	for _, image := range images {
		found, ok := r.artifacts.Known(image)
		known = known && ok
		files = append(files, artifact.File{SHA256: found})
	}
	switch {
	case known:
		return digest, k3sDigests(ctx, files, diags)
	case sameSource && applied.Binary != "" && plan.AirgapImages.Equal(state.AirgapImages):
		list, more := types.ListValueFrom(ctx, types.StringType, applied.Images)
		diags.Append(more...)
		return digest, list
	}
	return digest, types.ListUnknown(types.StringType)
}

// privateState is what holds values for the provider's eyes only.
type privateState interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

func (r *k3sClusterResource) applied(ctx context.Context, private privateState, diags *diag.Diagnostics) k3sApplied {
	var applied k3sApplied
	content, more := private.GetKey(ctx, k3sAppliedKey)
	diags.Append(more...)
	if len(content) > 0 {
		if err := json.Unmarshal(content, &applied); err != nil {
			diags.AddError("Unable to Read Private State", err.Error()+". This is a bug in the provider; please report it.")
		}
	}
	return applied
}

func (r *k3sClusterResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan k3sClusterModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Create(ctx, k3sApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	work := r.prepare(ctx, &plan, k3sApplied{}, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	begun := plan
	begun.forget()
	resp.Diagnostics.Append(resp.State.Set(ctx, &begun)...)
	resp.Diagnostics.Append(work.begun.save(ctx, resp.Private)...)
	touched := work.server(ctx, "Create", &resp.Diagnostics)
	if !touched {
		resp.State.RemoveResource(ctx)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	applied := work.agents(ctx, "Create", &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(applied.save(ctx, resp.Private)...)
}

// prepare gets all that the hosts need without touching them.
func (r *k3sClusterResource) prepare(ctx context.Context, plan *k3sClusterModel, before k3sApplied, diags *diag.Diagnostics) *k3sWork {
	spec, more := plan.spec(ctx)
	diags.Append(more...)
	work := &k3sWork{hosts: r.hosts, plan: plan, spec: spec, before: before}
	for i, node := range plan.nodes(ctx) {
		h, err := r.hosts.Open(ctx, node.Host.ValueString())
		if err != nil {
			diags.AddAttributeError(node.at.AtName("host"), "Unable to Reach Host",
				fmt.Sprintf("A node of cluster %q: %s.\n\nUse the url of a testbed_local_host, so that the host is made first.", spec.Name, err))
			return work
		}
		binary, images, more := plan.fetch(ctx, r.artifacts, h)
		diags.Append(more...)
		if more.HasError() {
			return work
		}
		if i == 0 {
			plan.locate(node.Host.ValueString(), spec.NodeIP)
			work.spec.Binary, work.spec.AirgapImages = binary, images
			plan.checkPlanned(ctx, work.spec, diags)
			work.host = h
			continue
		}
		agent, more := plan.agent(node, work.spec)
		diags.Append(more...)
		agent.Binary, agent.AirgapImages = binary, images
		work.joining = append(work.joining, k3sJoining{at: node.at, host: h, agent: agent})
	}
	work.begin()
	return work
}

func (r *k3sClusterResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state k3sClusterModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	applied := r.applied(ctx, req.Private, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k3sReadTimeout)
	defer cancel()
	hostURL := strings.TrimPrefix(state.ID.ValueString(), "k3s+")
	var status k3s.Status
	h, err := r.hosts.Open(ctx, hostURL)
	if err == nil {
		status, err = k3s.Observe(ctx, h)
	}
	imported := state.Name.IsNull()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		resp.State.RemoveResource(ctx)
		return
	case err != nil && !imported && state.drifted(status):
		// The files on the host are the likely cause, and apply mends them.
		resp.Diagnostics.AddWarning("Cluster Does Not Answer", fmt.Sprintf("Cluster %q: %s.\n\nIts files were changed on %s. The next apply restores them.", hostURL, err, hostURL))
		resp.Diagnostics.Append(state.setHost(ctx, status.NodeStatus)...)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return
	case err != nil && !imported && r.data.leave(&resp.Diagnostics, hostURL, err):
		return
	case err != nil:
		addFailure(&resp.Diagnostics, "Read", "Cluster", hostURL, err, "Look at the log of the service k3s on the host. A cluster that cannot be asked is not taken for removed.")
		return
	}
	if imported {
		resp.Diagnostics.Append(state.adopt(ctx, r.hosts, hostURL, status, &applied)...)
		resp.Diagnostics.Append(applied.save(ctx, resp.Private)...)
	} else if status.Registries != applied.Registries {
		state.Registries = jsontypes.NewNormalizedNull()
	}
	stale := state.readAgents(ctx, r.data, applied, &resp.Diagnostics)
	if status.Stale {
		stale = append(stale, state.Name.ValueString())
	}
	resp.Diagnostics.Append(state.set(ctx, status)...)
	slices.Sort(stale)
	state.StaleNodes = stringListValue(stale)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	}
}

// drifted reports whether the files that were found on the host are not those
// of the state. Nothing found says nothing.
func (m *k3sClusterModel) drifted(status k3s.Status) bool {
	return status.ConfigYAML != "" && status.ConfigYAML != m.ConfigYAML.ValueString() ||
		status.BinarySHA256 != "" && status.BinarySHA256 != m.BinarySHA256.ValueString()
}

func (r *k3sClusterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan k3sClusterModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, diags := plan.Timeouts.Update(ctx, k3sApplyTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	work := r.prepare(ctx, &plan, r.applied(ctx, req.Private, &resp.Diagnostics), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(work.begun.save(ctx, resp.Private)...)
	work.server(ctx, "Update", &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	applied := work.agents(ctx, "Update", &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	resp.Diagnostics.Append(applied.save(ctx, resp.Private)...)
}

func (r *k3sClusterResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state k3sClusterModel
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, diags := state.Timeouts.Delete(ctx, k3sDeleteTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	applied := r.applied(ctx, req.Private, &resp.Diagnostics)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := removeAgents(ctx, r.data, state.Name.ValueString(), applied, &resp.Diagnostics)
	if err == nil {
		hostURL := strings.TrimPrefix(state.ID.ValueString(), "k3s+")
		var h host.Host
		h, err = r.hosts.Open(ctx, hostURL)
		if err == nil {
			err = k3s.Remove(ctx, h, state.Name.ValueString())
		}
		if err != nil && r.data.leave(&resp.Diagnostics, hostURL, err) {
			return
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		addFailure(&resp.Diagnostics, "Delete", "Cluster", state.Name.ValueString(), err, "Destroy again; what is removed already is passed over.")
	}
}

func (r *k3sClusterResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	id := "k3s+" + strings.TrimPrefix(req.ID, "k3s+")
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
}
