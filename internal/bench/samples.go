package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/zstd"
)

// The files in the folder of a run.
const (
	SamplesFile     = "samples.csv.zst"
	EnvironmentFile = "environment.json"
	partial         = ".partial" // suffix until the file is whole

	plainSamplesFile = "samples.csv" // what earlier versions wrote
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
	{"client", func(s Sample) string { return strconv.Itoa(s.Client) }},
	{"seq", func(s Sample) string { return strconv.Itoa(s.Seq) }},
	{"warmup", func(s Sample) string { return strconv.FormatBool(s.Warmup) }},
	{"intended_unix_ns", func(s Sample) string { return strconv.FormatInt(s.Due.UnixNano(), 10) }},
	{"sent_unix_ns", func(s Sample) string { return strconv.FormatInt(s.Sent.UnixNano(), 10) }},
	{"dns_ns", func(s Sample) string { return nanoseconds(int64(s.DNS)) }},
	{"connect_ns", func(s Sample) string { return nanoseconds(int64(s.Connect)) }},
	{"tls_ns", func(s Sample) string { return nanoseconds(int64(s.TLS)) }},
	{"write_ns", func(s Sample) string { return nanoseconds(int64(s.Write)) }},
	{"first_byte_ns", func(s Sample) string { return nanoseconds(int64(s.FirstByte)) }},
	{"read_ns", func(s Sample) string { return nanoseconds(int64(s.Read)) }},
	{"lag_ns", func(s Sample) string { return nanoseconds(int64(s.Lag)) }},
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

// SampleWriter writes the samples file of a run: CSV, since every tool reads
// it and a file that ends early can still be read, and compressed, since a run
// may have millions of requests. What is written at a time is one zstd frame,
// so that the file is whole after each of them; frames in a row are one file to
// every decoder. The file has its name only when it is closed.
type SampleWriter struct {
	path    string
	file    *os.File
	sum     hash.Hash
	size    int64 // of what is in the file
	encoder *zstd.Encoder
	text    bytes.Buffer
	csv     *csv.Writer
}

// NewSampleWriter starts the samples file in the folder of a run, which has to
// be there. What an earlier one has not closed is overwritten.
func NewSampleWriter(dir string) (*SampleWriter, error) {
	w := &SampleWriter{path: filepath.Join(dir, SamplesFile), sum: sha256.New()}
	var err error
	if w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	if w.file, err = os.OpenFile(w.path+partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	w.csv = csv.NewWriter(&w.text)
	header := make([]string, len(columns))
	for i, column := range columns {
		header[i] = column.name
	}
	if err := errors.Join(w.csv.Write(header), w.Write(nil)); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

// Write appends samples and hands them to the system.
func (w *SampleWriter) Write(samples []Sample) error {
	w.encoder.Reset(io.MultiWriter(w.file, w.sum, (*counter)(&w.size)))
	row := make([]string, len(columns))
	for i := range samples {
		for j, column := range columns {
			row[j] = column.print(samples[i])
		}
		if err := w.csv.Write(row); err != nil {
			return fmt.Errorf("write %s: %w", w.path, err)
		}
		if w.text.Len() > chunk {
			if err := w.compress(); err != nil {
				return err
			}
		}
	}
	if err := w.compress(); err != nil {
		return err
	}
	if err := w.encoder.Close(); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

// chunk is how much text waits for its compression.
const chunk = 1 << 20

func (w *SampleWriter) compress() error {
	w.csv.Flush()
	if _, err := w.text.WriteTo(w.encoder); err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return nil
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Close gives the file its name and returns its SHA-256 in hex.
func (w *SampleWriter) Close() (digest string, err error) {
	defer w.file.Close()
	if err := w.file.Sync(); err != nil {
		return "", fmt.Errorf("write %s: %w", w.path, err)
	}
	if err := os.Rename(w.path+partial, w.path); err != nil {
		return "", fmt.Errorf("write %s: %w", w.path, err)
	}
	return hex.EncodeToString(w.sum.Sum(nil)), nil
}

// SamplesPath returns the path of the samples in the folder of a run, of
// whichever version it is. The error wraps fs.ErrNotExist when it has none.
func SamplesPath(dir string) (string, error) {
	path := filepath.Join(dir, SamplesFile)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		plain := filepath.Join(dir, plainSamplesFile)
		if _, plainErr := os.Stat(plain); plainErr == nil {
			return plain, nil
		}
	}
	return path, err
}

// ReadSamples hands over each sample in the folder of a run, in the order in
// which they were taken. A sample is overwritten by the next one.
func ReadSamples(dir string, take func(*Sample)) error { return readSamples(dir, nil, take) }

// readSamples reads the columns of the given names, all when there are none.
func readSamples(dir string, columns []string, take func(*Sample)) error {
	path, err := SamplesPath(dir)
	if err != nil {
		return fmt.Errorf("read the results in %s: %w", dir, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the results in %s: %w", dir, err)
	}
	defer file.Close()
	text := io.Reader(file)
	if filepath.Ext(path) == ".zst" {
		decoder, err := zstd.NewReader(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer decoder.Close()
		text = decoder
	}
	if err := parseSamples(text, columns, take); err != nil {
		return fmt.Errorf("read %s of %s: %w", filepath.Base(path), dir, err)
	}
	return nil
}
