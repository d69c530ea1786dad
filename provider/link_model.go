package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

type linkModel struct {
	Network         types.String `tfsdk:"network"`
	Between         types.List   `tfsdk:"between"`
	Addresses       types.List   `tfsdk:"addresses"`
	On              types.String `tfsdk:"on"`
	ShapeOn         types.String `tfsdk:"shape_on"`
	KeepOffloads    types.Bool   `tfsdk:"keep_offloads"`
	ReplaceExisting types.Bool   `tfsdk:"replace_existing"`
	Profile         types.String `tfsdk:"profile"`
	Verify          types.Object `tfsdk:"verify"`
	ID              types.String `tfsdk:"id"`
	Measured        types.Object `tfsdk:"measured"`
	Shaping         types.List   `tfsdk:"shaping"`
}

type linkVerifyModel struct {
	Packets       types.Int64          `tfsdk:"packets"`
	Interval      timetypes.GoDuration `tfsdk:"interval"`
	RTTTolerance  timetypes.GoDuration `tfsdk:"rtt_tolerance"`
	LossTolerance types.Float64        `tfsdk:"loss_tolerance"`
	Rate          types.Bool           `tfsdk:"rate"`
}

var measuredTypes = map[string]attr.Type{
	"packets":             types.Int64Type,
	"wanted_rtt_ms":       types.Float64Type,
	"base_rtt_ms":         types.Float64Type,
	"rtt_median_ms":       types.Float64Type,
	"rtt_min_ms":          types.Float64Type,
	"rtt_max_ms":          types.Float64Type,
	"wanted_forward_loss": types.Float64Type,
	"wanted_reverse_loss": types.Float64Type,
	"forward_loss":        types.Float64Type,
	"reverse_loss":        types.Float64Type,
	"forward_rate_mbit":   types.Float64Type,
	"reverse_rate_mbit":   types.Float64Type,
}

var shapingType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"host":         types.StringType,
	"device":       types.StringType,
	"ingress":      types.BoolType,
	"limit":        types.Int64Type,
	"offloads_off": types.ListType{ElemType: types.StringType},
	"replaced":     types.StringType,
}}

// The beginnings of hosts' URLs.
const (
	localURL = "local://"
	sshURL   = "ssh://"
)

const placeDiffersText = "Another place makes a new link."

// placeDiffers tells whether the place is another one; none is the underlay.
func placeDiffers(_ context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse) {
	resp.RequiresReplace = place(req.PlanValue) != place(req.StateValue)
}

func place(on types.String) link.Place {
	if on.IsNull() {
		return link.Underlay
	}
	return link.Place(on.ValueString())
}

// validate reports what is wrong with what is known of the configuration.
func (m *linkModel) validate(ctx context.Context) (diags diag.Diagnostics) {
	if !m.Profile.IsUnknown() {
		_, err := netem.Parse([]byte(m.Profile.ValueString()))
		addAttributeFailure(&diags, path.Root("profile"), err)
	}
	onNetwork := !m.Network.IsNull()
	if onNetwork {
		for name, value := range map[string]attr.Value{"addresses": m.Addresses, "on": m.On, "shape_on": m.ShapeOn, "keep_offloads": m.KeepOffloads, "replace_existing": m.ReplaceExisting} {
			if !value.IsNull() {
				addAttributeFailure(&diags, path.Root(name), errors.New("it is about links that the hosts' kernels carry out, and has no effect on a network; remove it, or remove network"))
			}
		}
	}
	for i, element := range m.Between.Elements() {
		value, ok := element.(types.String)
		if !ok || value.IsUnknown() {
			continue
		}
		addAttributeFailure(&diags, path.Root("between").AtListIndex(i), m.checkHost(value.ValueString(), onNetwork))
	}
	if !m.ShapeOn.IsNull() && !m.ShapeOn.IsUnknown() && isKnown(m.Between) {
		var urls []string
		diags.Append(m.Between.ElementsAs(ctx, &urls, false)...)
		if !slices.Contains(urls, m.ShapeOn.ValueString()) {
			addAttributeFailure(&diags, path.Root("shape_on"), fmt.Errorf("%q is none of the hosts of between; write the url of one of them", m.ShapeOn.ValueString()))
		}
	}
	if m.Addresses.IsNull() && !onNetwork && place(m.On) == link.Overlay {
		addAttributeFailure(&diags, path.Root("addresses"), errors.New("without them it is not known where the overlay has the hosts; write for example [[testbed_nebula_node.a.ip], [testbed_nebula_node.b.ip]]"))
	}
	if isKnown(m.Addresses) {
		_, err := m.addresses(ctx)
		addAttributeFailure(&diags, path.Root("addresses"), err)
	}
	return diags
}

// checkHost says what is wrong with the URL of a host.
func (m *linkModel) checkHost(text string, onNetwork bool) error {
	local := strings.HasPrefix(text, localURL) && len(text) > len(localURL)
	if onNetwork {
		if !local {
			return fmt.Errorf("%q is not a host of a network; write the url of a testbed_local_host, for example \"local://edge\"", text)
		}
		return nil
	}
	if remote := strings.HasPrefix(text, sshURL) && len(text) > len(sshURL); !local && !remote {
		return fmt.Errorf("%q is not a host; write the url of one, for example \"ssh://pi@192.0.2.1\"", text)
	}
	if m.Addresses.IsNull() && place(m.On) == link.Underlay {
		_, err := addressIn(text)
		return err
	}
	return nil
}

// addressIn returns the address that a host's URL names.
func addressIn(text string) (netip.Addr, error) {
	if strings.HasPrefix(text, localURL) {
		return netip.Addr{}, fmt.Errorf("%q names no address; set network to link the hosts of a testbed_network, or addresses for a link by the hosts' kernels", text)
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not a URL: %w", text, err)
	}
	address, err := netip.ParseAddr(parsed.Hostname())
	if err != nil || address.IsLoopback() {
		return netip.Addr{}, fmt.Errorf("%q names no address by which another host could reach it; set addresses, for example [[\"192.0.2.1\"], [\"192.0.2.2\"]]", text)
	}
	return address, nil
}

func isKnown(list types.List) bool {
	if list.IsNull() || list.IsUnknown() {
		return false
	}
	return !slices.ContainsFunc(list.Elements(), func(e attr.Value) bool {
		if inner, ok := e.(types.List); ok && !inner.IsNull() {
			return !isKnown(inner)
		}
		return e.IsUnknown()
	})
}

// addresses returns those of both hosts.
func (m *linkModel) addresses(ctx context.Context) (all [2][]netip.Addr, err error) {
	if m.Addresses.IsNull() {
		var urls []string
		if diags := m.Between.ElementsAs(ctx, &urls, false); diags.HasError() || len(urls) != 2 {
			return all, errors.New("the hosts are not known")
		}
		for i, text := range urls {
			address, err := addressIn(text)
			if err != nil {
				return all, err
			}
			all[i] = []netip.Addr{address}
		}
		return all, nil
	}
	var texts [][]string
	if diags := m.Addresses.ElementsAs(ctx, &texts, false); diags.HasError() || len(texts) != 2 {
		return all, errors.New("write two lists of addresses, one for each host")
	}
	for i, list := range texts {
		for _, text := range list {
			address, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil || !address.IsGlobalUnicast() {
				return all, fmt.Errorf("%q is not an address of a host; write for example \"192.0.2.1\" or \"2001:db8::1\"", text)
			}
			all[i] = append(all[i], address.Unmap())
		}
	}
	return all, nil
}

func (m *linkModel) spec(ctx context.Context) (link.Spec, diag.Diagnostics) {
	var urls []string
	diags := m.Between.ElementsAs(ctx, &urls, false)
	if diags.HasError() || len(urls) != 2 {
		return link.Spec{}, diags
	}
	profile, err := netem.Parse([]byte(m.Profile.ValueString()))
	addAttributeFailure(&diags, path.Root("profile"), err)
	spec := link.Spec{Profile: profile}
	if !m.Network.IsNull() {
		spec.Link = link.Link{
			Network: m.Network.ValueString(),
			A:       strings.TrimPrefix(urls[0], localURL),
			B:       strings.TrimPrefix(urls[1], localURL),
		}
		return spec, diags
	}
	spec.Link = link.Link{Place: place(m.On), A: urls[0], B: urls[1]}
	spec.Shaping = link.Shaping{
		On:              m.ShapeOn.ValueString(),
		KeepOffloads:    m.KeepOffloads.ValueBool(),
		ReplaceExisting: m.ReplaceExisting.ValueBool(),
	}
	spec.Shaping.Addresses, err = m.addresses(ctx)
	addAttributeFailure(&diags, path.Root("addresses"), err)
	return spec, diags
}

// rehearsed is a specification for asking hosts before everything is known:
// any address and a delay stand in for those that are not. It returns false
// for a link that needs nothing of kernels, or whose hosts are not known.
func (m *linkModel) rehearsed(ctx context.Context) (link.Spec, bool) {
	if !m.Network.IsNull() || !isKnown(m.Between) || m.ShapeOn.IsUnknown() || m.On.IsUnknown() {
		return link.Spec{}, false
	}
	stand := *m
	if m.Profile.IsUnknown() {
		stand.Profile = types.StringValue(`{"delay":"1ms"}`)
	}
	if m.Addresses.IsUnknown() || !m.Addresses.IsNull() && !isKnown(m.Addresses) {
		of := func(text string) attr.Value {
			return types.ListValueMust(types.StringType, []attr.Value{types.StringValue(text)})
		}
		stand.Addresses = types.ListValueMust(types.ListType{ElemType: types.StringType}, []attr.Value{of("192.0.2.1"), of("192.0.2.2")})
	}
	spec, diags := stand.spec(ctx)
	return spec, !diags.HasError()
}

func (m *linkModel) verification(ctx context.Context) (link.Verification, diag.Diagnostics) {
	if m.Verify.IsNull() {
		return link.Verification{}, nil
	}
	var v linkVerifyModel
	diags := m.Verify.As(ctx, &v, basetypes.ObjectAsOptions{})
	if diags.HasError() {
		return link.Verification{}, diags
	}
	verification := link.Verification{
		Packets:       int(v.Packets.ValueInt64()),
		LossTolerance: v.LossTolerance.ValueFloat64() / 100,
		Rate:          v.Rate.ValueBool(),
	}
	var more diag.Diagnostics
	if !v.Interval.IsNull() {
		verification.Interval, more = v.Interval.ValueGoDuration()
		diags.Append(more...)
	}
	if !v.RTTTolerance.IsNull() {
		verification.RTTTolerance, more = v.RTTTolerance.ValueGoDuration()
		diags.Append(more...)
	}
	return verification, diags
}

// setMeasured keeps a measurement.
func (m *linkModel) setMeasured(measured link.Measurement) diag.Diagnostics {
	ms := func(d time.Duration) attr.Value { return types.Float64Value(float64(d.Microseconds()) / 1000) }
	percent := func(share float64) attr.Value { return types.Float64Value(share * 100) }
	mbit := func(rate netem.Rate) attr.Value {
		if rate == 0 {
			return types.Float64Null()
		}
		return types.Float64Value(float64(rate) / 1e6)
	}
	base := ms(measured.BaseRTT)
	if measured.BaseRTT == 0 {
		base = types.Float64Null()
	}
	var diags diag.Diagnostics
	m.Measured, diags = types.ObjectValue(measuredTypes, map[string]attr.Value{
		"packets":             types.Int64Value(int64(measured.Packets)),
		"wanted_rtt_ms":       ms(measured.WantedRTT),
		"base_rtt_ms":         base,
		"rtt_median_ms":       ms(measured.RTTMedian),
		"rtt_min_ms":          ms(measured.RTTMin),
		"rtt_max_ms":          ms(measured.RTTMax),
		"wanted_forward_loss": percent(measured.WantedForward),
		"wanted_reverse_loss": percent(measured.WantedReverse),
		"forward_loss":        percent(measured.ForwardLoss),
		"reverse_loss":        percent(measured.ReverseLoss),
		"forward_rate_mbit":   mbit(measured.ForwardRate),
		"reverse_rate_mbit":   mbit(measured.ReverseRate),
	})
	return diags
}

// set takes over what the link does. What does the same keeps its wording.
func (m *linkModel) set(ctx context.Context, l link.Link, observed link.Status) diag.Diagnostics {
	m.ID = types.StringValue(l.String())
	if wanted, err := netem.Parse([]byte(m.Profile.ValueString())); err != nil || !wanted.Equal(observed.Profile) {
		m.Profile = types.StringValue(observed.Profile.JSON())
	}
	if m.Measured.IsUnknown() {
		m.Measured = types.ObjectNull(measuredTypes)
	}
	a, b := l.Hosts()
	var diags diag.Diagnostics
	m.Between, diags = types.ListValueFrom(ctx, types.StringType, []string{a, b})
	if !l.ByKernel() {
		m.Network = types.StringValue(l.Network)
		m.Shaping = types.ListNull(shapingType)
		return diags
	}
	if place(m.On) != l.Place {
		m.On = types.StringValue(string(l.Place))
	}
	if m.ShapeOn.ValueString() != observed.Shaping.On {
		m.ShapeOn = types.StringValue(observed.Shaping.On)
		if observed.Shaping.On == "" {
			m.ShapeOn = types.StringNull()
		}
	}
	if wanted, err := m.addresses(ctx); err != nil || !slices.Equal(wanted[0], observed.Shaping.Addresses[0]) || !slices.Equal(wanted[1], observed.Shaping.Addresses[1]) {
		texts := make([][]string, 2)
		for i, list := range observed.Shaping.Addresses {
			for _, address := range list {
				texts[i] = append(texts[i], address.String())
			}
		}
		var more diag.Diagnostics
		m.Addresses, more = types.ListValueFrom(ctx, types.ListType{ElemType: types.StringType}, texts)
		diags.Append(more...)
	}
	diags.Append(m.setShaping(ctx, observed.Hosts)...)
	return diags
}

func (m *linkModel) setShaping(ctx context.Context, hosts []link.HostStatus) (diags diag.Diagnostics) {
	elements := make([]attr.Value, len(hosts))
	for i, h := range hosts {
		off, more := types.ListValueFrom(ctx, types.StringType, append([]string{}, h.OffloadsOff...))
		diags.Append(more...)
		limit, replaced := types.Int64Null(), types.StringNull()
		if h.Egress != nil && !h.Egress.IsZero() {
			limit = types.Int64Value(int64(h.Egress.EffectiveLimit(h.MTU)))
		}
		if h.Replaced != "" {
			replaced = types.StringValue(h.Replaced)
		}
		elements[i], more = types.ObjectValue(shapingType.AttrTypes, map[string]attr.Value{
			"host":         types.StringValue(h.URL),
			"device":       types.StringValue(h.Device),
			"ingress":      types.BoolValue(h.Ingress != nil),
			"limit":        limit,
			"offloads_off": off,
			"replaced":     replaced,
		})
		diags.Append(more...)
	}
	var more diag.Diagnostics
	m.Shaping, more = types.ListValue(shapingType, elements)
	diags.Append(more...)
	return diags
}
