// Package report turns the folders that runs leave into a report: one HTML page
// that needs nothing but itself, its figures as SVG and PNG, its tables as CSV,
// LaTeX and Markdown, and the samples in the text format of Go benchmarks, which
// benchstat reads.
//
// A report is a function of the folders and of its options: it holds no time of
// its own making and no path, so the same runs give the same bytes.
package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// Format is one kind of file of a report.
type Format string

// The formats of a report.
const (
	HTML      Format = "html"
	SVG       Format = "svg"
	PNG       Format = "png"
	CSV       Format = "csv"
	LaTeX     Format = "latex"
	Markdown  Format = "markdown"
	Benchstat Format = "benchstat"
)

// Formats lists every format.
func Formats() []Format { return []Format{HTML, SVG, PNG, CSV, LaTeX, Markdown, Benchstat} }

// Options say what a report looks like.
type Options struct {
	Title   string   // the names of the runs when it is empty
	Formats []Format // all of them when it is empty
}

// ErrIncomparable says that runs have too little in common for one report.
var ErrIncomparable = errors.New("the runs cannot be compared")

// Build reads the folders of runs and returns the content of the report's
// files by their paths, which are relative and use slashes. The first run is
// the one that the others are compared with.
func Build(folders []string, options Options) (map[string][]byte, error) {
	_, files, err := assemble(folders, options)
	return files, err
}

// assemble returns what the files were made from, too.
func assemble(folders []string, options Options) (*report, map[string][]byte, error) {
	if len(folders) == 0 {
		return nil, nil, errors.New("a report needs the folder of a run at least")
	}
	if len(options.Formats) == 0 {
		options.Formats = Formats()
	}
	for _, format := range options.Formats {
		if !slices.Contains(Formats(), format) {
			return nil, nil, fmt.Errorf("%q is not a format of a report; the formats are %q", format, Formats())
		}
	}
	var read []bench.Folder
	for _, dir := range folders {
		folder, err := bench.ReadFolder(dir)
		if err != nil {
			return nil, nil, err
		}
		read = append(read, folder)
	}
	r, err := newReport(read, options.Title)
	if err != nil {
		return nil, nil, err
	}
	files, err := r.files(options.Formats)
	return r, files, err
}

// Write puts the files of a report below dir. Each one has its name only when
// it is whole.
func Write(dir string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		if err := os.WriteFile(path+".partial", content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		if err := os.Rename(path+".partial", path); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// report is what all files are made from.
type report struct {
	Title       string
	Runs        []*run
	Differences []difference // of the later runs against the first one
	figures     []figure     // the last ones compare runs
}

// difference is a later run against the first one.
type difference struct {
	Run, Base   *run
	Comparisons []bench.RunComparison
	Reasons     []string // why cells were left out
	figures     []figure
}

func newReport(folders []bench.Folder, title string) (*report, error) {
	r := &report{Title: title}
	seen := map[string]bool{}
	for _, folder := range folders {
		run, err := newRun(folder)
		if err != nil {
			return nil, err
		}
		if seen[run.ID] {
			return nil, fmt.Errorf("%w: two folders are named %q; give each run a folder name of its own", ErrIncomparable, run.ID)
		}
		seen[run.ID] = true
		r.Runs = append(r.Runs, run)
	}
	base := r.Runs[0]
	for _, run := range r.Runs[1:] {
		if run.Environment.Emulator != base.Environment.Emulator {
			return nil, fmt.Errorf("%w: the links of %s were emulated by %q and those of %s by %q, so their times differ by more than what was measured; make a report for each",
				ErrIncomparable, base.ID, base.Environment.Emulator, run.ID, run.Environment.Emulator)
		}
		d := difference{Run: run, Base: base}
		d.Comparisons, d.Reasons = bench.CompareRuns(base.Folder, run.Folder)
		slices.SortStableFunc(d.Comparisons, func(a, b bench.RunComparison) int { return run.compareCells(a.Cell, b.Cell) })
		if len(d.Comparisons) == 0 {
			d.Reasons = append(d.Reasons, "The runs have no cell in common.")
		}
		r.Differences = append(r.Differences, d)
	}
	if r.Title == "" {
		r.Title = base.Plan.Name
		for _, run := range r.Runs[1:] {
			if run.Plan.Name != base.Plan.Name {
				r.Title += ", " + run.Plan.Name
			}
		}
	}
	for i, run := range r.Runs {
		prefix := ""
		if len(r.Runs) > 1 {
			prefix = fmt.Sprintf("run%d-", i+1)
		}
		run.figures = run.draw(prefix)
		r.figures = append(r.figures, run.figures...)
	}
	for i := range r.Differences {
		d := &r.Differences[i]
		d.figures = d.draw(fmt.Sprintf("run%d-against-run1-", i+2))
		r.figures = append(r.figures, d.figures...)
	}
	return r, nil
}

func (r *report) files(formats []Format) (map[string][]byte, error) {
	files := map[string][]byte{}
	makers := map[Format]func(map[string][]byte) error{
		HTML: r.html, SVG: r.svg, PNG: r.png, CSV: r.csv, LaTeX: r.latex, Markdown: r.markdown, Benchstat: r.benchstat,
	}
	for _, format := range formats {
		if err := makers[format](files); err != nil {
			return nil, fmt.Errorf("make the report's %s: %w", format, err)
		}
	}
	return files, nil
}

func (r *report) svg(files map[string][]byte) error {
	for _, figure := range r.figures {
		files["figures/"+figure.Name+".svg"] = figure.file()
	}
	return nil
}

func (r *report) png(files map[string][]byte) error {
	for _, figure := range r.figures {
		picture, err := figure.picture()
		if err != nil {
			return err
		}
		files["figures/"+figure.Name+".png"] = picture
	}
	return nil
}
