package bench

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// Folder is what a run left: all that is needed to summarise it again, on any
// machine.
type Folder struct {
	ID string // the folder's name
	Record
	Samples []Sample // in the order in which they were taken
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
	file, err := os.Open(filepath.Join(absolute, SamplesFile))
	if err != nil {
		return Folder{}, fmt.Errorf("read the results in %s: %w", dir, err)
	}
	defer file.Close()
	if folder.Samples, err = parseSamples(file); err != nil {
		return Folder{}, fmt.Errorf("read %s of %s: %w", SamplesFile, dir, err)
	}
	return folder, nil
}

// Summarize returns the results and comparisons that the run itself reported.
func (f Folder) Summarize() ([]Result, []Comparison) { return Summarize(f.Plan, f.Samples) }

// Times returns the times of the requests that count, in milliseconds, by cell
// and block.
func (f Folder) Times() map[Cell]map[int][]float64 { return byBlock(f.Samples, Sample.counts) }

// readers set the field that a column of the samples file holds. A column that
// is none of them is left out, so that files of later versions can be read.
var readers = map[string]func(*Sample, string) error{
	"block":          func(s *Sample, v string) error { return readInt(&s.Block, v) },
	"attempt":        func(s *Sample, v string) error { return readInt(&s.Attempt, v) },
	"valid":          func(s *Sample, v string) error { return readBool(&s.Valid, v) },
	"position":       func(s *Sample, v string) error { return readInt(&s.Position, v) },
	"function":       func(s *Sample, v string) error { s.Function = v; return nil },
	"scenario":       func(s *Sample, v string) error { s.Scenario = v; return nil },
	"connection":     func(s *Sample, v string) error { s.Connection = load.Connection(v); return nil },
	"arm":            func(s *Sample, v string) error { s.Arm = v; return nil },
	"seq":            func(s *Sample, v string) error { return readInt(&s.Seq, v) },
	"warmup":         func(s *Sample, v string) error { return readBool(&s.Warmup, v) },
	"sent_unix_ns":   func(s *Sample, v string) error { return readTime(&s.Sent, v) },
	"dns_ns":         func(s *Sample, v string) error { return readInt(&s.DNS, v) },
	"connect_ns":     func(s *Sample, v string) error { return readInt(&s.Connect, v) },
	"tls_ns":         func(s *Sample, v string) error { return readInt(&s.TLS, v) },
	"write_ns":       func(s *Sample, v string) error { return readInt(&s.Write, v) },
	"first_byte_ns":  func(s *Sample, v string) error { return readInt(&s.FirstByte, v) },
	"total_ns":       func(s *Sample, v string) error { return readInt(&s.Total, v) },
	"bytes_sent":     func(s *Sample, v string) error { return readInt(&s.BytesSent, v) },
	"bytes_received": func(s *Sample, v string) error { return readInt(&s.BytesReceived, v) },
	"status":         func(s *Sample, v string) error { return readInt(&s.Status, v) },
	"conn":           func(s *Sample, v string) error { return readInt(&s.Conn, v) },
	"reused":         func(s *Sample, v string) error { return readBool(&s.Reused, v) },
	"error":          func(s *Sample, v string) error { s.Error = load.ErrorClass(v); return nil },
	"detail":         func(s *Sample, v string) error { s.Detail = v; return nil },
}

func readInt[T ~int | ~int64](into *T, text string) error {
	value, err := strconv.ParseInt(text, 10, 64)
	*into = T(value)
	return err
}

func readBool(into *bool, text string) (err error) {
	*into, err = strconv.ParseBool(text)
	return err
}

func readTime(into *time.Time, text string) error {
	var nanoseconds int64
	err := readInt(&nanoseconds, text)
	*into = time.Unix(0, nanoseconds).UTC()
	return err
}

// needed are the columns without which samples cannot be summarised.
var needed = []string{"block", "valid", "function", "scenario", "connection", "arm", "seq", "warmup", "total_ns", "reused", "error"}

// parseSamples reads what a sampleWriter writes.
func parseSamples(from io.Reader) ([]Sample, error) {
	rows := csv.NewReader(from)
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	names := slices.Clone(header)
	for _, name := range needed {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no column %q", name)
		}
	}
	var samples []Sample
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, err
		}
		var sample Sample
		for i, value := range row {
			if read, ok := readers[names[i]]; ok {
				if err := read(&sample, value); err != nil {
					line, _ := rows.FieldPos(i)
					return nil, fmt.Errorf("line %d, column %q: %w", line, names[i], err)
				}
			}
		}
		samples = append(samples, sample)
	}
}
