package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// addFailure words every error of a resource's work: what could not be done,
// on which object, why, and what to do next, which after an interrupt is
// another thing than after a failure.
func addFailure(diags *diag.Diagnostics, verb, thing, name string, err error, next string) {
	if errors.Is(err, context.Canceled) {
		next = "It was interrupted. The same command goes on from here, and destroy removes what there is."
	}
	var absent *noClusterError
	if errors.As(err, &absent) {
		diags.AddAttributeError(path.Root("cluster"), "Unable to "+verb+" "+thing,
			fmt.Sprintf("%s %q: %s.\n\nUse the url of a testbed_k3s_cluster, so that the cluster is made first.", thing, name, err))
		return
	}
	detail := fmt.Sprintf("%s %q: %s.", thing, name, err)
	if next != "" {
		detail += "\n\n" + next
	}
	diags.AddError("Unable to "+verb+" "+thing, detail)
}

// configured returns the provider's data, or nil before the provider is
// configured, as happens during validation.
func configured(data any, diags *diag.Diagnostics) *providerData {
	if data == nil {
		return nil
	}
	typed, ok := data.(*providerData)
	if !ok {
		diags.AddError("Unable to Configure Resource", fmt.Sprintf("The provider handed over %T. This is a bug in the provider; please report it.", data))
	}
	return typed
}

// addAttributeFailure words what is wrong with one value. It does nothing for
// nil.
func addAttributeFailure(diags *diag.Diagnostics, at path.Path, err error) {
	if err != nil {
		diags.AddAttributeError(at, "Invalid Value", fmt.Sprintf("%s: %s.", at, err))
	}
}

// sentence makes a sentence of an error.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
