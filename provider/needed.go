package provider

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// needed is the validator of objects in lists, sets and maps that names the
// attributes without which an object is incomplete. Such attributes are
// declared Optional: the framework refuses Required ones while the whole
// object is unknown, as it is inside a module.
type needed []string

var _ validator.Object = needed{}

func (n needed) Description(context.Context) string {
	return "needs " + strings.Join(n, " and ")
}

func (n needed) MarkdownDescription(ctx context.Context) string { return n.Description(ctx) }

func (n needed) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsUnknown() {
		return
	}
	if req.ConfigValue.IsNull() {
		resp.Diagnostics.AddAttributeError(req.Path, "Missing Attributes", req.Path.String()+" is null; it "+n.Description(ctx)+".")
		return
	}
	attributes := req.ConfigValue.Attributes()
	for _, name := range slices.Sorted(slices.Values(n)) {
		if attributes[name].IsNull() {
			resp.Diagnostics.AddAttributeError(req.Path.AtName(name), "Missing Attribute",
				req.Path.String()+" has no "+name+"; set it.")
		}
	}
}
