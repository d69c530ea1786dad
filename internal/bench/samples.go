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
	"strings"

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
	{"pod_created_ns", func(s Sample) string { return nanoseconds(int64(s.Pod.Created)) }},
	{"pod_scheduled_ns", func(s Sample) string { return nanoseconds(int64(s.Pod.Scheduled)) }},
	{"pod_started_ns", func(s Sample) string { return nanoseconds(int64(s.Pod.Started)) }},
	{"pod_ready_ns", func(s Sample) string { return nanoseconds(int64(s.Pod.Ready)) }},
	{"pod_within_ns", func(s Sample) string { return nanoseconds(int64(s.Pod.Within)) }},
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
	count   int   // samples in the file
	encoder *zstd.Encoder
	text    bytes.Buffer
	csv     *csv.Writer
}

// NewSampleWriter starts the samples file in the folder of a run, which has to
// be there. What an earlier one has not closed is overwritten, unless that is
// still at work.
func NewSampleWriter(dir string) (*SampleWriter, error) {
	w, err := openSamples(dir)
	if err != nil {
		return nil, err
	}
	if err := w.file.Truncate(0); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	w.text.WriteString(headerLine())
	if err := w.Write(nil); err != nil {
		_ = w.file.Close()
		return nil, err
	}
	return w, nil
}

func openSamples(dir string) (*SampleWriter, error) {
	w := &SampleWriter{path: filepath.Join(dir, SamplesFile), sum: sha256.New()}
	w.csv = csv.NewWriter(&w.text)
	var err error
	if w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	if w.file, err = os.OpenFile(w.path+partial, os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, fmt.Errorf("write the samples: %w", err)
	}
	if err := lock(w.file); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("lock %s: %w", w.file.Name(), err)
	}
	return w, nil
}

// reopenSamples goes on with a samples file that was not closed. It hands over
// the samples in the first size bytes, which are whole frames. Those after them
// stay in the file and are marked as not valid, as far as they were written.
func reopenSamples(dir string, size int64, take func(*Sample)) (*SampleWriter, error) {
	w, err := openSamples(dir)
	if err != nil {
		return nil, err
	}
	if err := w.goOn(size, take); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("go on with %s: %w", w.file.Name(), err)
	}
	return w, nil
}

func (w *SampleWriter) goOn(size int64, take func(*Sample)) error {
	kept := io.TeeReader(io.LimitReader(w.file, size), io.MultiWriter(w.sum, (*counter)(&w.size)))
	count := func(s *Sample) {
		w.count++
		take(s)
	}
	if err := parseCompressed(kept, "", count); err != nil {
		return err
	}
	if w.size != size {
		return fmt.Errorf("it has %d bytes, and should have %d at least", w.size, size)
	}
	rest, err := io.ReadAll(w.file)
	if err != nil {
		return err
	}
	if err := w.file.Truncate(size); err != nil {
		return err
	}
	if _, err := w.file.Seek(size, io.SeekStart); err != nil {
		return err
	}
	var cut []Sample
	// The last frame may lack its end; what is before that is all there is.
	_ = parseCompressed(bytes.NewReader(rest), headerLine(), func(s *Sample) {
		s.Valid = false
		cut = append(cut, *s)
	})
	return w.Write(cut)
}

// parseCompressed hands over the samples in frames that follow a header.
func parseCompressed(frames io.Reader, header string, take func(*Sample)) error {
	decoder, err := zstd.NewReader(frames)
	if err != nil {
		return err
	}
	defer decoder.Close()
	return parseSamples(io.MultiReader(strings.NewReader(header), decoder), nil, take)
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
		w.count++
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

// leave lets go of the file without giving it its name, so that it can be gone
// on with, and returns its path and its SHA-256 in hex.
func (w *SampleWriter) leave() (path, digest string, err error) {
	if err := w.file.Close(); err != nil {
		return "", "", fmt.Errorf("write %s: %w", w.file.Name(), err)
	}
	return w.file.Name(), hex.EncodeToString(w.sum.Sum(nil)), nil
}

// SamplesPath returns the path of the samples in the folder of a run, of
// whichever version it is and however the run ended. The error wraps
// fs.ErrNotExist when it has none.
func SamplesPath(dir string) (string, error) {
	path := filepath.Join(dir, SamplesFile)
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	for _, other := range []string{path + partial, filepath.Join(dir, plainSamplesFile)} {
		if _, err := os.Stat(other); err == nil {
			return other, nil
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
	if filepath.Base(path) != plainSamplesFile {
		decoder, err := zstd.NewReader(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		defer decoder.Close()
		text = decoder
	}
	err = parseSamples(text, columns, take)
	if errors.Is(err, io.ErrUnexpectedEOF) && filepath.Ext(path) == partial {
		return nil // the process that wrote it was killed
	}
	if err != nil {
		return fmt.Errorf("read %s of %s: %w", filepath.Base(path), dir, err)
	}
	return nil
}
