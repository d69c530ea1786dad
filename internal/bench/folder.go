package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Folder is what a run left: all that is needed to summarise it again, on any
// machine.
type Folder struct {
	ID string // the folder's name
	Record
	*Tally // of all samples
}

// ReadFolder reads the folder of a run.
func ReadFolder(dir string) (Folder, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return Folder{}, fmt.Errorf("read the results in %s: %w", dir, err)
	}
	folder := Folder{ID: filepath.Base(absolute)}
	text, err := os.ReadFile(filepath.Join(absolute, EnvironmentFile))
	if err != nil {
		return Folder{}, fmt.Errorf("read the results in %s: %w", dir, err)
	}
	if err := json.Unmarshal(text, &folder.Record); err != nil {
		return Folder{}, fmt.Errorf("read %s of %s: %w", EnvironmentFile, dir, err)
	}
	folder.Tally = NewTally(folder.Plan)
	columns := slices.Concat(forTally, alsoForTally)
	if folder.Plan.Load.Cold() {
		columns = append(columns, forColdStarts...)
	}
	if err := readSamples(absolute, columns, folder.Add); err != nil {
		return Folder{}, err
	}
	return folder, nil
}

// Summarize returns the results and comparisons that the run itself reported.
func (f Folder) Summarize() ([]Result, []Comparison) { return Summarize(f.Plan, f.Tally) }

// Times returns the times of the requests that count, in milliseconds, by cell
// and block.
func (f Folder) Times() Times { return f.Counted() }
