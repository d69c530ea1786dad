package provider

import (
	"context"
	"net"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/iptypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

var _ nebulaKind = (*nebulaLighthouseModel)(nil)

func newNebulaLighthouseResource() resource.Resource {
	return &nebulaNodeResource{
		name: "lighthouse",
		about: "Makes a host a lighthouse of the Nebula overlay, the node that tells the others where their peers are. It is a `testbed_nebula_node` otherwise. " +
			"Everything but `host` changes in place; the overlay device stays, except when `device`, `port` or `network` change.",
		extra:   nebulaLighthouseAttributes,
		newKind: func() nebulaKind { return &nebulaLighthouseModel{} },
	}
}

type nebulaLighthouseModel struct {
	nebulaModel
	Underlay types.String `tfsdk:"underlay"`
	Endpoint types.Object `tfsdk:"endpoint"`
}

func nebulaLighthouseAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"underlay": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Address or name at which the other nodes reach the lighthouse in the underlay, without the port.",
		},
		"endpoint": schema.SingleNestedAttribute{
			Computed:            true,
			MarkdownDescription: "What nodes need to find the lighthouse, for their `lighthouses`.",
			Attributes: map[string]schema.Attribute{
				"overlay":  schema.StringAttribute{Computed: true, CustomType: iptypes.IPAddressType{}, MarkdownDescription: "Overlay address."},
				"underlay": schema.StringAttribute{Computed: true, MarkdownDescription: "Address or name, and port, in the underlay."},
			},
		},
	}
}

func (m *nebulaLighthouseModel) extra() []attr.Value { return []attr.Value{m.Underlay} }

func (m *nebulaLighthouseModel) extend(_ context.Context, spec *nebula.Spec, _ *diag.Diagnostics) {
	spec.IsLighthouse = true
	spec.Underlay = m.Underlay.ValueString()
}

func (m *nebulaLighthouseModel) derive() {
	if m.Address.IsUnknown() || m.Underlay.IsUnknown() || m.Port.IsUnknown() {
		m.Endpoint = types.ObjectUnknown(nebulaEndpointType.AttrTypes)
		return
	}
	m.Endpoint = types.ObjectValueMust(nebulaEndpointType.AttrTypes, map[string]attr.Value{
		"overlay":  iptypes.NewIPAddressValue(m.Address.ValueString()),
		"underlay": types.StringValue(net.JoinHostPort(m.Underlay.ValueString(), strconv.FormatInt(m.Port.ValueInt64(), 10))),
	})
}

func (m *nebulaLighthouseModel) adopt(_ context.Context, s nebula.Status, diags *diag.Diagnostics) {
	if !s.Config.Lighthouse.AmLighthouse {
		diags.AddError("Unable to Import Nebula Lighthouse", "The node on "+m.Host.ValueString()+" is not a lighthouse. Import it as testbed_nebula_node.")
	}
	// At which address others reach it, the host does not know.
	m.Endpoint = types.ObjectNull(nebulaEndpointType.AttrTypes)
}
