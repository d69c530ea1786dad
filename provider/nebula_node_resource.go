package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

var (
	_ resource.ResourceWithConfigure   = (*nebulaNodeResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*nebulaNodeResource)(nil)
	_ resource.ResourceWithImportState = (*nebulaNodeResource)(nil)
	_ nebulaKind                       = (*nebulaNodeModel)(nil)
)

// nebulaTimeout is how long a node may take to come up or to go.
const nebulaTimeout = 2 * time.Minute

// nebulaNodeResource is both testbed_nebula_node and testbed_nebula_lighthouse,
// which differ in a few attributes only.
type nebulaNodeResource struct {
	data *providerData

	name    string // "node" or "lighthouse"
	about   string
	extra   func() map[string]schema.Attribute // of this kind only
	newKind func() nebulaKind
}

func newNebulaNodeResource() resource.Resource {
	return &nebulaNodeResource{
		name: "node",
		about: "Makes a host a node of the Nebula overlay: a key pair that is made on the host and whose private half never leaves it, a certificate for it, and the Nebula daemon as a service. " +
			"The node is ready when each lighthouse answers it over the overlay. Everything but `host` changes in place, one node at a time; the overlay device stays, except when `device`, `port` or `network` change.",
		extra:   nebulaNodeAttributes,
		newKind: func() nebulaKind { return &nebulaNodeModel{} },
	}
}

// nebulaNodeModel is a node that is no lighthouse.
type nebulaNodeModel struct {
	nebulaModel
	Lighthouses types.List `tfsdk:"lighthouses"`
}

type nebulaEndpointModel struct {
	Overlay  iptypes.IPAddress `tfsdk:"overlay"`
	Underlay types.String      `tfsdk:"underlay"`
}

var nebulaEndpointType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"overlay": iptypes.IPAddressType{}, "underlay": types.StringType,
}}

func nebulaNodeAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"lighthouses": schema.ListNestedAttribute{
			Required:            true,
			Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
			MarkdownDescription: "The lighthouses that tell this node where its peers are: the `endpoint` of a `testbed_nebula_lighthouse` each, or the addresses of one that is managed elsewhere.",
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"overlay", "underlay"}}, Attributes: map[string]schema.Attribute{
				"overlay": schema.StringAttribute{
					Optional:            true,
					CustomType:          iptypes.IPAddressType{},
					MarkdownDescription: "Overlay address; needed.",
				},
				"underlay": schema.StringAttribute{
					Optional:            true,
					MarkdownDescription: "Address or name, and port, in the underlay, for example `198.18.0.2:4242`; needed.",
				},
			}},
		},
	}
}

func (m *nebulaNodeModel) extra() []attr.Value { return []attr.Value{m.Lighthouses} }

func (m *nebulaNodeModel) extend(ctx context.Context, spec *nebula.Spec, diags *diag.Diagnostics) {
	var endpoints []nebulaEndpointModel
	diags.Append(m.Lighthouses.ElementsAs(ctx, &endpoints, false)...)
	for _, endpoint := range endpoints {
		spec.Lighthouses = append(spec.Lighthouses, nebula.Lighthouse{
			Overlay: addressOf(endpoint.Overlay, diags), Underlay: endpoint.Underlay.ValueString(),
		})
	}
}

func (m *nebulaNodeModel) derive() {}

func (m *nebulaNodeModel) adopt(ctx context.Context, s nebula.Status, diags *diag.Diagnostics) {
	if s.Config.Lighthouse.AmLighthouse {
		diags.AddError("Unable to Import Nebula Node", "The host "+m.Host.ValueString()+" is a lighthouse. Import it as testbed_nebula_lighthouse.")
		return
	}
	var endpoints []nebulaEndpointModel
	for _, address := range s.Config.Lighthouse.Hosts {
		for _, underlay := range s.Config.StaticHostMap[address.String()] {
			endpoints = append(endpoints, nebulaEndpointModel{iptypes.NewIPAddressValue(address.String()), types.StringValue(underlay)})
		}
	}
	var more diag.Diagnostics
	m.Lighthouses, more = types.ListValueFrom(ctx, nebulaEndpointType, endpoints)
	diags.Append(more...)
}

func (r *nebulaNodeResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_nebula_" + r.name
}

func (r *nebulaNodeResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := nebulaAttributes(ctx)
	maps.Copy(attributes, r.extra())
	resp.Schema = schema.Schema{MarkdownDescription: r.about, Attributes: attributes}
}

// nebulaAttributes are those that lighthouses and other nodes share.
func nebulaAttributes(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"host": schema.StringAttribute{
			Required:            true,
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			MarkdownDescription: "URL of the host. A host can be in one overlay.",
		},
		"ca": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "The `id` of the `testbed_nebula_ca` that signs the certificate. Its name works, too, but then a new CA of the same name reaches the node one apply later.",
		},
		"network": schema.StringAttribute{
			Required:            true,
			CustomType:          cidrtypes.IPPrefixType{},
			MarkdownDescription: "Overlay address with the overlay's prefix length, for example `198.19.0.11/24`.",
		},
		"name": schema.StringAttribute{
			Optional:            true,
			Computed:            true,
			MarkdownDescription: "Name in the certificate; the name or address in the host's URL by default.",
		},
		"groups": schema.SetAttribute{
			Optional:            true,
			ElementType:         types.StringType,
			MarkdownDescription: "Groups in the certificate, for firewall rules to refer to.",
		},
		"unsafe_networks": schema.SetAttribute{
			Optional:            true,
			ElementType:         cidrtypes.IPPrefixType{},
			MarkdownDescription: "Networks outside the overlay that this node routes into for others, whose `unsafe_routes` lead here.",
		},
		"duration": schema.StringAttribute{
			Optional:            true,
			CustomType:          timetypes.GoDurationType{},
			MarkdownDescription: "How long the certificate lasts, as a Go duration; as long as the CA's by default. One that has ended is replaced by the next apply.",
		},
		"rotate": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Any text; another text makes a new certificate, in place.",
		},
		"port": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			Default:             int64default.StaticInt64(4242),
			Validators:          []validator.Int64{int64validator.Between(0, 65535)},
			MarkdownDescription: "UDP port in the underlay, `4242` by default; 0 takes any free one, on a node that is no lighthouse.",
		},
		"device": schema.StringAttribute{
			Optional:            true,
			Computed:            true,
			Default:             stringdefault.StaticString("nebula1"),
			MarkdownDescription: "Name of the overlay device, up to 15 characters; `nebula1` by default.",
		},
		"mtu": schema.Int64Attribute{
			Optional:            true,
			Computed:            true,
			Default:             int64default.StaticInt64(1300),
			MarkdownDescription: "MTU of the overlay device in bytes, `1300` by default. Up to 60 less than the underlay's works.",
		},
		"relay": schema.BoolAttribute{
			Optional:            true,
			Computed:            true,
			Default:             booldefault.StaticBool(false),
			MarkdownDescription: "Whether this node carries the packets of nodes that name it in `relays`; `false` by default.",
		},
		"relays": schema.ListAttribute{
			Optional:            true,
			ElementType:         iptypes.IPAddressType{},
			MarkdownDescription: "Overlay addresses of the relays through which this node can be reached where no direct way works.",
		},
		"unsafe_routes": schema.ListNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Routes to networks outside the overlay through nodes that have them as `unsafe_networks`.",
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"route", "via"}}, Attributes: map[string]schema.Attribute{
				"route":  schema.StringAttribute{Optional: true, CustomType: cidrtypes.IPPrefixType{}, MarkdownDescription: "Network; needed."},
				"via":    schema.StringAttribute{Optional: true, CustomType: iptypes.IPAddressType{}, MarkdownDescription: "Overlay address of the node that routes into it; needed."},
				"mtu":    schema.Int64Attribute{Optional: true, MarkdownDescription: "MTU of the route in bytes; the device's by default."},
				"metric": schema.Int64Attribute{Optional: true, MarkdownDescription: "Metric of the route; the system's by default."},
			}},
		},
		"firewall": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "What may pass; everything by default. With it only what a rule lets through may, and pings to lighthouses, by which the provider tells whether a node is up.",
			Attributes: map[string]schema.Attribute{
				"inbound":  nebulaRulesAttribute("From the overlay to this node."),
				"outbound": nebulaRulesAttribute("From this node to the overlay."),
			},
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		"id": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "The host's URL.",
		},
		"address": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Overlay address.",
		},
		"certificate": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Certificate in PEM.",
		},
		"fingerprint": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "SHA-256 of the certificate in hexadecimal.",
		},
		"not_after": schema.StringAttribute{
			Computed:            true,
			CustomType:          timetypes.RFC3339Type{},
			MarkdownDescription: "End of the certificate's validity, RFC 3339.",
		},
		"config": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Nebula's configuration file. A change by hand shows as a difference here and is undone by the next apply.",
		},
		"up": schema.BoolAttribute{
			Computed:            true,
			MarkdownDescription: "Whether the daemon runs with this configuration and certificate. The next apply restores it when it does not.",
		},
	}
}

func nebulaRulesAttribute(direction string) schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Optional:            true,
		MarkdownDescription: direction + " Nothing passes by default.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"port": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "A port, a range like `2379-2380`, `fragment`, or `any`, the default; nothing with `icmp`.",
			},
			"proto": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("any"),
				Validators:          []validator.String{stringvalidator.OneOf(nebula.Protocols...)},
				MarkdownDescription: "One of `" + strings.Join(nebula.Protocols, "`, `") + "`; `any` by default.",
			},
			"host":       schema.StringAttribute{Optional: true, MarkdownDescription: "Name in the peer's certificate, or `any`."},
			"groups":     schema.SetAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Groups that the peer is in, all of them."},
			"cidr":       schema.StringAttribute{Optional: true, MarkdownDescription: "Network of the peer's address, or `any`."},
			"local_cidr": schema.StringAttribute{Optional: true, MarkdownDescription: "Network of this side's address, which matters with `unsafe_networks`, or `any`."},
		}},
	}
}

func (r *nebulaNodeResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

// ModifyPlan tells in advance what the node's files will be, so that a plan
// shows each change to them, and which values will not change.
func (r *nebulaNodeResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.data == nil {
		return
	}
	kind := r.newKind()
	resp.Diagnostics.Append(req.Plan.Get(ctx, kind)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m := kind.base()
	m.deriveNames()
	kind.derive()
	m.Up = types.BoolValue(true)
	m.Config = types.StringUnknown()
	m.Certificate, m.Fingerprint, m.NotAfter = types.StringUnknown(), types.StringUnknown(), timetypes.NewRFC3339Unknown()
	if known(ctx, kind) {
		spec, diags := nebulaSpec(ctx, kind)
		resp.Diagnostics.Append(diags...)
		if resp.Diagnostics.HasError() || addFieldError(&resp.Diagnostics, spec.Check()) {
			return
		}
		text, err := spec.Config().YAML()
		if err != nil {
			addFailure(&resp.Diagnostics, "Plan", "Nebula "+r.name, m.Host.ValueString(), err, "This is a bug in the provider; please report it.")
			return
		}
		m.Config = types.StringValue(string(text))
		r.planCertificate(ctx, req, resp, m, spec)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, kind)...)
}

// planCertificate keeps the certificate of the state in the plan if the CA is
// there and it still holds.
func (r *nebulaNodeResource) planCertificate(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, m *nebulaModel, spec nebula.Spec) {
	if m.CA.IsUnknown() {
		return
	}
	ca, err := nebula.LoadCA(nebulaKeyFile(r.data, m.CA.ValueString()))
	if errors.Is(err, fs.ErrNotExist) {
		return // made in the same apply
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("ca"), "Unable to Read Nebula CA", err.Error()+".")
		return
	}
	if addFieldError(&resp.Diagnostics, spec.Identity.Check(ca.Certificate)) || req.State.Raw.IsNull() {
		return
	}
	kind := r.newKind()
	resp.Diagnostics.Append(req.State.Get(ctx, kind)...)
	was := kind.base()
	present, err := nebula.ParseCertificate([]byte(was.Certificate.ValueString()))
	if err != nil || !was.Up.ValueBool() || !was.Host.Equal(m.Host) || renewed(was, m) || spec.Current(present, ca.Certificate, time.Now()) != nil {
		return
	}
	m.Certificate, m.Fingerprint, m.NotAfter = was.Certificate, was.Fingerprint, was.NotAfter
}

// renewed reports whether the change asks for a new certificate.
func renewed(from, to *nebulaModel) bool {
	return !from.Rotate.Equal(to.Rotate) || !from.Duration.Equal(to.Duration)
}

func (r *nebulaNodeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	kind := r.newKind()
	resp.Diagnostics.Append(req.Plan.Get(ctx, kind)...)
	if resp.Diagnostics.HasError() {
		return
	}
	timeout, diags := kind.base().Timeouts.Create(ctx, nebulaTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.apply(ctx, "Create", kind, false, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, kind)...)
}

func (r *nebulaNodeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	kind := r.newKind()
	resp.Diagnostics.Append(req.State.Get(ctx, kind)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m := kind.base()
	imported := m.Network.IsNull()
	var status nebula.Status
	h, err := r.data.hosts.Open(ctx, m.Host.ValueString())
	if err == nil {
		status, err = r.data.overlay.Observe(ctx, h)
	}
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		if imported || !r.data.leave(&resp.Diagnostics, m.Host.ValueString(), err) {
			addFailure(&resp.Diagnostics, "Read", "Nebula "+r.name, m.Host.ValueString(), err, "Make the host reachable.")
		}
		return
	}
	m.set(status)
	if imported {
		resp.Diagnostics.Append(m.adoptCommon(ctx, status, r.data.dataDir)...)
		kind.adopt(ctx, status, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, kind)...)
}

func (r *nebulaNodeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	kind, was := r.newKind(), r.newKind()
	resp.Diagnostics.Append(req.Plan.Get(ctx, kind)...)
	resp.Diagnostics.Append(req.State.Get(ctx, was)...)
	if resp.Diagnostics.HasError() {
		return
	}
	timeout, diags := kind.base().Timeouts.Update(ctx, nebulaTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.apply(ctx, "Update", kind, renewed(was.base(), kind.base()), &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, kind)...)
	}
}

// apply makes the host what the model says and sets the model to what is
// observed then, or to nothing where that fails.
func (r *nebulaNodeResource) apply(ctx context.Context, verb string, kind nebulaKind, renew bool, diags *diag.Diagnostics) {
	m := kind.base()
	m.deriveNames()
	kind.derive()
	m.set(nebula.Status{})
	spec, more := nebulaSpec(ctx, kind)
	diags.Append(more...)
	if diags.HasError() {
		return
	}
	spec.Renew = renew
	h, err := r.data.hosts.Open(ctx, m.Host.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		diags.AddAttributeError(path.Root("host"), "Unknown Host", "There is no host "+m.Host.ValueString()+". Use the url of a host resource, so that the host is made first.")
		return
	}
	if err != nil {
		addFailure(diags, verb, "Nebula "+r.name, m.Host.ValueString(), err, "Make the host reachable.")
		return
	}
	status, err := r.run(ctx, h, m, spec)
	if addFieldError(diags, err) {
		return
	}
	if err != nil {
		addFailure(diags, verb, "Nebula "+r.name, m.Host.ValueString(), err,
			"Check that the lighthouses' underlay addresses can be reached from the host, and apply again.")
		return
	}
	m.set(status)
}

func (r *nebulaNodeResource) run(ctx context.Context, h host.Host, m *nebulaModel, spec nebula.Spec) (nebula.Status, error) {
	ca, err := nebula.LoadCA(nebulaKeyFile(r.data, m.CA.ValueString()))
	if err != nil {
		return nebula.Status{}, &nebula.FieldError{Field: "ca", Err: fmt.Errorf("%w; use the id of a testbed_nebula_ca", err)}
	}
	if err := r.data.overlay.Apply(ctx, h, ca, spec); err != nil {
		return nebula.Status{}, err
	}
	return r.data.overlay.Observe(ctx, h)
}

func (r *nebulaNodeResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	kind := r.newKind()
	resp.Diagnostics.Append(req.State.Get(ctx, kind)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m := kind.base()
	timeout, diags := m.Timeouts.Delete(ctx, nebulaTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h, err := r.data.hosts.Open(ctx, m.Host.ValueString())
	if err == nil {
		err = r.data.overlay.Remove(ctx, h)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !r.data.leave(&resp.Diagnostics, m.Host.ValueString(), err) {
		addFailure(&resp.Diagnostics, "Delete", "Nebula "+r.name, m.Host.ValueString(), err, "Make the host reachable.")
	}
}

// ImportState takes the URL of the host.
func (r *nebulaNodeResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("host"), req.ID)...)
}
