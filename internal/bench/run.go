package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Client runs jobs from where the calls come from.
type Client interface {
	Run(ctx context.Context, job load.Job) (load.Result, error)
}

// Links is what a run does to the emulated network. Links are named by id.
type Links interface {
	// Observe returns the profile that the link has now.
	Observe(ctx context.Context, id string) (netem.Profile, error)
	// Apply gives the link a profile.
	Apply(ctx context.Context, id string, profile netem.Profile) error
	// Verify measures the link and returns what it found as JSON-encodable
	// data. An error says that the link is not what its profile says.
	Verify(ctx context.Context, id string) (any, error)
}

// Runner has what a run needs beyond its plan.
type Runner struct {
	Client Client
	Links  Links
	Cold   ColdStarts // of a plan that has some

	// Dir is the folder of this run, which the run makes. One that Resumable
	// returned is gone on with.
	Dir string

	// Inputs, when set, are what the run was asked for with. They are written to
	// the folder as files that repeat it.
	Inputs Inputs

	// Environment describes where the run takes place, for the record.
	Environment any

	Now func() time.Time

	// Progress, when set, is told before each visit.
	Progress func(Progress)
}

// Report is what a run found.
type Report struct {
	Started, Finished time.Time
	Results           []Result
	Comparisons       []Comparison
	Drift             *Drift // of all cells together, nil for fewer than 5 blocks
	InvalidVisits     int
	State             State
	SamplesFile       string
	SamplesSHA256     string
	SHA256            map[string]string // of every file in the folder, in hex, by its path in the folder
	Environment       string            // JSON, as in the environment file
}

// restoreTimeout bounds how long a run that has ended sets its links back.
const restoreTimeout = time.Minute

// Run carries the plan out. However it ends, the links get back the profiles
// they had before. Nothing is touched, and no folder made, before every arm has
// reached every function; from then on the folder keeps what is recorded.
func (r Runner) Run(ctx context.Context, plan Plan) (Report, error) {
	if err := plan.Validate(); err != nil {
		return Report{}, err
	}
	run := &run{Runner: r, plan: plan, tally: NewTally(plan)}
	run.record = Record{Started: r.Now().UTC(), Plan: plan, Environment: r.Environment}
	if err := run.observeLinks(ctx); err != nil {
		return Report{}, err
	}
	if err := run.callEveryArm(ctx); err != nil {
		return Report{}, err
	}
	return run.measure(ctx)
}

// run is a Runner at work on a plan.
type run struct {
	Runner
	plan    Plan
	before  Scenario // the profiles of the links before the run
	samples *SampleWriter
	record  Record
	tally   *Tally

	progress Progress
	began    time.Time // of this part of the run
	done     int       // visits of this part
}

// measure makes all visits. What it returns beside an error describes the files
// that it leaves.
func (r *run) measure(ctx context.Context) (report Report, err error) {
	r.began = r.record.Started
	if err := r.open(); err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, r.close(&report, err)) }()
	defer func() { err = errors.Join(err, r.restoreLinks(ctx)) }()
	if err := r.visitAll(ctx); err != nil {
		return report, err
	}
	report.Results, report.Comparisons = Summarize(r.plan, r.tally)
	report.Drift = DriftOf(r.plan, r.tally)
	return report, r.judge(report.Results)
}

// close completes the files of a run that ended with err, and the report. The
// samples of a run that can be gone on with stay open for that.
func (r *run) close(report *Report, err error) error {
	r.progress.State, r.progress.Left = stateAfter(err), 0
	r.record.Completed = err == nil
	problem := r.save()
	report.Started, report.Finished = r.record.Started, r.record.Finished
	report.InvalidVisits = r.record.invalid()
	report.State = r.progress.State
	text, textErr := json.Marshal(r.record)
	report.Environment = string(text)
	var closeErr error
	if r.progress.State == Interrupted {
		report.SamplesFile, report.SamplesSHA256, closeErr = r.samples.leave()
	} else {
		report.SamplesFile = r.samples.path
		report.SamplesSHA256, closeErr = r.samples.Close()
		problem = errors.Join(problem, r.writeExports(report))
	}
	problem = errors.Join(problem, textErr, closeErr)
	if problem != nil || r.progress.State == Interrupted {
		return problem
	}
	report.SHA256, problem = writeDigests(r.Dir)
	return problem
}

func (r *run) observeLinks(ctx context.Context) error {
	r.before = Scenario{}
	for _, id := range r.plan.Links() {
		profile, err := r.Links.Observe(ctx, id)
		if err != nil {
			return fmt.Errorf("read link %q before the run: %w", id, err)
		}
		r.before[id] = profile
	}
	return nil
}

// restoreLinks works after ctx has ended, too.
func (r *run) restoreLinks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	var problems []error
	for _, id := range sortedKeys(r.before) {
		if err := r.Links.Apply(ctx, id, r.before[id]); err != nil {
			problems = append(problems, fmt.Errorf("set link %q back: %w", id, err))
		}
	}
	return errors.Join(problems...)
}

// A path may take a moment to carry its first request after it was set up.
const (
	firstCallPatience = 30 * time.Second
	firstCallPause    = time.Second
)

// callEveryArm makes sure that each arm reaches each function before anything
// is measured.
func (r *run) callEveryArm(ctx context.Context) error {
	for _, arm := range sortedKeys(r.plan.Arms) {
		for _, function := range sortedKeys(r.plan.Functions) {
			cell := Cell{Arm: arm, Function: function}
			if err := r.firstCall(ctx, cell); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) firstCall(ctx context.Context, cell Cell) error {
	job := r.plan.firstJob(cell)
	for deadline := r.Now().Add(firstCallPatience); ; {
		result, err := r.Client.Run(ctx, job)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(result.Records, func(record load.Record) bool { return record.Error != "" })
		if i < 0 {
			return nil
		}
		got := result.Records[i]
		if !r.Now().Before(deadline) {
			return fmt.Errorf("arm %q does not reach function %q at %s before the run: %s", cell.Arm, cell.Function, job.URL, describeFailure(got))
		}
		select {
		case <-time.After(firstCallPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// describeFailure words what became of a failed request.
func describeFailure(record load.Record) string {
	if record.Error == load.StatusError {
		return fmt.Sprintf("it was answered %s", record.Detail)
	}
	return fmt.Sprintf("%s (%s)", record.Error, record.Detail)
}

func (r *run) visitAll(ctx context.Context) error {
	schedule := r.plan.Schedule()
	valid := map[string]bool{}
	for _, made := range r.record.Visits {
		valid[made.Scenario] = valid[made.Scenario] || made.Valid
	}
	for i, visit := range schedule {
		if visit.Block <= r.progress.FinishedBlocks {
			continue
		}
		if err := r.announce(schedule, i); err != nil {
			return err
		}
		first := r.record.attempts(visit) + 1
		for attempt := first; attempt <= first+1; attempt++ {
			ok, err := r.visit(ctx, visit, attempt)
			if err != nil {
				return err
			}
			if ok {
				valid[visit.Scenario] = true
				break
			}
		}
		r.done++
		if i+1 == len(schedule) || schedule[i+1].Block > visit.Block {
			r.progress.FinishedBlocks, r.progress.FinishedBytes = visit.Block, r.samples.size
		}
	}
	for _, scenario := range sortedKeys(r.plan.Scenarios) {
		if !valid[scenario] {
			return verdict{fmt.Errorf("scenario %q has no measurement, since its links were off at every visit; the last time: %s", scenario, r.record.lastProblem(scenario))}
		}
	}
	return nil
}

// announce tells how far the run is before a visit.
func (r *run) announce(schedule []Visit, i int) error {
	p := &r.progress
	p.State = Running
	p.Block, p.Blocks, p.Scenario = schedule[i].Block, r.plan.Blocks, schedule[i].Scenario
	p.Visit, p.Visits = i+1, len(schedule)
	if r.done > 0 {
		p.Left = r.Now().Sub(r.began) / time.Duration(r.done) * time.Duration(len(schedule)-i)
	}
	if r.Progress != nil {
		r.Progress(*p)
	}
	return r.save()
}

// visit measures the cells of one visit and tells whether the links were as
// they should be before and after.
func (r *run) visit(ctx context.Context, visit Visit, attempt int) (valid bool, err error) {
	entry := VisitRecord{Block: visit.Block, Scenario: visit.Scenario, Attempt: attempt, Started: r.Now().UTC()}
	defer func() {
		entry.Valid, entry.Interrupted = valid, err != nil
		r.record.Visits = append(r.record.Visits, entry)
	}()
	if err := r.setLinks(ctx, visit.Scenario); err != nil {
		return false, err
	}
	var good bool
	if entry.Before, good, err = r.checkLinks(ctx); err != nil || !good {
		return false, err
	}
	var samples []Sample
	defer func() {
		for i := range samples {
			samples[i].Valid = valid
			r.tally.Add(&samples[i])
		}
		err = errors.Join(err, r.samples.Write(samples))
	}()
	for position, cell := range visit.Cells {
		result, stages, err := r.call(ctx, cell, visit.Requests)
		entry.Collections += int(result.Collections)
		for i, record := range result.Records {
			sample := Sample{
				Cell: cell, Block: visit.Block, Attempt: attempt, Position: position + 1,
				Due: result.Started.Add(record.Intended), Sent: result.Started.Add(record.Start), Record: record,
			}
			if stages != nil {
				sample.Pod = stages[i]
			}
			samples = append(samples, sample)
		}
		if err != nil {
			return false, fmt.Errorf("measure %s: %w", cell, err)
		}
		if err := allFailed(cell, result.Records); err != nil {
			return false, err
		}
	}
	entry.After, good, err = r.checkLinks(ctx)
	return good, err
}

// call makes the requests of a cell in one visit. The stages are those of cold
// starts, one for each record.
func (r *run) call(ctx context.Context, cell Cell, requests int) (load.Result, []Stages, error) {
	if r.plan.Load.Cold() {
		return r.startCold(ctx, cell, requests)
	}
	result, err := r.Client.Run(ctx, r.plan.job(cell, requests))
	return result, nil, err
}

// allFailed is an error when no request of a job was good. Going on would only
// collect more of the same.
func allFailed(cell Cell, records []load.Record) error {
	for _, record := range records {
		if record.Error == "" {
			return nil
		}
	}
	return verdict{fmt.Errorf("all %d requests of %s failed; the last one: %s", len(records), cell, describeFailure(records[len(records)-1]))}
}

func (r *run) setLinks(ctx context.Context, scenario string) error {
	for _, id := range sortedKeys(r.before) {
		if err := r.Links.Apply(ctx, id, r.profile(scenario, id)); err != nil {
			return fmt.Errorf("set link %q for scenario %q: %w", id, scenario, err)
		}
	}
	return nil
}

// profile is what a link has during a scenario.
func (r *run) profile(scenario, link string) netem.Profile {
	if profile, ok := r.plan.Scenarios[scenario][link]; ok {
		return profile
	}
	return r.before[link]
}

// checkLinks reads every link back and verifies it.
func (r *run) checkLinks(ctx context.Context) (checks []LinkCheck, good bool, err error) {
	good = true
	for _, id := range sortedKeys(r.before) {
		profile, err := r.Links.Observe(ctx, id)
		if err != nil {
			return checks, false, fmt.Errorf("read link %q back: %w", id, err)
		}
		check := LinkCheck{Link: id, Profile: profile}
		measured, err := r.Links.Verify(ctx, id)
		if ctx.Err() != nil {
			return checks, false, context.Cause(ctx)
		}
		check.Measured = measured
		if err != nil {
			good, check.Problem = false, err.Error()
		}
		checks = append(checks, check)
	}
	return checks, good, nil
}

// judge fails a run with a cell that failed too often or never did what its
// connection mode says.
func (r *run) judge(results []Result) error {
	var problems []error
	for _, result := range results {
		all := result.Count + result.Errors
		ratio := float64(result.Errors) / float64(max(all, 1))
		switch {
		case ratio > r.plan.MaxErrorRatio:
			problems = append(problems, fmt.Errorf("%d of %d requests of %s failed, a share above %g; the last one: %s",
				result.Errors, all, result.Cell, r.plan.MaxErrorRatio, r.tally.endsOf(result.Cell).failure))
		case result.Count == 0:
			problems = append(problems, fmt.Errorf("no request of %s used a connection that was kept; the server closes connections, or sooner than the think time of %s ends", result.Cell, r.plan.Load.ThinkTime))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return verdict{errors.Join(problems...)}
}
