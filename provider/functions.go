package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// pureFunction is a provider function without an effect.
type pureFunction struct {
	name       string
	definition function.Definition
	run        func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError
}

var _ function.Function = pureFunction{}

func (f pureFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

func (f pureFunction) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = f.definition
}

func (f pureFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	resp.Error = f.run(ctx, req.Arguments, &resp.Result)
}

func newBytesFunction() function.Function {
	return pureFunction{
		name: "bytes",
		definition: function.Definition{
			Summary:             "Bytes of a size with a unit",
			MarkdownDescription: "Returns the bytes of a size with a unit: `B`, `kB`, `MB` and `GB` are powers of 1000, `KiB`, `MiB` and `GiB` of 1024.",
			Parameters:          []function.Parameter{function.StringParameter{Name: "size", MarkdownDescription: "Size, for example `100KiB`."}},
			Return:              function.Int64Return{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var text string
			if err := arguments.Get(ctx, &text); err != nil {
				return err
			}
			size, err := bench.ParseSize(text)
			if err != nil {
				return function.NewArgumentFuncError(0, err.Error())
			}
			return result.Set(ctx, size)
		},
	}
}

func newBandwidthDelayProductFunction() function.Function {
	return pureFunction{
		name: "bandwidth_delay_product",
		definition: function.Definition{
			Summary:             "Bytes in flight on a path",
			MarkdownDescription: "Returns the bytes that are in flight on a path that is used fully: rate times round-trip time, rounded down. A connection needs a window of that size, and a link a queue for about as much.",
			Parameters: []function.Parameter{
				function.StringParameter{Name: "rate", MarkdownDescription: "Rate with its unit, as in a profile, for example `100mbit`."},
				function.StringParameter{Name: "rtt", MarkdownDescription: "Round-trip time with its unit, for example `40ms`."},
			},
			Return: function.Int64Return{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var rateText, rttText string
			if err := arguments.Get(ctx, &rateText, &rttText); err != nil {
				return err
			}
			rate, err := netem.ParseRate(rateText)
			if err != nil {
				return function.NewArgumentFuncError(0, err.Error())
			}
			rtt, err := netem.ParseDuration(rttText)
			if err != nil {
				return function.NewArgumentFuncError(1, err.Error())
			}
			return result.Set(ctx, int64(float64(rate)/8*float64(rtt)/1e9))
		},
	}
}

func newPercentileFunction() function.Function {
	return pureFunction{
		name: "percentile",
		definition: function.Definition{
			Summary:             "Percentile of numbers",
			MarkdownDescription: "Returns a percentile of numbers, linear between the two nearest of them, as the results of a run are computed and as NumPy and R do by default.",
			Parameters: []function.Parameter{
				function.ListParameter{Name: "values", ElementType: types.Float64Type, MarkdownDescription: "Numbers in any order, one at least."},
				function.Float64Parameter{Name: "percent", MarkdownDescription: "From 0 to 100; 50 is the median."},
			},
			Return: function.Float64Return{},
		},
		run: func(ctx context.Context, arguments function.ArgumentsData, result *function.ResultData) *function.FuncError {
			var values []float64
			var percent float64
			if err := arguments.Get(ctx, &values, &percent); err != nil {
				return err
			}
			if len(values) == 0 {
				return function.NewArgumentFuncError(0, "there are no numbers; a percentile needs one at least")
			}
			value, ok := bench.Percentile(values, percent)
			if !ok {
				return function.NewArgumentFuncError(1, "it is no percentage; write a number from 0 to 100")
			}
			return result.Set(ctx, value)
		},
	}
}
