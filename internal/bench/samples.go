package bench

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// The files in the folder of a run.
const (
	SamplesFile     = "samples.csv"
	EnvironmentFile = "environment.json"
	partial         = ".partial" // suffix until the file is whole
)

// columns is the header of the samples file and how each value is printed.
// Times are nanoseconds, sizes bytes.
var columns = []struct {
	name  string
	print func(Sample) string
}{
	{"block", func(s Sample) string { return strconv.Itoa(s.Block) }},
	{"attempt", func(s Sample) string { return strconv.Itoa(s.Attempt) }},
	{"valid", func(s Sample) string { return strconv.FormatBool(s.Valid) }},
	{"position", func(s Sample) string { return strconv.Itoa(s.Position) }},
	{"function", func(s Sample) string { return s.Function }},
	{"scenario", func(s Sample) string { return s.Scenario }},
	{"connection", func(s Sample) string { return string(s.Connection) }},
	{"arm", func(s Sample) string { return s.Arm }},
	{"seq", func(s Sample) string { return strconv.Itoa(s.Seq) }},
	{"warmup", func(s Sample) string { return strconv.FormatBool(s.Warmup) }},
	{"sent_unix_ns", func(s Sample) string { return strconv.FormatInt(s.Sent.UnixNano(), 10) }},
	{"dns_ns", func(s Sample) string { return nanoseconds(int64(s.DNS)) }},
	{"connect_ns", func(s Sample) string { return nanoseconds(int64(s.Connect)) }},
	{"tls_ns", func(s Sample) string { return nanoseconds(int64(s.TLS)) }},
	{"write_ns", func(s Sample) string { return nanoseconds(int64(s.Write)) }},
	{"first_byte_ns", func(s Sample) string { return nanoseconds(int64(s.FirstByte)) }},
	{"total_ns", func(s Sample) string { return nanoseconds(int64(s.Total)) }},
	{"bytes_sent", func(s Sample) string { return strconv.Itoa(s.BytesSent) }},
	{"bytes_received", func(s Sample) string { return strconv.Itoa(s.BytesReceived) }},
	{"status", func(s Sample) string { return strconv.Itoa(s.Status) }},
	{"conn", func(s Sample) string { return strconv.Itoa(s.Conn) }},
	{"reused", func(s Sample) string { return strconv.FormatBool(s.Reused) }},
	{"error", func(s Sample) string { return string(s.Error) }},
	{"detail", func(s Sample) string { return s.Detail }},
}

func nanoseconds(n int64) string { return strconv.FormatInt(n, 10) }

// sampleWriter writes the samples file of a run: plain CSV, since every tool
// opens it and a run makes some megabytes at most. The file has its name only
// when it is whole.
type sampleWriter struct {
	path string
	file *os.File
	sum  hash.Hash
	out  *bufio.Writer
	csv  *csv.Writer
}

func newSampleWriter(dir string) (*sampleWriter, error) {
	path := filepath.Join(dir, SamplesFile)
	file, err := os.OpenFile(path+partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	w := &sampleWriter{path: path, file: file, sum: sha256.New()}
	w.out = bufio.NewWriter(io.MultiWriter(file, w.sum))
	w.csv = csv.NewWriter(w.out)
	header := make([]string, len(columns))
	for i, column := range columns {
		header[i] = column.name
	}
	return w, w.csv.Write(header)
}

// write appends the samples of one visit and hands them to the system.
func (w *sampleWriter) write(samples []Sample) error {
	row := make([]string, len(columns))
	for _, sample := range samples {
		for i, column := range columns {
			row[i] = column.print(sample)
		}
		if err := w.csv.Write(row); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
	}
	return w.flush()
}

func (w *sampleWriter) flush() error {
	w.csv.Flush()
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

// close gives the file its name and returns its SHA-256 in hex.
func (w *sampleWriter) close() (digest string, err error) {
	defer w.file.Close()
	if err := w.flush(); err != nil {
		return "", err
	}
	if err := w.file.Sync(); err != nil {
		return "", fmt.Errorf("write %s: %w", w.path, err)
	}
	if err := os.Rename(w.path+partial, w.path); err != nil {
		return "", fmt.Errorf("write %s: %w", w.path, err)
	}
	return hex.EncodeToString(w.sum.Sum(nil)), nil
}
