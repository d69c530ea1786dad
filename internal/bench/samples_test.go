package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// The documentation of the samples file names every column.
func TestColumnsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../templates/guides/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range columns {
		if !strings.Contains(string(text), "`"+column.name+"`") {
			t.Errorf("the column %s is not described", column.name)
		}
	}
}

// Every column of a sample is read as it was written, over several frames.
func TestSamplesAreReadAsWritten(t *testing.T) {
	dir := t.TempDir()
	full := Sample{
		Cell:  Cell{Function: "hello, world", Scenario: "edge", Connection: load.Reuse, Arm: "direct"},
		Pod:   Stages{Created: 31, Scheduled: 32, Started: 33, Ready: 34, Within: 35},
		Block: 2, Attempt: 1, Valid: true, Position: 3, Due: time.Unix(1790000000, 123000000).UTC(), Sent: time.Unix(1790000000, 123456789).UTC(),
		Record: load.Record{
			Seq: 4, Warmup: true, DNS: 5, Connect: 6, TLS: 7, Write: 8, FirstByte: 9, Total: 10,
			Client: 21, Read: 22, Lag: 23, BytesSent: 11, BytesReceived: 12, Status: 503, Conn: 13, Reused: true,
			Error: load.StatusError, Detail: "503: \"no\nservice\", sorry",
		},
	}
	want := []Sample{full, {Cell: full.Cell, Due: full.Due, Sent: full.Sent}, full}
	w, err := NewSampleWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range [][]Sample{want[:2], nil, want[2:]} {
		if err := w.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Sample
	if err := ReadSamples(dir, func(s *Sample) { got = append(got, *s) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-written +read):\n%s", diff)
	}

	path := filepath.Join(dir, SamplesFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadSamples(dir, func(*Sample) {}); err == nil || !strings.Contains(err.Error(), SamplesFile) {
		t.Errorf("a file that lacks its end gives %v", err)
	}
}
