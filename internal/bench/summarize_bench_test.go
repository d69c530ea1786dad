//go:build linux

package bench

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// BenchmarkSummarize reads and summarises a run of 10 million requests, from
// the files of its folder to its results with all intervals, and prints how long
// that took, how long processors worked for it, and the greatest memory that the
// process needed meanwhile.
func BenchmarkSummarize(b *testing.B) {
	const samples = 10_000_000
	plan := testPlan()
	plan.Blocks = 10
	plan.Requests = samples/len(plan.cells()) - plan.Blocks*plan.Warmup
	dir := b.TempDir()
	writeRun(b, dir, plan)
	info, err := os.Stat(filepath.Join(dir, SamplesFile))
	if err != nil {
		b.Fatal(err)
	}
	before := processorTime(b)
	for b.Loop() {
		debug.FreeOSMemory()
		resetPeakMemory(b)
		folder, err := ReadFolder(dir)
		if err != nil {
			b.Fatal(err)
		}
		results, comparisons := folder.Summarize()
		if len(results) != len(plan.cells()) || comparisons[0].DifferenceLow == nil {
			b.Fatalf("%d results, the first comparison is %+v", len(results), comparisons[0])
		}
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB-of-file")
	b.ReportMetric(peakMemory(b), "MB-at-peak")
	b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "cpu-s/run")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
}

// writeRun writes the folder of a run that never took place, with every column
// filled in as a real one has it.
func writeRun(tb testing.TB, dir string, plan Plan) {
	tb.Helper()
	w, err := NewSampleWriter(dir)
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	sent := time.Unix(1790000000, 0).UTC()
	record := Record{Started: sent, Completed: true, Plan: plan}
	for _, visit := range plan.Schedule() {
		record.Visits = append(record.Visits, VisitRecord{Block: visit.Block, Scenario: visit.Scenario, Attempt: 1, Valid: true})
		for position, cell := range visit.Cells {
			taken := make([]Sample, plan.Warmup+visit.Requests)
			for seq := range taken {
				s := Sample{Cell: cell, Block: visit.Block, Attempt: 1, Valid: true, Position: position + 1, Due: sent, Sent: sent}
				s.Seq, s.Warmup, s.Status, s.BytesReceived, s.Conn = seq, seq < plan.Warmup, 200, 14, 1
				s.Reused = seq > 0 && cell.Connection == load.Reuse
				if !s.Reused {
					s.Connect, s.Conn = time.Duration(2e5*(1+random.ExpFloat64())), seq+1
				}
				s.Write = time.Duration(3e4 * (1 + random.ExpFloat64()))
				s.FirstByte = time.Duration(1e7 * math.Exp(0.2*random.NormFloat64()))
				s.Total = s.FirstByte + time.Duration(1e4*(1+random.ExpFloat64()))
				sent = sent.Add(s.Total)
				taken[seq] = s
			}
			if err := w.Write(taken); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if _, err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := record.write(dir); err != nil {
		tb.Fatal(err)
	}
}

// processorTime returns how long processors have worked for this process.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// resetPeakMemory makes peakMemory count from now on.
func resetPeakMemory(tb testing.TB) {
	tb.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		tb.Skipf("the kernel does not reset the peak of memory: %v", err)
	}
}

// peakMemory returns the greatest resident memory of this process in MB.
func peakMemory(tb testing.TB) float64 {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	match := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if match == nil {
		tb.Fatal("the kernel does not tell the peak of memory")
	}
	kilobytes, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kilobytes * 1024 / 1e6
}
