package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-timetypes/timetypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/float64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/float64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/site"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
)

var (
	_ resource.ResourceWithConfigure      = (*benchmarkRunResource)(nil)
	_ resource.ResourceWithValidateConfig = (*benchmarkRunResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*benchmarkRunResource)(nil)
)

// benchmarkRunTimeout is how long a run may take.
const benchmarkRunTimeout = time.Hour

type benchmarkRunResource struct {
	data *providerData
}

func newBenchmarkRunResource() resource.Resource { return &benchmarkRunResource{} }

func (r *benchmarkRunResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_benchmark_run"
}

func (r *benchmarkRunResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	attributes := benchmarkRunPlanAttributes()
	for name, attribute := range benchmarkRunResultAttributes() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = timeouts.Attributes(ctx, timeouts.Opts{
		Create:            true,
		CreateDescription: "How long the run may take, as a Go duration; `1h` by default.",
	})
	resp.Schema = schema.Schema{
		MarkdownDescription: "Measures response times: calls functions from a pod of one cluster, over every arm, in every scenario, and keeps what each request took. " +
			"A run is a record: it is made once, and a change of its definition makes a new one. Import has no meaning for it.",
		Attributes: attributes,
	}
}

// benchmarkRunPlanAttributes define the run. A change of any makes a new one.
func benchmarkRunPlanAttributes() map[string]schema.Attribute {
	replaceString := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	replaceInt := []planmodifier.Int64{int64planmodifier.RequiresReplace()}
	replaceMap := []planmodifier.Map{mapplanmodifier.RequiresReplace()}
	atLeastOne := []validator.Map{mapvalidator.SizeAtLeast(1)}
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			PlanModifiers:       replaceString,
			Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`), "a run's name has up to 40 lower-case letters, digits and inner hyphens, since it is part of a pod's name")},
			MarkdownDescription: "Name of the run, up to 40 lower-case letters, digits and hyphens. Two runs at the same time in one namespace need two names.",
		},
		"client": schema.SingleNestedAttribute{
			Required:            true,
			PlanModifiers:       []planmodifier.Object{objectplanmodifier.RequiresReplace()},
			MarkdownDescription: "Where the calls come from: a pod, since fabrics identify their clients by it.",
			Attributes: map[string]schema.Attribute{
				"cluster": schema.StringAttribute{
					Required:            true,
					Validators:          []validator.String{clusterURLValidator()},
					MarkdownDescription: "URL of the calling cluster, for example `k3s+local://edge`, which is the `url` of a `testbed_k3s_cluster`.",
				},
				"namespace": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString("default"),
					Validators:          []validator.String{dnsLabelValidator()},
					MarkdownDescription: "Namespace of the pod, which has to exist; `default` by default.",
				},
				"image": schema.StringAttribute{
					Optional:            true,
					MarkdownDescription: "Image of the load generator, the testbed's agent; needed only for clusters that are no k3s of this testbed, which the provider cannot load its own image into.",
				},
				"clients": schema.Int64Attribute{
					Optional: true, Computed: true, Default: int64default.StaticInt64(1),
					Validators:          []validator.Int64{int64validator.Between(1, 64)},
					MarkdownDescription: "Pods that send the requests together, for loads above what one can make; `1` by default. They begin each cell at the same moment and share its requests and its rate; each has the concurrency of `load`. The cluster spreads them over its nodes.",
				},
			},
		},
		"functions": schema.MapNestedAttribute{
			Required:            true,
			PlanModifiers:       replaceMap,
			Validators:          atLeastOne,
			MarkdownDescription: "How each function is called, by the function's name.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"protocol": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString(string(load.HTTP1)),
					Validators:          []validator.String{stringvalidator.OneOf(textsOf(load.Protocols())...)},
					MarkdownDescription: "`http/1.1`, the default, or `h2c`, HTTP/2 without TLS.",
				},
				"method": schema.StringAttribute{
					Optional:            true,
					Validators:          []validator.String{stringvalidator.OneOf(http.MethodGet, http.MethodPost)},
					MarkdownDescription: "`GET` or `POST`; by default `POST` with a payload and `GET` without.",
				},
				"response_bytes": schema.Int64Attribute{
					Optional: true, Computed: true, Default: int64default.StaticInt64(0),
					Validators:          []validator.Int64{int64validator.Between(0, 64<<20)},
					MarkdownDescription: "Bytes that the body of each answer has to have, which the function is asked for by the header `" + server.ResponseBytesHeader + "`; the built-in `hello-world` and `payload-recv` heed it. `0`, the default, leaves the length to the function. An answer of another length is an error.",
				},
				"payload_bytes": schema.Int64Attribute{
					Optional: true, Computed: true, Default: int64default.StaticInt64(0),
					Validators:          []validator.Int64{int64validator.Between(0, 64<<20)},
					MarkdownDescription: "Bytes of the body of each request; `0`, the default, sends none.",
				},
				"echo": schema.BoolAttribute{
					Optional: true, Computed: true, Default: booldefault.StaticBool(false),
					MarkdownDescription: "Whether the answer has to be the payload, byte by byte; `false` by default.",
				},
				"function": benchmarkTargetAttribute(),
			}},
		},
		"arms": schema.MapNestedAttribute{
			Required:            true,
			PlanModifiers:       replaceMap,
			Validators:          atLeastOne,
			MarkdownDescription: "The paths under measurement, by name.",
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"urls"}}, Attributes: map[string]schema.Attribute{
				"urls": schema.MapAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "URL of each function over this path; needed.",
				},
				"hosts": schema.MapAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "Host that the requests to a function ask for, where it is not that of the URL, as an ingress wants it: with the `ingress_url` of a `testbed_knative` as URL, the `host` of the `testbed_function`.",
				},
				"path": schema.StringAttribute{
					Optional:            true,
					MarkdownDescription: "What the path is, for the record, for example `NodePort on the overlay address`.",
				},
				"hops": schema.ListNestedAttribute{
					Optional:            true,
					MarkdownDescription: "The points that requests pass, from the client to the function, for the record: the report shows them, and counts the connections, encrypted connections and address translations of each arm.",
					NestedObject:        schema.NestedAttributeObject{Validators: []validator.Object{needed{"name", "kind"}}, Attributes: benchmarkHopAttributes()},
				},
			}},
		},
		"baseline": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("direct"),
			PlanModifiers:       replaceString,
			MarkdownDescription: "Arm that the others are compared with, `direct` by default.",
		},
		"scenarios": schema.MapNestedAttribute{
			Required:            true,
			PlanModifiers:       replaceMap,
			Validators:          atLeastOne,
			MarkdownDescription: "The network conditions, by name.",
			NestedObject: schema.NestedAttributeObject{Validators: []validator.Object{needed{"profiles"}}, Attributes: map[string]schema.Attribute{
				"profiles": schema.MapAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "Profile of links during the scenario: the `json` of a `testbed_netem_profile` by the `id` of a `testbed_link`. A link that a scenario leaves out keeps its own profile. Needed, and may be empty.",
				},
			}},
		},
		"connections": schema.SetAttribute{
			Optional: true, Computed: true, ElementType: types.StringType,
			PlanModifiers:       []planmodifier.Set{byLoad{usual: connectionSet(load.Connections()), cold: connectionSet([]load.Connection{load.New})}, setplanmodifier.RequiresReplace()},
			Validators:          []validator.Set{setvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Connection modes: `reuse` keeps its connections for all requests of a cell in a block, `new` makes one for each request, `reuse:N` makes a new one after every N requests; `reuse` and `new` by default. Cold starts have `new` alone.",
		},
		"requests": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(100),
			PlanModifiers:       replaceInt,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "Measured requests of each cell, over all blocks; `100` by default, which is what a p90 needs; a p99 needs 1000.",
		},
		"warmup": schema.Int64Attribute{
			Optional: true, Computed: true,
			PlanModifiers:       []planmodifier.Int64{byLoad{usual: types.Int64Value(3), cold: types.Int64Value(0)}, int64planmodifier.RequiresReplace()},
			Validators:          []validator.Int64{int64validator.AtLeast(0)},
			MarkdownDescription: "Requests before the measured ones of each cell in every block, from 1 on; `3` by default, and none before cold starts. They are kept in the samples file. The first one sets up the session and is reported as `first_ms`.",
		},
		"blocks": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(5),
			PlanModifiers:       replaceInt,
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
			MarkdownDescription: "Blocks that the requests are spread over, each with all cells in random order; `5` by default, the least for intervals of the comparisons.",
		},
		"load": schema.SingleNestedAttribute{
			Optional:            true,
			PlanModifiers:       []planmodifier.Object{objectplanmodifier.RequiresReplace()},
			MarkdownDescription: "What decides when requests are sent; a closed loop with one request in flight and no think time by default. Each connection carries one request at a time.",
			Attributes: map[string]schema.Attribute{
				"model": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString(string(load.ClosedLoop)),
					Validators:          []validator.String{stringvalidator.OneOf(textsOf(load.ModelKinds())...)},
					MarkdownDescription: "`closed`, the default, sends the next request of a connection when its last one was answered and the think time has passed; `open` sends requests at `rate`, whatever became of earlier ones, and times them from when they should have been sent; `cold-start` sends each request when its function, which is a Knative one, has no pod, and tells the parts of its time.",
				},
				"concurrency": schema.Int64Attribute{
					Optional:            true,
					Validators:          []validator.Int64{int64validator.Between(1, 4096)},
					MarkdownDescription: fmt.Sprintf("Connections of each client: the requests in flight of a closed loop, `1` by default, and the most of an open one, `%d` by default.", load.DefaultOpenConcurrency),
				},
				"think_time": schema.StringAttribute{
					Optional: true, CustomType: timetypes.GoDurationType{},
					MarkdownDescription: "Pause between an answer and the next request of the connection, as a Go duration; none by default. Closed loop only.",
				},
				"rate": schema.Float64Attribute{
					Optional:            true,
					MarkdownDescription: "Requests per second, of all clients together; needed by the open loop, which alone has one.",
				},
				"arrivals": schema.StringAttribute{
					Optional:            true,
					Validators:          []validator.String{stringvalidator.OneOf(textsOf(load.ArrivalKinds())...)},
					MarkdownDescription: "`constant`, the default, leaves the same time between any two requests; `poisson` draws it from an exponential law, with the seed of the run. Open loop only.",
				},
				"idle_timeout": schema.StringAttribute{
					Optional: true, CustomType: timetypes.GoDurationType{},
					MarkdownDescription: "How long a function may take to lose its last pod before each request, as a Go duration; `5m` by default. It is to be longer than the `stable_window` and the `scale_to_zero_grace_period` of the `testbed_knative` together. Cold starts only.",
				},
			},
		},
		"timeout": schema.StringAttribute{
			Optional: true, Computed: true, CustomType: timetypes.GoDurationType{},
			PlanModifiers:       []planmodifier.String{byLoad{usual: types.StringValue("5s"), cold: types.StringValue("1m")}, stringplanmodifier.RequiresReplace()},
			MarkdownDescription: "How long a whole request may take, as a Go duration; `5s` by default, `1m` for cold starts.",
		},
		"connect_timeout": schema.StringAttribute{
			Optional: true, Computed: true, CustomType: timetypes.GoDurationType{}, Default: stringdefault.StaticString("2s"),
			PlanModifiers:       replaceString,
			MarkdownDescription: "How long a connection may take, as a Go duration; `2s` by default.",
		},
		"seed": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(1),
			PlanModifiers:       replaceInt,
			MarkdownDescription: "Seed of the random order and of the bootstrap, `1` by default.",
		},
		"max_error_ratio": schema.Float64Attribute{
			Optional: true, Computed: true, Default: float64default.StaticFloat64(0.05),
			PlanModifiers:       []planmodifier.Float64{float64planmodifier.RequiresReplace()},
			Validators:          []validator.Float64{float64validator.Between(0, 1)},
			MarkdownDescription: "Share of failed requests of a cell, from 0 to 1, above which the run fails; `0.05` by default. Failed requests are counted and never part of a time.",
		},
		"verify": schema.SingleNestedAttribute{
			Optional:            true,
			PlanModifiers:       []planmodifier.Object{objectplanmodifier.RequiresReplace()},
			MarkdownDescription: "How the links are measured before and after each visit of a scenario. A visit whose links are off is kept in the samples file, marked, and done again once.",
			Attributes: map[string]schema.Attribute{
				"packets": schema.Int64Attribute{
					Optional: true, Computed: true, Default: int64default.StaticInt64(25),
					Validators:          []validator.Int64{int64validator.AtLeast(1)},
					MarkdownDescription: "Packets in each direction, `25` by default.",
				},
				"rtt_tolerance": schema.StringAttribute{
					Optional: true, CustomType: timetypes.GoDurationType{},
					MarkdownDescription: "How far the median RTT may be off besides what jitter explains, as a Go duration; the larger of 0.3 ms and 3 % by default.",
				},
				"loss_tolerance": schema.Float64Attribute{
					Optional:            true,
					Validators:          []validator.Float64{float64validator.Between(0, 100)},
					MarkdownDescription: "How far the loss may be off in percentage points, where that is more than three standard errors and one packet.",
				},
			},
		},
		"describe": schema.SetAttribute{
			Optional: true, ElementType: types.StringType,
			PlanModifiers:       []planmodifier.Set{setplanmodifier.RequiresReplace()},
			MarkdownDescription: "URLs of other clusters whose nodes and images are recorded in `environment`, as those of the calling cluster are.",
		},
		"expect": benchmarkExpectAttribute(),
		"triggers": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			PlanModifiers:       replaceMap,
			MarkdownDescription: "Any values; a change of one makes a new run.",
		},
		"results_dir": schema.StringAttribute{
			Optional:            true,
			PlanModifiers:       replaceString,
			Validators:          []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^/`), "it must be an absolute path, for example \"/srv/results\" or abspath(\"results\")")},
			MarkdownDescription: "Absolute path of the folder on this machine in which the run makes its own folder, named by its `id`; `results` in the provider's `data_dir` by default.",
		},
		"resume": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether a run of the same definition that was interrupted, and whose folder is still in `results_dir`, is gone on with after the last block that was finished; `true` by default. Otherwise the run starts anew.",
		},
		"keep_results": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Whether the files of the run stay when the run is destroyed or replaced; `true` by default, since measurements cannot be made again.",
		},
	}
}

func benchmarkHopAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "What it is, for example `haproxy on cloud`; needed.",
		},
		"kind": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "What it does to the connection: the first hop, the `client`, begins one, and the last, the `function`, ends one; a `proxy` ends one and begins another, and a `service` translates addresses. Needed.",
		},
		"protocol": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "What carries requests from the hop before: `tcp`, the default, `tls` or `mtls`, TLS with certificates at both ends.",
		},
		"network": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "What lies between it and the hop before: the `cluster`, the default, the `overlay` between hosts, or their `underlay`.",
		},
	}
}

// textsOf returns the texts of a closed list.
func textsOf[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, value := range list {
		texts[i] = string(value)
	}
	return texts
}

func connectionSet(connections []load.Connection) types.Set {
	var values []attr.Value
	for _, connection := range connections {
		values = append(values, types.StringValue(string(connection)))
	}
	return types.SetValueMust(types.StringType, values)
}

// benchmarkRunResultAttributes are what the run found.
func benchmarkRunResultAttributes() map[string]schema.Attribute {
	keepString := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	text := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, PlanModifiers: keepString, MarkdownDescription: about}
	}
	list := func(about string, element map[string]schema.Attribute) schema.ListNestedAttribute {
		return schema.ListNestedAttribute{
			Computed:            true,
			PlanModifiers:       []planmodifier.List{listplanmodifier.UseStateForUnknown()},
			MarkdownDescription: about,
			NestedObject:        schema.NestedAttributeObject{Attributes: element},
		}
	}
	return map[string]schema.Attribute{
		"id":             text("The run's name and the time of its start; also the name of its folder."),
		"started":        text("Start of the run, RFC 3339."),
		"finished":       text("End of the run, RFC 3339."),
		"results_folder": text("Path of the run's folder, which is all that a `testbed_report` needs."),
		"samples_file":   text("Path of the file with every request, as CSV compressed with Zstandard."),
		"samples_sha256": text("SHA-256 of the samples file in hexadecimal."),
		"sha256": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			PlanModifiers:       []planmodifier.Map{mapplanmodifier.UseStateForUnknown()},
			MarkdownDescription: "SHA-256 of each file of the run's folder in hexadecimal, by its path in the folder. The folder has them in `SHA256SUMS` too.",
		},
		"environment": text("What the run took place on, as JSON: kernel, CPU, versions and images, the plan, and the links as they were read back and measured around each visit; durations of the plan are nanoseconds. It is also in `environment.json` beside the samples file."),
		"invalid_blocks": schema.Int64Attribute{
			Computed:            true,
			PlanModifiers:       []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
			MarkdownDescription: "How many visits of a scenario had links that were off before or after; their requests are in no summary.",
		},
		"drift": schema.SingleNestedAttribute{
			Computed:            true,
			PlanModifiers:       []planmodifier.Object{objectplanmodifier.UseStateForUnknown()},
			MarkdownDescription: "How far all cells together became slower or faster in the course of the run: the trend of the blocks' medians, each as a ratio to its cell's own. Null for fewer than 5 blocks.",
			Attributes:          benchmarkDriftAttributes(),
		},
		"results": list("Summary of each cell: a function, called over one arm in one scenario with one connection mode. Intervals hold 95 %; their ends are order statistics. From 5 blocks on they allow for requests of a block that depend on each other; with fewer they take all requests for independent.", benchmarkResultAttributes()),
		"comparisons": list("Each cell of another arm against the baseline. Intervals hold 95 % and come from a bootstrap of whole blocks; they are null for fewer than 5 blocks.",
			benchmarkComparisonAttributes()),
	}
}

func benchmarkCellAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"function":   schema.StringAttribute{Computed: true, MarkdownDescription: "Function."},
		"scenario":   schema.StringAttribute{Computed: true, MarkdownDescription: "Scenario."},
		"connection": schema.StringAttribute{Computed: true, MarkdownDescription: "Connection mode."},
		"arm":        schema.StringAttribute{Computed: true, MarkdownDescription: "Arm."},
	}
}

func benchmarkResultAttributes() map[string]schema.Attribute {
	attributes := benchmarkCellAttributes()
	attributes["count"] = schema.Int64Attribute{Computed: true, MarkdownDescription: "Good measured requests, which the times are of."}
	attributes["errors"] = schema.Int64Attribute{Computed: true, MarkdownDescription: "Failed measured requests."}
	attributes["lagging"] = schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether `lag_ms` is more than 1 % of the median: the client itself is part of what was measured."}
	for _, column := range bench.ResultColumns() {
		attributes[column.Name] = schema.Float64Attribute{Computed: true, MarkdownDescription: column.About}
	}
	return attributes
}

func benchmarkComparisonAttributes() map[string]schema.Attribute {
	attributes := benchmarkCellAttributes()
	attributes["baseline"] = schema.StringAttribute{Computed: true, MarkdownDescription: "Arm that is compared with."}
	for _, column := range bench.ComparisonColumns() {
		attributes[column.Name] = schema.Float64Attribute{Computed: true, MarkdownDescription: column.About}
	}
	return attributes
}

func benchmarkDriftAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"percent": schema.Float64Attribute{Computed: true, MarkdownDescription: "Change from the first block to the last one in percent."},
		"p":       schema.Float64Attribute{Computed: true, MarkdownDescription: "Probability that blocks without a trend are in as clear an order by chance (Mann and Kendall's test)."},
	}
}

func (r *benchmarkRunResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = configured(req.ProviderData, &resp.Diagnostics)
}

func (r *benchmarkRunResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model benchmarkRunModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	model.validate(ctx, &resp.Diagnostics)
}

// ModifyPlan warns of what may go wrong with a run that is about to be made.
func (r *benchmarkRunResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || !req.State.Raw.IsNull() {
		return
	}
	var model benchmarkRunModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	if !resp.Diagnostics.HasError() {
		model.warnOfSlowLinks(ctx, &resp.Diagnostics)
	}
}

func (r *benchmarkRunResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model benchmarkRunModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Create(ctx, benchmarkRunTimeout)
	resp.Diagnostics.Append(diags...)
	plan, options := model.spec(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the run took longer than timeouts.create, %s", timeout))
	defer cancel()

	inputs, err := benchmarkRunInputs(req.Plan.Raw)
	if err != nil {
		addFailure(&resp.Diagnostics, "Run", "Benchmark", plan.Name, err, "")
		return
	}
	options.Inputs, options.Provider = inputs, r.data.version
	folder := model.ResultsDir.ValueString()
	if folder == "" {
		folder = filepath.Join(r.data.dataDir, "results")
	}
	if model.Resume.ValueBool() {
		if options.Dir, err = bench.Resumable(folder, plan, inputs); err != nil {
			addFailure(&resp.Diagnostics, "Run", "Benchmark", plan.Name, err, "Set resume to false to start anew.")
			return
		}
	}
	if options.Dir == "" {
		options.Dir = filepath.Join(folder, plan.Name+"-"+time.Now().UTC().Format("20060102T150405Z"))
	}
	id := filepath.Base(options.Dir)
	options.Progress = func(p bench.Progress) {
		tflog.Info(ctx, "benchmark run", map[string]any{
			"run": id, "block": p.Block, "blocks": p.Blocks, "visit": p.Visit, "visits": p.Visits, "scenario": p.Scenario,
			"left": p.Left.Round(time.Second).String(), "progress_file": filepath.Join(options.Dir, bench.ProgressFile),
		})
	}
	bed := site.Site{Data: datadir.Dir(r.data.dataDir), Hosts: r.data.hosts, Clusters: r.data.clusters}
	report, err := bed.Run(ctx, plan, options)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.Join(context.Cause(ctx), err)
	}
	switch {
	case errors.Is(err, site.ErrCluster) && errors.Is(err, fs.ErrNotExist):
		resp.Diagnostics.AddAttributeError(path.Root("client").AtName("cluster"), "Unknown Cluster",
			"There is no cluster "+options.Cluster+". Use the url of a testbed_k3s_cluster, so that the cluster is made first.")
		return
	case err != nil:
		addFailure(&resp.Diagnostics, "Run", "Benchmark", plan.Name, err, keptSamples(report))
		return
	}
	model.ID = types.StringValue(id)
	resp.Diagnostics.Append(model.set(report)...)
	warnOfLag(&resp.Diagnostics, plan.Name, report.Results)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	model.judge(ctx, &resp.Diagnostics)
}

// warnOfLag names the cells whose times the client itself is a part of, the worst
// one with its figures.
func warnOfLag(diags *diag.Diagnostics, name string, results []bench.Result) {
	lagging := slices.DeleteFunc(slices.Clone(results), func(r bench.Result) bool { return !r.Lagging })
	if len(lagging) == 0 {
		return
	}
	share := func(r bench.Result) float64 { return *r.Lag / *r.Median }
	worst := slices.MaxFunc(lagging, func(a, b bench.Result) int { return cmp.Compare(share(a), share(b)) })
	diags.AddAttributeWarning(path.Root("results"), "Client Is Part of the Times",
		fmt.Sprintf("Benchmark %q: in %d of %d cells the client itself caused more than 1 %% of the median, most in %s: %.3f of %.3f ms. "+
			"These cells have lagging = true. Differences between arms hold all the same where both have about the same lag_ms. "+
			"Give the client's node more time to spare, spread the load with client.clients, or lower it.",
			name, len(lagging), len(results), worst.Cell, *worst.Lag, *worst.Median))
}

// keptSamples says where the requests of a run without results are, and what
// becomes of them.
func keptSamples(report bench.Report) string {
	switch {
	case report.SamplesFile == "":
		return "Nothing was measured."
	case report.State == bench.Interrupted:
		return "What was measured until then is in " + report.SamplesFile + ". Apply again, with the run as it is, to go on after the last block that was finished; set resume to false to start anew."
	}
	return "What was measured until then is in " + report.SamplesFile + "."
}

// Read keeps the record. Its numbers are in the state; that the file with
// their samples is gone is worth a warning, not a new run.
func (r *benchmarkRunResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var file types.String
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("samples_file"), &file)...)
	if _, err := os.Stat(file.ValueString()); errors.Is(err, fs.ErrNotExist) {
		resp.Diagnostics.AddAttributeWarning(path.Root("samples_file"), "Samples File Is Missing",
			"The file "+file.ValueString()+" with the run's requests is not there any more. The summaries in the state are as they were; change triggers to measure again.")
	}
}

// Update is about resume, keep_results and timeouts, which are nothing but
// state, and about expectations, which the results of the run are held against.
func (r *benchmarkRunResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var model benchmarkRunModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
	if !resp.Diagnostics.HasError() {
		model.judge(ctx, &resp.Diagnostics)
	}
}

func (r *benchmarkRunResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model benchmarkRunModel
	resp.Diagnostics.Append(req.State.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() || model.KeepResults.ValueBool() {
		return
	}
	files := map[string]string{}
	resp.Diagnostics.Append(model.SHA256.ElementsAs(ctx, &files, false)...)
	if len(files) == 0 { // a run of an earlier version
		files = map[string]string{filepath.Base(model.SamplesFile.ValueString()): "", bench.EnvironmentFile: ""}
	}
	if err := bench.Remove(model.ResultsFolder.ValueString(), slices.Collect(maps.Keys(files))); err != nil {
		addFailure(&resp.Diagnostics, "Delete", "Benchmark Run", model.ID.ValueString(), err, "Move what you have put there, or set keep_results to true to leave the files.")
	}
}
