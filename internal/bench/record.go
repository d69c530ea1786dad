package bench

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Record is the environment file of a run: what was planned, where it took
// place and what the links were around each visit.
type Record struct {
	Started     time.Time     `json:"started"`
	Finished    time.Time     `json:"finished"`
	Completed   bool          `json:"completed"` // false when the run failed or was cancelled
	Plan        Plan          `json:"plan"`
	Environment any           `json:"environment"`
	Visits      []VisitRecord `json:"visits"`

	// A run that was interrupted and gone on with has earlier parts. Started is
	// that of the first part, Environment that of the last one.
	Earlier []Part     `json:"earlier,omitempty"`
	Resumed *time.Time `json:"resumed,omitempty"` // start of the last part
}

// Part is a part of a run up to an interruption.
type Part struct {
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended"`  // as far as is known
	Visits      int       `json:"visits"` // made since the start of the run
	Environment any       `json:"environment"`
}

// VisitRecord is one attempt at a visit.
type VisitRecord struct {
	Block       int         `json:"block"`
	Scenario    string      `json:"scenario"`
	Attempt     int         `json:"attempt"`
	Started     time.Time   `json:"started"`
	Valid       bool        `json:"valid"`
	Interrupted bool        `json:"interrupted,omitempty"` // the run ended before its block did
	Collections int         `json:"collections"`           // garbage collections of the client during requests
	Before      []LinkCheck `json:"before"`
	After       []LinkCheck `json:"after"`
}

// LinkCheck is one link as it was read back and measured.
type LinkCheck struct {
	Link     string        `json:"link"`
	Profile  netem.Profile `json:"profile"`
	Measured any           `json:"measured"`
	Problem  string        `json:"problem,omitempty"`
}

// lastProblem returns why the last visit of a scenario was invalid.
func (r *Record) lastProblem(scenario string) string {
	problem := ""
	for _, visit := range r.Visits {
		for _, check := range append(visit.Before, visit.After...) {
			if visit.Scenario == scenario && check.Problem != "" {
				problem = fmt.Sprintf("link %q: %s", check.Link, check.Problem)
			}
		}
	}
	return problem
}

// write replaces the environment file.
func (r *Record) write(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the environment of the run: %w", err)
	}
	return replace(filepath.Join(dir, EnvironmentFile), append(text, '\n'))
}
