package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// durationFrom accepts durations of a range. Without most there is no upper end.
type durationFrom struct{ least, most time.Duration }

var _ validator.String = durationFrom{}

func (d durationFrom) Description(context.Context) string {
	if d.most == 0 {
		return fmt.Sprintf("must be %s or more", d.least)
	}
	return fmt.Sprintf("must be from %s to %s, in whole seconds", d.least, d.most)
}

func (d durationFrom) MarkdownDescription(ctx context.Context) string { return d.Description(ctx) }

func (d durationFrom) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	got, err := time.ParseDuration(req.ConfigValue.ValueString())
	if err != nil {
		return // the type says so
	}
	if got < d.least || d.most != 0 && (got > d.most || got%time.Second != 0) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Duration", fmt.Sprintf("%s is %s; it %s.", req.Path, req.ConfigValue.ValueString(), d.Description(ctx)))
	}
}
