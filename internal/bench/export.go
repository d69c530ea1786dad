package bench

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// The files in the folder of a run that other tools read. Nothing is made from
// them: they follow from the samples.
const (
	SummaryFile   = "summary.json"
	HistogramsDir = "histograms" // one file a cell for plotters of HdrHistogram
	FortioDir     = "fortio"     // one file a cell as fortio writes it
)

// summary is the summary file of a run.
type summary struct {
	Run         string       `json:"run"`
	Started     time.Time    `json:"started"`
	Finished    time.Time    `json:"finished"`
	State       State        `json:"state"`
	Results     []Result     `json:"results"`
	Comparisons []Comparison `json:"comparisons"`
}

// exports returns the files of other tools by their paths in the folder, which
// use slashes.
func exports(record *Record, tally *Tally, s summary) (map[string][]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the summary of the run: %w", err)
	}
	files := map[string][]byte{SummaryFile: append(text, '\n')}
	counted := tally.Counted()
	for _, cell := range record.Plan.cells() {
		times, ends := timesOf(counted[cell]).values, tally.endsOf(cell)
		if len(times) > 0 {
			if files[HistogramsDir+"/"+cellFile(cell)+".hgrm"], err = percentiles(times); err != nil {
				return nil, fmt.Errorf("make the histogram of %s: %w", cell, err)
			}
		}
		if len(times)+len(ends.failed) > 0 {
			text, err := json.MarshalIndent(fortioOf(s, record.Plan, cell, times, ends), "", "  ")
			if err != nil {
				return nil, fmt.Errorf("encode the fortio result of %s: %w", cell, err)
			}
			files[FortioDir+"/"+cellFile(cell)+".json"] = append(text, '\n')
		}
	}
	return files, nil
}

// cellFile returns the name of a cell's files without their ending. Whatever is
// not plain is written as its hexadecimal code, so that no two cells share one.
func cellFile(cell Cell) string {
	var name strings.Builder
	for i, part := range []string{cell.Function, cell.Scenario, string(cell.Connection), cell.Arm} {
		if i > 0 {
			name.WriteByte('.')
		}
		for _, b := range []byte(part) {
			switch {
			case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '_':
				name.WriteByte(b)
			default:
				fmt.Fprintf(&name, "%%%02x", b)
			}
		}
	}
	return name.String()
}

// greatestTime bounds what a histogram can hold. A request that takes longer
// has long run into its timeout.
const greatestTime = time.Hour

// histogram counts times, which are milliseconds, with that many significant
// digits of nanoseconds.
func histogram(times []float64, digits int) (*hdrhistogram.Histogram, error) {
	h := hdrhistogram.New(1, int64(greatestTime), digits)
	for _, ms := range times {
		if err := h.RecordValue(min(int64(math.Round(ms*1e6)), int64(greatestTime))); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// percentiles returns the percentile distribution of times in the text that
// plotters of HdrHistogram read, in milliseconds.
func percentiles(times []float64) ([]byte, error) {
	h, err := histogram(times, 3)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	_, err = h.PercentilesPrint(&text, 5, 1e6)
	return text.Bytes(), err
}

// fortio is a result as fortio writes it, as far as it can be said of a cell.
// Histograms are seconds and durations nanoseconds.
type fortio struct {
	RunType                 string
	Labels                  string
	StartTime               time.Time
	RequestedQPS            string
	RequestedDuration       string
	ActualQPS               float64
	ActualDuration          time.Duration
	NumThreads              int
	DurationHistogram       *fortioHistogram // of all requests
	ErrorsDurationHistogram *fortioHistogram // of the failed ones among them
	Exactly                 int64
	Uniform                 bool
	RunID                   int64
	ID                      string
	RetCodes                map[int]int64 // by HTTP status, -1 for those without an answer
	URL                     string
	H2                      bool
	DisableKeepAlive        bool
	HTTPReqTimeOut          time.Duration
}

type fortioHistogram struct {
	Count       int64
	Min         float64
	Max         float64
	Sum         float64
	Avg         float64
	StdDev      float64
	Data        []fortioBucket
	Percentiles []fortioPercentile `json:",omitempty"`
}

type fortioBucket struct {
	Start, End float64
	Percent    float64 // of all up to End
	Count      int64
}

type fortioPercentile struct{ Percentile, Value float64 }

// fortioOf describes a cell from the sorted times that count.
func fortioOf(s summary, plan Plan, cell Cell, times []float64, ends *ends) fortio {
	all := slices.Sorted(slices.Values(slices.Concat(times, ends.failed)))
	f := fortio{
		RunType:           "HTTP",
		Labels:            s.Run + ": " + strings.Join([]string{cell.Function, cell.Scenario, string(cell.Connection), cell.Arm}, ", "),
		StartTime:         s.Started,
		RequestedQPS:      "max",
		RequestedDuration: fmt.Sprintf("exactly %d calls", plan.Requests),
		ActualDuration:    ends.spent,
		NumThreads:        plan.Load.Workers() * plan.clients(),
		DurationHistogram: fortioHistogramOf(all),
		Exactly:           int64(plan.Requests),
		ID:                s.Run + "." + cellFile(cell),
		RetCodes:          map[int]int64{},
		URL:               plan.Arms[cell.Arm].URLs[cell.Function],
		H2:                plan.Functions[cell.Function].protocol() != load.HTTP1,
		DisableKeepAlive:  cell.Connection == load.New,
		HTTPReqTimeOut:    plan.Timeout,

		ErrorsDurationHistogram: fortioHistogramOf(slices.Sorted(slices.Values(ends.failed))),
	}
	if plan.Load.Open() {
		f.RequestedQPS, f.Uniform = fmt.Sprint(plan.Load.Rate), plan.Load.Arrivals != load.Poisson
	}
	if ends.spent > 0 {
		f.ActualQPS = float64(len(all)) / ends.spent.Seconds()
	}
	for status, count := range ends.statuses {
		if status == 0 {
			status = -1
		}
		f.RetCodes[status] += int64(count)
	}
	return f
}

// fortioHistogramOf describes sorted times. Percentiles are exact, unlike
// fortio's own, and left out where fewer than ten times lie beyond them.
func fortioHistogramOf(times []float64) *fortioHistogram {
	h := &fortioHistogram{Count: int64(len(times)), Data: []fortioBucket{}}
	if len(times) == 0 {
		return h
	}
	const second = 1e3 // in milliseconds
	mean, deviation := meanAndDeviation(times)
	h.Min, h.Max, h.Avg = times[0]/second, times[len(times)-1]/second, mean/second
	h.Sum = h.Avg * float64(len(times))
	if len(times) > 1 {
		h.StdDev = deviation / second
	}
	h.Data = fortioBuckets(times)
	for _, p := range []float64{50, 75, 90, 99, 99.9} {
		if float64(len(times))*(100-p) >= 10*100 {
			h.Percentiles = append(h.Percentiles, fortioPercentile{p, quantile(times, p/100) / second})
		}
	}
	return h
}

// fortioBuckets counts sorted times, in milliseconds, in buckets of which each
// ends 5 % above its start. The first starts at the least time and the last
// ends at the greatest one.
func fortioBuckets(times []float64) []fortioBucket {
	const second, width = 1e3, 1.05
	greatest := times[len(times)-1]
	var buckets []fortioBucket
	for i := 0; i < len(times); {
		end := min(max(times[i], 1e-6)*width, greatest)
		next := i + countUpTo(times[i:], end)
		buckets = append(buckets, fortioBucket{
			Start: times[i] / second, End: end / second,
			Percent: 100 * float64(next) / float64(len(times)), Count: int64(next - i),
		})
		i = next
	}
	return buckets
}

// countUpTo returns how many of sorted times are at most a limit.
func countUpTo(times []float64, limit float64) int {
	n, _ := slices.BinarySearchFunc(times, limit, func(time, limit float64) int {
		if time <= limit {
			return -1
		}
		return cmp.Compare(time, limit)
	})
	return n
}

// writeExports writes the files of other tools.
func (r *run) writeExports(report *Report) error {
	files, err := exports(&r.record, r.tally, summary{
		Run: filepath.Base(r.Dir), Started: r.record.Started, Finished: r.record.Finished, State: r.progress.State,
		Results: report.Results, Comparisons: report.Comparisons,
	})
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(files) {
		path := filepath.Join(r.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := replace(path, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// DigestsFile lists the SHA-256 of every other file in the folder of a run, as
// sha256sum -c reads it.
const DigestsFile = "SHA256SUMS"

// digests returns the SHA-256 in hex of every file in the folder of a run, by
// its path in the folder, which uses slashes.
func digests(dir string) (map[string]string, error) {
	found := map[string]string{}
	folder := os.DirFS(dir)
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == DigestsFile {
			return err
		}
		file, err := folder.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return err
		}
		found[name] = hex.EncodeToString(sum.Sum(nil))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("digest the files in %s: %w", dir, err)
	}
	return found, nil
}

// writeDigests writes the digests of the files in the folder and returns them.
func writeDigests(dir string) (map[string]string, error) {
	found, err := digests(dir)
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for _, name := range sortedKeys(found) {
		fmt.Fprintf(&lines, "%s  %s\n", found[name], name)
	}
	return found, replace(filepath.Join(dir, DigestsFile), lines.Bytes())
}

// Remove removes files in the folder of a run by their paths in it, which use
// slashes, and the folder with them. What is gone already is no error; what a
// person has put there is, since the folder stays for it.
func Remove(dir string, names []string) error {
	folders := map[string]bool{dir: true}
	for _, name := range append(names, DigestsFile) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the results: %w", err)
		}
		folders[filepath.Dir(path)] = true
	}
	// A folder comes after those that are in it.
	for _, folder := range slices.Backward(sortedKeys(folders)) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the results: %w", err)
		}
	}
	return nil
}
