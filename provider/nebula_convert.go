package provider

import (
	"context"
	"errors"
	"net/netip"

	"github.com/hashicorp/terraform-plugin-framework-nettypes/cidrtypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// addFieldError puts an error about one field of a Nebula specification on the
// attribute of that name. It returns false for all other errors.
func addFieldError(diags *diag.Diagnostics, err error) bool {
	var field *nebula.FieldError
	if !errors.As(err, &field) {
		return false
	}
	diags.AddAttributeError(path.Root(field.Field), "Invalid Nebula Configuration", field.Err.Error()+".")
	return true
}

// stringsOf returns the elements of a set of strings, none when it is null.
func stringsOf(ctx context.Context, set types.Set, diags *diag.Diagnostics) []string {
	var list []string
	if !set.IsNull() && !set.IsUnknown() {
		diags.Append(set.ElementsAs(ctx, &list, false)...)
	}
	return list
}

// stringSet is the inverse of stringsOf.
func stringSet(ctx context.Context, list []string, diags *diag.Diagnostics) types.Set {
	if len(list) == 0 {
		return types.SetNull(types.StringType)
	}
	set, more := types.SetValueFrom(ctx, types.StringType, list)
	diags.Append(more...)
	return set
}

// prefixes returns the elements of a set of networks, none when it is null.
func prefixes(ctx context.Context, set types.Set, diags *diag.Diagnostics) []netip.Prefix {
	var values []cidrtypes.IPPrefix
	if !set.IsNull() && !set.IsUnknown() {
		diags.Append(set.ElementsAs(ctx, &values, false)...)
	}
	var list []netip.Prefix
	for _, value := range values {
		prefix, more := value.ValueIPPrefix()
		diags.Append(more...)
		list = append(list, prefix)
	}
	return list
}

// prefixSet is the inverse of prefixes.
func prefixSet(ctx context.Context, list []netip.Prefix, diags *diag.Diagnostics) types.Set {
	if len(list) == 0 {
		return types.SetNull(cidrtypes.IPPrefixType{})
	}
	var values []cidrtypes.IPPrefix
	for _, prefix := range list {
		values = append(values, cidrtypes.NewIPPrefixValue(prefix.String()))
	}
	set, more := types.SetValueFrom(ctx, cidrtypes.IPPrefixType{}, values)
	diags.Append(more...)
	return set
}
