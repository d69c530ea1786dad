package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// readers set the field that a column of the samples file holds. A column that
// is none of them is left out, so that files of later versions can be read.
var readers = map[string]func(*Sample, []byte) error{
	"block":            func(s *Sample, v []byte) error { return readInt(&s.Block, v) },
	"attempt":          func(s *Sample, v []byte) error { return readInt(&s.Attempt, v) },
	"valid":            func(s *Sample, v []byte) error { return readBool(&s.Valid, v) },
	"position":         func(s *Sample, v []byte) error { return readInt(&s.Position, v) },
	"function":         func(s *Sample, v []byte) error { return readText(&s.Function, v) },
	"scenario":         func(s *Sample, v []byte) error { return readText(&s.Scenario, v) },
	"connection":       func(s *Sample, v []byte) error { return readText(&s.Connection, v) },
	"arm":              func(s *Sample, v []byte) error { return readText(&s.Arm, v) },
	"seq":              func(s *Sample, v []byte) error { return readInt(&s.Seq, v) },
	"warmup":           func(s *Sample, v []byte) error { return readBool(&s.Warmup, v) },
	"sent_unix_ns":     func(s *Sample, v []byte) error { return readTime(&s.Sent, v) },
	"intended_unix_ns": func(s *Sample, v []byte) error { return readTime(&s.Due, v) },
	"client":           func(s *Sample, v []byte) error { return readInt(&s.Client, v) },
	"read_ns":          func(s *Sample, v []byte) error { return readInt(&s.Read, v) },
	"lag_ns":           func(s *Sample, v []byte) error { return readInt(&s.Lag, v) },
	"dns_ns":           func(s *Sample, v []byte) error { return readInt(&s.DNS, v) },
	"connect_ns":       func(s *Sample, v []byte) error { return readInt(&s.Connect, v) },
	"tls_ns":           func(s *Sample, v []byte) error { return readInt(&s.TLS, v) },
	"write_ns":         func(s *Sample, v []byte) error { return readInt(&s.Write, v) },
	"first_byte_ns":    func(s *Sample, v []byte) error { return readInt(&s.FirstByte, v) },
	"total_ns":         func(s *Sample, v []byte) error { return readInt(&s.Total, v) },
	"bytes_sent":       func(s *Sample, v []byte) error { return readInt(&s.BytesSent, v) },
	"bytes_received":   func(s *Sample, v []byte) error { return readInt(&s.BytesReceived, v) },
	"status":           func(s *Sample, v []byte) error { return readInt(&s.Status, v) },
	"conn":             func(s *Sample, v []byte) error { return readInt(&s.Conn, v) },
	"reused":           func(s *Sample, v []byte) error { return readBool(&s.Reused, v) },
	"error":            func(s *Sample, v []byte) error { return readText(&s.Error, v) },
	"detail":           func(s *Sample, v []byte) error { return readText(&s.Detail, v) },
	"pod_created_ns":   func(s *Sample, v []byte) error { return readInt(&s.Pod.Created, v) },
	"pod_scheduled_ns": func(s *Sample, v []byte) error { return readInt(&s.Pod.Scheduled, v) },
	"pod_started_ns":   func(s *Sample, v []byte) error { return readInt(&s.Pod.Started, v) },
	"pod_ready_ns":     func(s *Sample, v []byte) error { return readInt(&s.Pod.Ready, v) },
	"pod_within_ns":    func(s *Sample, v []byte) error { return readInt(&s.Pod.Within, v) },
}

// forTally are the columns that a tally needs. A file without one of them
// cannot be summarised.
var forTally = []string{"block", "valid", "function", "scenario", "connection", "arm", "seq", "warmup", "total_ns", "reused", "error"}

// alsoForTally are columns that files of earlier versions may lack.
var alsoForTally = []string{"lag_ns", "status", "intended_unix_ns"}

// forColdStarts are the columns that a tally of cold starts needs besides.
var forColdStarts = []string{"pod_created_ns", "pod_scheduled_ns", "pod_started_ns", "pod_ready_ns"}

// readInt reads a decimal number. It does what strconv.ParseInt does without
// its allocation, which is most of the work in a file of millions of lines.
func readInt[T ~int | ~int64](into *T, text []byte) error {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > len("9223372036854775807") {
		value, err := strconv.ParseInt(string(text), 10, 64)
		*into = T(value)
		return err
	}
	var value uint64
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return strconv.ErrSyntax
		}
		value = 10*value + uint64(digit-'0')
	}
	if value > math.MaxInt64 {
		return strconv.ErrRange
	}
	*into = T(value)
	if negative {
		*into = -*into
	}
	return nil
}

func readBool(into *bool, text []byte) error {
	switch string(text) {
	case "true":
		*into = true
	case "false":
		*into = false
	default:
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

// readText leaves a text that is the same as the last one where it is.
func readText[T ~string](into *T, text []byte) error {
	if string(*into) != string(text) {
		*into = T(text)
	}
	return nil
}

func readTime(into *time.Time, text []byte) error {
	var nanoseconds int64
	err := readInt(&nanoseconds, text)
	*into = time.Unix(0, nanoseconds).UTC()
	return err
}

// parseSamples reads what a sampleWriter writes and hands over each sample,
// which is overwritten afterwards. It reads the columns of the given names, all
// when there are none; a file without one of forTally is refused. Reading goes
// on while samples are taken.
func parseSamples(from io.Reader, columns []string, take func(*Sample)) error {
	rows, err := newRowReader(from, columns)
	if err != nil {
		return err
	}
	read, taken := make(chan []Sample), make(chan []Sample, 2)
	for range cap(taken) {
		taken <- make([]Sample, batch)
	}
	go func() {
		defer close(read)
		for err == nil {
			var samples []Sample
			samples, err = rows.fill(<-taken)
			read <- samples
		}
	}()
	for samples := range read {
		for i := range samples {
			take(&samples[i])
		}
		taken <- samples[:cap(samples)]
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// batch is how many samples change hands at a time, since changing hands takes
// as long as reading a few.
const batch = 256

// rowReader reads rows of the samples file.
type rowReader struct {
	lines lineReader
	names []string                      // of all columns
	set   []func(*Sample, []byte) error // of those that are read
}

func newRowReader(from io.Reader, columns []string) (*rowReader, error) {
	r := &rowReader{lines: lineReader{from: bufio.NewReaderSize(from, 1<<20)}}
	header, err := r.lines.next()
	if err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	r.set = make([]func(*Sample, []byte) error, len(header))
	for i, name := range header {
		r.names = append(r.names, string(name))
		if columns == nil || slices.Contains(columns, r.names[i]) {
			r.set[i] = readers[r.names[i]]
		}
	}
	for _, name := range forTally {
		if !slices.Contains(r.names, name) {
			return nil, fmt.Errorf("there is no column %q", name)
		}
	}
	return r, nil
}

// fill reads samples in place of those given, as many or up to an error. That is
// io.EOF at the end of the file.
func (r *rowReader) fill(samples []Sample) ([]Sample, error) {
	for i := range samples {
		if err := r.next(&samples[i]); err != nil {
			return samples[:i], err
		}
	}
	return samples, nil
}

func (r *rowReader) next(sample *Sample) error {
	row, err := r.lines.next()
	if err != nil {
		return err
	}
	if len(row) != len(r.names) {
		return fmt.Errorf("line %d has %d values for %d columns", r.lines.number, len(row), len(r.names))
	}
	for i, set := range r.set {
		if set == nil {
			continue
		}
		if err := set(sample, row[i]); err != nil {
			return fmt.Errorf("line %d, column %q: %w", r.lines.number, r.names[i], err)
		}
	}
	return nil
}

// lineReader splits CSV into rows. Most lines have no quotation mark and are
// split where they lie; the others are left to encoding/csv.
type lineReader struct {
	from   *bufio.Reader
	number int // of the last line of the last row, from 1
	row    [][]byte
	quoted []byte
}

// next returns the values of the next row, which are overwritten by the one
// after it, or io.EOF.
func (r *lineReader) next() ([][]byte, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(line, '"') >= 0 {
		return r.unquote(line)
	}
	r.row = appendFields(r.row[:0], line)
	return r.row, nil
}

// appendFields appends what lies between commas. It looks at eight bytes at a
// time: most of the work in a file of millions of lines is finding its commas.
func appendFields(fields [][]byte, line []byte) [][]byte {
	const low, commas = 0x7f7f7f7f7f7f7f7f, 0x2c2c2c2c2c2c2c2c
	start, i := 0, 0
	for ; i+8 <= len(line); i += 8 {
		// Bytes that are commas become zero, and zeros alone their top bit.
		word := binary.LittleEndian.Uint64(line[i:]) ^ commas
		for found := ^((word&low + low) | word | low); found != 0; found &= found - 1 {
			comma := i + bits.TrailingZeros64(found)/8
			fields = append(fields, line[start:comma])
			start = comma + 1
		}
	}
	for ; i < len(line); i++ {
		if line[i] == ',' {
			fields = append(fields, line[start:i])
			start = i + 1
		}
	}
	return append(fields, line[start:])
}

// line returns the next line without its end. A last line without an end is
// one too.
func (r *lineReader) line() ([]byte, error) {
	line, err := r.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("line %d is longer than a row can be", r.number+1)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	r.number++
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// unquote reads a row with quoted values, which may hold ends of lines.
func (r *lineReader) unquote(line []byte) ([][]byte, error) {
	r.quoted = append(r.quoted[:0], line...)
	for bytes.Count(r.quoted, []byte(`"`))%2 == 1 {
		more, err := r.line()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("read the quoted value in line %d: %w", r.number, err)
		}
		r.quoted = append(append(r.quoted, '\n'), more...)
	}
	values, err := csv.NewReader(bytes.NewReader(r.quoted)).Read()
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", r.number, err)
	}
	r.row = r.row[:0]
	for _, value := range values {
		r.row = append(r.row, []byte(value))
	}
	return r.row, nil
}
