package provider

import (
	"context"
	"net/netip"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// nebulaModel is what lighthouses and other nodes have in common.
type nebulaModel struct {
	Host           types.String         `tfsdk:"host"`
	CA             types.String         `tfsdk:"ca"`
	Network        cidrtypes.IPPrefix   `tfsdk:"network"`
	Name           types.String         `tfsdk:"name"`
	Groups         types.Set            `tfsdk:"groups"`
	UnsafeNetworks types.Set            `tfsdk:"unsafe_networks"`
	Duration       timetypes.GoDuration `tfsdk:"duration"`
	Rotate         types.String         `tfsdk:"rotate"`
	Port           types.Int64          `tfsdk:"port"`
	Device         types.String         `tfsdk:"device"`
	MTU            types.Int64          `tfsdk:"mtu"`
	Relay          types.Bool           `tfsdk:"relay"`
	Relays         types.List           `tfsdk:"relays"`
	UnsafeRoutes   types.List           `tfsdk:"unsafe_routes"`
	Firewall       types.Object         `tfsdk:"firewall"`
	Timeouts       timeouts.Value       `tfsdk:"timeouts"`

	ID          types.String      `tfsdk:"id"`
	Address     types.String      `tfsdk:"address"`
	Certificate types.String      `tfsdk:"certificate"`
	Fingerprint types.String      `tfsdk:"fingerprint"`
	NotAfter    timetypes.RFC3339 `tfsdk:"not_after"`
	Config      types.String      `tfsdk:"config"`
	Up          types.Bool        `tfsdk:"up"`
}

type nebulaRouteModel struct {
	Route  cidrtypes.IPPrefix `tfsdk:"route"`
	Via    iptypes.IPAddress  `tfsdk:"via"`
	MTU    types.Int64        `tfsdk:"mtu"`
	Metric types.Int64        `tfsdk:"metric"`
}

type nebulaFirewallModel struct {
	Inbound  []nebulaRuleModel `tfsdk:"inbound"`
	Outbound []nebulaRuleModel `tfsdk:"outbound"`
}

type nebulaRuleModel struct {
	Port      types.String `tfsdk:"port"`
	Proto     types.String `tfsdk:"proto"`
	Host      types.String `tfsdk:"host"`
	Groups    types.Set    `tfsdk:"groups"`
	CIDR      types.String `tfsdk:"cidr"`
	LocalCIDR types.String `tfsdk:"local_cidr"`
}

var nebulaRouteType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"route": cidrtypes.IPPrefixType{}, "via": iptypes.IPAddressType{}, "mtu": types.Int64Type, "metric": types.Int64Type,
}}

// nebulaKind is a node's model with what only its kind has.
type nebulaKind interface {
	base() *nebulaModel

	// extra returns the inputs that only this kind has.
	extra() []attr.Value

	// extend adds those inputs to the specification.
	extend(ctx context.Context, spec *nebula.Spec, diags *diag.Diagnostics)

	// derive sets what only this kind has and follows from its inputs.
	derive()

	// adopt sets the inputs that only this kind has, after an import.
	adopt(ctx context.Context, s nebula.Status, diags *diag.Diagnostics)
}

func (m *nebulaModel) base() *nebulaModel { return m }

// known reports whether the specification can be told yet.
func known(ctx context.Context, kind nebulaKind) bool {
	m := kind.base()
	values := append(kind.extra(), m.Network, m.Name, m.Groups, m.UnsafeNetworks, m.Duration, m.Port, m.Device,
		m.MTU, m.Relay, m.Relays, m.UnsafeRoutes, m.Firewall)
	for _, value := range values {
		raw, err := value.ToTerraformValue(ctx)
		if err != nil || !raw.IsFullyKnown() {
			return false
		}
	}
	return true
}

// nebulaSpec returns the specification, all inputs being known.
func nebulaSpec(ctx context.Context, kind nebulaKind) (nebula.Spec, diag.Diagnostics) {
	var diags diag.Diagnostics
	m := kind.base()
	spec := nebula.Spec{
		Identity: nebula.Identity{
			Name:           m.Name.ValueString(),
			UnsafeNetworks: prefixes(ctx, m.UnsafeNetworks, &diags),
			Groups:         stringsOf(ctx, m.Groups, &diags),
		},
		Port:   uint16(m.Port.ValueInt64()),
		Device: m.Device.ValueString(),
		MTU:    int(m.MTU.ValueInt64()),
		Relay:  m.Relay.ValueBool(),
	}
	var more diag.Diagnostics
	spec.Network, more = m.Network.ValueIPPrefix()
	diags.Append(more...)
	if !m.Duration.IsNull() {
		spec.Duration, more = m.Duration.ValueGoDuration()
		diags.Append(more...)
	}
	var relays []iptypes.IPAddress
	diags.Append(m.Relays.ElementsAs(ctx, &relays, false)...)
	for _, relay := range relays {
		spec.Relays = append(spec.Relays, addressOf(relay, &diags))
	}
	var routes []nebulaRouteModel
	diags.Append(m.UnsafeRoutes.ElementsAs(ctx, &routes, false)...)
	for _, route := range routes {
		network, more := route.Route.ValueIPPrefix()
		diags.Append(more...)
		spec.UnsafeRoutes = append(spec.UnsafeRoutes, nebula.Route{
			Route: network, Via: addressOf(route.Via, &diags), MTU: int(route.MTU.ValueInt64()), Metric: int(route.Metric.ValueInt64()),
		})
	}
	if !m.Firewall.IsNull() {
		var firewall nebulaFirewallModel
		diags.Append(m.Firewall.As(ctx, &firewall, basetypes.ObjectAsOptions{})...)
		spec.Firewall = &nebula.Firewall{
			Inbound:  nebulaRules(ctx, firewall.Inbound, &diags),
			Outbound: nebulaRules(ctx, firewall.Outbound, &diags),
		}
	}
	kind.extend(ctx, &spec, &diags)
	return spec, diags
}

func nebulaRules(ctx context.Context, models []nebulaRuleModel, diags *diag.Diagnostics) []nebula.Rule {
	rules := []nebula.Rule{} // rendered as an empty list, which lets nothing through
	for _, m := range models {
		port := m.Port.ValueString()
		if m.Port.IsNull() && m.Proto.ValueString() != "icmp" {
			port = "any"
		}
		rules = append(rules, nebula.Rule{
			Port:      port,
			Proto:     m.Proto.ValueString(),
			Host:      m.Host.ValueString(),
			Groups:    stringsOf(ctx, m.Groups, diags),
			CIDR:      m.CIDR.ValueString(),
			LocalCIDR: m.LocalCIDR.ValueString(),
		})
	}
	return rules
}

func addressOf(value iptypes.IPAddress, diags *diag.Diagnostics) netip.Addr {
	address, more := value.ValueIPAddress()
	diags.Append(more...)
	return address
}

// deriveNames sets what follows from the inputs alone.
func (m *nebulaModel) deriveNames() {
	if m.Name.IsUnknown() && !m.Host.IsUnknown() {
		if u, err := url.Parse(m.Host.ValueString()); err == nil {
			m.Name = types.StringValue(u.Hostname())
		}
	}
	m.ID = m.Host
	m.Address = types.StringUnknown()
	if !m.Network.IsUnknown() {
		if network, diags := m.Network.ValueIPPrefix(); !diags.HasError() {
			m.Address = types.StringValue(network.Addr().String())
		}
	}
}

// set takes over what was observed.
func (m *nebulaModel) set(s nebula.Status) {
	m.ID = m.Host
	m.Config = types.StringValue(s.ConfigText)
	m.Up = types.BoolValue(s.Up)
	m.Certificate = types.StringValue(s.PEM)
	m.Fingerprint = types.StringValue("")
	m.NotAfter = timetypes.NewRFC3339Null()
	if s.Certificate != nil {
		if fingerprint, err := s.Certificate.Fingerprint(); err == nil {
			m.Fingerprint = types.StringValue(fingerprint)
		}
		m.NotAfter = timetypes.NewRFC3339TimeValue(s.Certificate.NotAfter().UTC())
	}
}

// adoptCommon sets the inputs from what was observed, after an import.
func (m *nebulaModel) adoptCommon(ctx context.Context, s nebula.Status, dataDir string) diag.Diagnostics {
	var diags diag.Diagnostics
	if s.Certificate == nil {
		diags.AddError("Unable to Import Nebula Node", "The host "+m.Host.ValueString()+" runs nebula without a certificate that can be read. Create the node instead; that repairs it.")
		return diags
	}
	c := s.Config
	if ca := nebula.FindCA(dataDir, []byte(s.CA)); ca != "" {
		m.CA = types.StringValue(ca)
	}
	m.Network = cidrtypes.NewIPPrefixValue(s.Certificate.Networks()[0].String())
	m.Name = types.StringValue(s.Certificate.Name())
	m.Groups = stringSet(ctx, s.Certificate.Groups(), &diags)
	m.UnsafeNetworks = prefixSet(ctx, s.Certificate.UnsafeNetworks(), &diags)
	m.Port = types.Int64Value(int64(c.Listen.Port))
	m.Device = types.StringValue(c.Tun.Dev)
	m.MTU = types.Int64Value(int64(c.Tun.MTU))
	m.Relay = types.BoolValue(c.Relay.AmRelay)
	var more diag.Diagnostics
	if len(c.Relay.Relays) > 0 {
		var relays []iptypes.IPAddress
		for _, relay := range c.Relay.Relays {
			relays = append(relays, iptypes.NewIPAddressValue(relay.String()))
		}
		m.Relays, more = types.ListValueFrom(ctx, iptypes.IPAddressType{}, relays)
		diags.Append(more...)
	}
	if len(c.Tun.UnsafeRoutes) > 0 {
		var routes []nebulaRouteModel
		for _, route := range c.Tun.UnsafeRoutes {
			routes = append(routes, nebulaRouteModel{
				cidrtypes.NewIPPrefixValue(route.Route.String()), iptypes.NewIPAddressValue(route.Via.String()),
				intOrNull(route.MTU), intOrNull(route.Metric),
			})
		}
		m.UnsafeRoutes, more = types.ListValueFrom(ctx, nebulaRouteType, routes)
		diags.Append(more...)
	}
	m.deriveNames()
	return diags
}

func intOrNull(n int) types.Int64 {
	if n == 0 {
		return types.Int64Null()
	}
	return types.Int64Value(int64(n))
}
