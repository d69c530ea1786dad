package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ProgressFile is the file in the folder of a run that says how far the run is.
const ProgressFile = "progress.json"

// State is what became of a run.
type State string

const (
	// Running is the state of a run at work, or of one whose process was killed.
	Running State = "running"
	// Interrupted is the state of a run that did not come to its end: it was
	// cancelled, ran out of time, or lost what it needs. It can be gone on with.
	Interrupted State = "interrupted"
	// Failed is the state of a run that measured, and found that what it
	// measured is no result. Going on with it would not mend that.
	Failed State = "failed"
	// Completed is the state of a run that has its results.
	Completed State = "completed"
)

// Progress is how far a run is.
type Progress struct {
	Run      string        `json:"run"`
	State    State         `json:"state"`
	Block    int           `json:"block"` // at work, from 1
	Blocks   int           `json:"blocks"`
	Visit    int           `json:"visit"` // at work, from 1
	Visits   int           `json:"visits"`
	Scenario string        `json:"scenario"`
	Left     time.Duration `json:"left"`     // nanoseconds, estimated from the visits so far; 0 before the first one
	Requests int           `json:"requests"` // in the samples file so far, warm-up included
	Started  time.Time     `json:"started"`
	Updated  time.Time     `json:"updated"`

	// Digest is the SHA-256 of the plan and of the inputs, in hex. A run is gone
	// on with only when it is the same.
	Digest string `json:"plan_sha256"`
	// FinishedBlocks are whole, and so are the first FinishedBytes of the samples
	// file, which hold their requests.
	FinishedBlocks int   `json:"finished_blocks"`
	FinishedBytes  int64 `json:"finished_bytes"`
}

// write replaces the progress file.
func (p Progress) write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the progress of the run: %w", err)
	}
	return replace(filepath.Join(dir, ProgressFile), append(text, '\n'))
}

// ReadProgress reads the progress file in the folder of a run. The error wraps
// fs.ErrNotExist when there is none.
func ReadProgress(dir string) (Progress, error) {
	var p Progress
	text, err := os.ReadFile(filepath.Join(dir, ProgressFile))
	if err != nil {
		return p, fmt.Errorf("read the progress of the run: %w", err)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read %s of %s: %w", ProgressFile, dir, err)
	}
	return p, nil
}

// replace gives a file its content at once.
func replace(path string, content []byte) error {
	if err := os.WriteFile(path+partial, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+partial, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// digest returns what has to be the same for two parts of a run to be one: the
// plan, the inputs, and the columns of the samples file.
func digest(plan Plan, inputs Inputs) (string, error) {
	sum := sha256.New()
	for _, part := range []any{plan, inputs, header()} {
		text, err := json.Marshal(part)
		if err != nil {
			return "", fmt.Errorf("encode the plan of the run: %w", err)
		}
		sum.Write(append(text, '\n'))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Resumable returns the folder, among those in a folder of results, of the last
// run with that plan and those inputs that did not come to its end; "" when
// there is none, or when another process is at work on it.
func Resumable(results string, plan Plan, inputs Inputs) (string, error) {
	wanted, err := digest(plan, inputs)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(results)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for a run to go on with: %w", err)
	}
	last, found := Progress{}, ""
	for _, entry := range entries {
		dir := filepath.Join(results, entry.Name())
		p, err := ReadProgress(dir)
		if err != nil || !p.resumable(wanted) || !p.Started.After(last.Started) || !p.free(dir) {
			continue // a folder of another kind, or of a run that is over
		}
		last, found = p, dir
	}
	return found, nil
}

// resumable tells whether a run of that digest can go on from here.
func (p Progress) resumable(digest string) bool {
	return p.Digest == digest && (p.State == Running || p.State == Interrupted)
}

// free tells whether what the progress says is finished is there and nobody
// goes on with it.
func (p Progress) free(dir string) bool {
	file, err := os.Open(filepath.Join(dir, SamplesFile+partial))
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	return err == nil && info.Size() >= p.FinishedBytes && lock(file) == nil
}

// open makes the folder of the run, or goes on in one that Resumable returned.
func (r *run) open() error {
	var err error
	if r.progress.Digest, err = digest(r.plan, r.Inputs); err != nil {
		return err
	}
	before, err := ReadProgress(r.Dir)
	switch {
	case err == nil && before.resumable(r.progress.Digest):
		return r.goOn(before)
	case err == nil:
		return fmt.Errorf("the folder %s has another run, which is %s", r.Dir, before.State)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of the run: %w", err)
	}
	if r.samples, err = NewSampleWriter(r.Dir); err != nil {
		return err
	}
	r.progress.FinishedBytes = r.samples.size
	if err := r.writeInputs(); err != nil {
		_, _, closeErr := r.samples.leave()
		return errors.Join(err, closeErr)
	}
	return nil
}

// writeInputs writes the files that repeat the run, when it has inputs.
func (r *run) writeInputs() error {
	if r.Inputs == nil {
		return nil
	}
	variables, err := r.Inputs.Variables()
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(r.Dir, InputsFile), variables); err != nil {
		return err
	}
	return replace(filepath.Join(r.Dir, ModuleFile), r.Inputs.Module())
}

// goOn takes over the blocks that were finished before the run was interrupted.
// What was measured of the block after them stays in the files and is part of
// no summary, since that block is measured as a whole once more: its requests
// have to share their time.
func (r *run) goOn(before Progress) error {
	text, err := os.ReadFile(filepath.Join(r.Dir, EnvironmentFile))
	if err != nil {
		return fmt.Errorf("go on with the run in %s: %w", r.Dir, err)
	}
	var record Record
	if err := json.Unmarshal(text, &record); err != nil {
		return fmt.Errorf("go on with the run in %s: read %s: %w", r.Dir, EnvironmentFile, err)
	}
	if r.samples, err = reopenSamples(r.Dir, before.FinishedBytes, r.tally.Add); err != nil {
		return err
	}
	began := record.Started
	if record.Resumed != nil {
		began = *record.Resumed
	}
	r.record.Resumed, r.record.Started, r.record.Visits = new(r.record.Started), record.Started, record.Visits
	r.record.Earlier = append(record.Earlier, Part{
		Started: began, Ended: record.Finished, Visits: len(record.Visits), Environment: record.Environment,
	})
	for i := range r.record.Visits {
		if visit := &r.record.Visits[i]; visit.Block > before.FinishedBlocks {
			visit.Valid, visit.Interrupted = false, true
		}
	}
	r.progress.FinishedBlocks, r.progress.FinishedBytes = before.FinishedBlocks, before.FinishedBytes
	return nil
}

// save writes down how far the run is. The progress comes last: what it says is
// finished is in the other files.
func (r *run) save() error {
	r.record.Finished = r.Now().UTC()
	if err := r.record.write(r.Dir); err != nil {
		return err
	}
	p := r.progress
	p.Run, p.Started, p.Updated, p.Requests = filepath.Base(r.Dir), r.record.Started, r.record.Finished, r.samples.count
	return p.write(r.Dir)
}

// verdict is an error about what was measured.
type verdict struct{ error }

func (v verdict) Unwrap() error { return v.error }

// stateAfter returns what becomes of a run that ends with an error.
func stateAfter(err error) State {
	switch {
	case err == nil:
		return Completed
	case errors.As(err, new(verdict)):
		return Failed
	}
	return Interrupted
}

// attempts returns how many times the visit was made before.
func (r *Record) attempts(visit Visit) int {
	attempts := 0
	for _, made := range r.Visits {
		if made.Block == visit.Block && made.Scenario == visit.Scenario {
			attempts = max(attempts, made.Attempt)
		}
	}
	return attempts
}

// invalid counts the visits whose links were off.
func (r *Record) invalid() int {
	count := 0
	for _, visit := range r.Visits {
		if !visit.Valid && !visit.Interrupted {
			count++
		}
	}
	return count
}

// header returns the names of the columns of the samples file.
func header() []string {
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.name
	}
	return names
}

// headerLine is the header as it is in the file; no name needs quotes.
func headerLine() string { return strings.Join(header(), ",") + "\n" }
