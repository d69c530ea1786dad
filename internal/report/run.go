package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// run is one folder with what follows from it.
type run struct {
	bench.Folder
	Environment environment
	Results     []bench.Result
	Comparisons []bench.Comparison
	RoundTrips  []bench.RoundTrips
	Drift       *bench.Drift
	Arms        []string // the baseline first
	Scenarios   []scenario
	Functions   []string // small payloads first

	times    map[bench.Cell]map[int][]float64
	result   map[bench.Cell]bench.Result
	overhead map[bench.Cell]bench.Comparison
	figures  []figure
}

// environment is the part of a run's environment that the report shows.
type environment struct {
	Provider string             `json:"provider"`
	Nebula   string             `json:"nebula"`
	Emulator string             `json:"emulator"`
	Client   client             `json:"client"`
	Clusters map[string]cluster `json:"clusters"` // by URL
}

type client struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Image     string `json:"image"`
}

type cluster struct {
	CPU    string   `json:"cpu"` // model
	Nodes  []node   `json:"nodes"`
	Images []string `json:"images"`
}

type node struct {
	Name       string `json:"name"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel"`
	Kubernetes string `json:"kubernetes"`
	Runtime    string `json:"runtime"`
	CPU        string `json:"cpu"`
	Memory     string `json:"memory"`
}

// scenario is one network condition with its round-trip time.
type scenario struct {
	Name     string
	Profiles bench.Scenario
	Wanted   float64  // what the profiles add to a round trip, in milliseconds
	Measured *float64 // median of what was measured around valid visits, in milliseconds
}

// measurement is a link check's measurement. Times are milliseconds, losses
// percentages.
type measurement struct {
	Packets       int      `json:"packets"`
	WantedRTT     *float64 `json:"wanted_rtt_ms"`
	RTTMedian     *float64 `json:"rtt_median_ms"`
	RTTMin        *float64 `json:"rtt_min_ms"`
	RTTMax        *float64 `json:"rtt_max_ms"`
	WantedForward *float64 `json:"wanted_forward_loss"`
	ForwardLoss   *float64 `json:"forward_loss"`
	WantedReverse *float64 `json:"wanted_reverse_loss"`
	ReverseLoss   *float64 `json:"reverse_loss"`
}

func newRun(folder bench.Folder) (*run, error) {
	if err := folder.Plan.Validate(); err != nil {
		return nil, fmt.Errorf("read the plan of run %s: %w", folder.ID, err)
	}
	r := &run{Folder: folder, result: map[bench.Cell]bench.Result{}, overhead: map[bench.Cell]bench.Comparison{}}
	if err := convert(folder.Environment, &r.Environment); err != nil {
		return nil, fmt.Errorf("read the environment of run %s: %w", folder.ID, err)
	}
	r.times = folder.Times()
	r.Results, r.Comparisons = folder.Summarize()
	for _, result := range r.Results {
		r.result[result.Cell] = result
	}
	for _, comparison := range r.Comparisons {
		r.overhead[comparison.Cell] = comparison
	}
	for _, arm := range slices.Sorted(maps.Keys(r.Plan.Arms)) {
		if arm != r.Plan.Baseline {
			r.Arms = append(r.Arms, arm)
		}
	}
	r.Arms = append([]string{r.Plan.Baseline}, r.Arms...)
	r.Functions = slices.SortedFunc(maps.Keys(r.Plan.Functions), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Plan.Functions[a].PayloadBytes, r.Plan.Functions[b].PayloadBytes), cmp.Compare(a, b))
	})
	for name, profiles := range r.Plan.Scenarios {
		s := scenario{Name: name, Profiles: profiles}
		for _, profile := range profiles {
			s.Wanted = max(s.Wanted, profile.Expect(probeBytes).RTT.Seconds()*1000)
		}
		s.Measured = r.measuredRTT(name)
		r.Scenarios = append(r.Scenarios, s)
	}
	slices.SortFunc(r.Scenarios, func(a, b scenario) int {
		return cmp.Or(cmp.Compare(a.Wanted, b.Wanted), cmp.Compare(a.Name, b.Name))
	})
	rtts := map[string]float64{}
	for _, s := range r.Scenarios {
		if s.Measured != nil {
			rtts[s.Name] = *s.Measured
		}
	}
	r.RoundTrips = bench.RoundTripsOf(r.Plan, folder.Tally, rtts)
	r.Drift = bench.DriftOf(r.Plan, folder.Tally)
	slices.SortStableFunc(r.RoundTrips, func(a, b bench.RoundTrips) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), r.compareCells(a.Cell, b.Cell))
	})
	// Results in the order of the figures, not of the alphabet.
	slices.SortStableFunc(r.Results, func(a, b bench.Result) int { return r.compareCells(a.Cell, b.Cell) })
	slices.SortStableFunc(r.Comparisons, func(a, b bench.Comparison) int { return r.compareCells(a.Cell, b.Cell) })
	return r, nil
}

// probeBytes is the size of a small packet, for what a profile adds to it.
const probeBytes = 100

// compareCells orders by function, connection, scenario and arm, as figures do.
func (r *run) compareCells(a, b bench.Cell) int {
	place := func(name string) int {
		return slices.IndexFunc(r.Scenarios, func(s scenario) bool { return s.Name == name })
	}
	return cmp.Or(
		cmp.Compare(slices.Index(r.Functions, a.Function), slices.Index(r.Functions, b.Function)),
		cmp.Compare(slices.Index(r.Plan.Connections, a.Connection), slices.Index(r.Plan.Connections, b.Connection)),
		cmp.Compare(place(a.Scenario), place(b.Scenario)),
		cmp.Compare(slices.Index(r.Arms, a.Arm), slices.Index(r.Arms, b.Arm)),
	)
}

// measuredRTT returns the median of the medians that were measured around the
// valid visits of a scenario; of several links the longest.
func (r *run) measuredRTT(scenario string) *float64 {
	medians := map[string][]float64{}
	for _, visit := range r.Visits {
		if visit.Scenario != scenario || !visit.Valid {
			continue
		}
		for _, check := range slices.Concat(visit.Before, visit.After) {
			if m := measured(check); m.RTTMedian != nil {
				medians[check.Link] = append(medians[check.Link], *m.RTTMedian)
			}
		}
	}
	var longest *float64
	for _, values := range medians {
		if median, ok := bench.Percentile(values, 50); ok && (longest == nil || median > *longest) {
			longest = &median
		}
	}
	return longest
}

// measured reads what a check found; a measurement of another kind has no
// numbers.
func measured(check bench.LinkCheck) measurement {
	var m measurement
	if err := convert(check.Measured, &m); err != nil {
		return measurement{}
	}
	return m
}

// convert reads what was JSON without a type into one.
func convert(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// InvalidVisits counts the visits whose links were off.
func (r *run) InvalidVisits() int {
	count := 0
	for _, visit := range r.Visits {
		if !visit.Valid && !visit.Interrupted {
			count++
		}
	}
	return count
}

// Errors counts the failed requests that would have counted.
func (r *run) Errors() int {
	count := 0
	for _, result := range r.Results {
		count += result.Errors
	}
	return count
}

// lagging counts the cells whose client was part of what was measured.
func (r *run) lagging() int {
	count := 0
	for _, result := range r.Results {
		if result.Lagging {
			count++
		}
	}
	return count
}

// Notes are what a reader has to know before the numbers, one sentence each.
func (r *run) Notes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if !r.Completed {
		note("The run failed or was cancelled: it holds what was measured until then.")
	}
	for _, part := range r.Earlier {
		note("The run was interrupted at %s and gone on with later; a block that was cut was measured again as a whole.", part.Ended.UTC().Format(time.DateTime+" UTC"))
	}
	if n := r.InvalidVisits(); n > 0 {
		note("%d of %d visits had links that were off; their requests are in no number and no figure.", n, len(r.Visits))
	}
	if n := r.Errors(); n > 0 {
		note("%d measured requests failed; they are counted and part of no time.", n)
	}
	if n := r.lagging(); n > 0 {
		note("In %d of %d cells the client itself caused more than %g %% of the median; they are marked.", n, len(r.Results), 100*bench.LagLimit)
	}
	if d := r.Drift; d != nil && d.P < bench.DriftLevel {
		note("The times of all cells together moved by %+.1f %% from the first block to the last one (p = %s). Arms were measured side by side, so comparisons hardly suffer.", d.Percent, pValue(&d.P))
	}
	switch {
	case r.Plan.Load.Cold():
		note("Every request was sent when its function had no pod. The stages of a pod are when the API server told of them.")
	case !r.Plan.Load.Open():
		note("One request follows another (closed loop), so a stall of the path shows in few requests; these are response times, not latency under load.")
	}
	if r.Plan.Blocks < 5 {
		note("Overheads have no interval, since the run has fewer than 5 blocks (%d), and intervals of medians take requests for independent.", r.Plan.Blocks)
	}
	if r.Plan.Requests < 1000 {
		note("There is no 99th percentile: it needs 1000 requests of a cell, and the run has %d.", r.Plan.Requests)
	}
	return notes
}

// linkProfile is what a link does to packets, in words.
type linkProfile struct{ Link, Profile string }

// Links returns what the scenario makes of each link.
func (s scenario) Links() []linkProfile {
	var links []linkProfile
	for _, id := range slices.Sorted(maps.Keys(s.Profiles)) {
		links = append(links, linkProfile{id, describeProfile(s.Profiles[id])})
	}
	return links
}

// describeProfile words a profile: its one-way delay and the like.
func describeProfile(p netem.Profile) string {
	if p.IsZero() {
		return "untouched"
	}
	if p.Forward.Equal(p.Reverse) {
		return describeDirection(p.Forward) + " each way"
	}
	return describeDirection(p.Forward) + " forward, " + describeDirection(p.Reverse) + " back"
}

func describeDirection(d netem.Direction) string {
	var parts []string
	if d.Delay > 0 {
		delay := d.Delay.String()
		if d.Jitter > 0 {
			delay += " ± " + d.Jitter.String()
		}
		parts = append(parts, delay)
	}
	if d.Loss.Random != nil {
		parts = append(parts, fmt.Sprintf("%g %% loss", d.Loss.Random.Percent))
	}
	if d.Rate > 0 {
		parts = append(parts, d.Rate.String()+"/s")
	}
	known := netem.Direction{Delay: d.Delay, Jitter: d.Jitter, Distribution: d.Distribution, Rate: d.Rate,
		Limit: d.Limit, Seed: d.Seed, KeepOrder: d.KeepOrder}
	if d.Loss.Random != nil && d.Loss.Random.Correlation == 0 {
		known.Loss = d.Loss
	}
	if text, err := json.Marshal(d); err == nil && !known.Equal(d) {
		return string(text)
	}
	if len(parts) == 0 {
		return "untouched"
	}
	return strings.Join(parts, ", ")
}

// payload words how a function is called.
func (r *run) payload(function string) string {
	f := r.Plan.Functions[function]
	switch {
	case f.PayloadBytes == 0:
		return "GET"
	case f.Echo:
		return fmt.Sprintf("POST of %s, echoed", size(f.PayloadBytes))
	default:
		return "POST of " + size(f.PayloadBytes)
	}
}

func size(bytes int) string {
	switch {
	case bytes >= 1<<20 && bytes%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10 && bytes%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", bytes>>10)
	default:
		return fmt.Sprintf("%d B", bytes)
	}
}

// Took is how long the run took.
func (r *run) Took() time.Duration { return r.Finished.Sub(r.Started).Round(time.Second) }

// blocksOf returns the numbers of blocks in order.
func blocksOf(blocks map[int][]float64) []int { return slices.Sorted(maps.Keys(blocks)) }
