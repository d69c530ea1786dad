package daemon

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkRTT prints the median round-trip time of 200 echo requests for each
// wanted one.
func BenchmarkRTT(b *testing.B) {
	for _, wanted := range []time.Duration{0, 10 * time.Millisecond, 40 * time.Millisecond} {
		b.Run(wanted.String(), func(b *testing.B) {
			l := newLab(b, testSpec, "a", "b")
			l.link("a", "b", fmt.Sprintf(`{"rtt":%q}`, wanted))
			for b.Loop() {
				times := l.ping("a", "198.18.7.2", 200, 20*time.Millisecond)
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-median")
				b.ReportMetric(float64(times[len(times)*9/10].Microseconds())/1000, "ms-p90")
				b.ReportMetric(float64(times[len(times)/2]-wanted)/1e6, "ms-added")
			}
		})
	}
}

// BenchmarkTCP prints the throughput of one TCP connection for 5 seconds.
func BenchmarkTCP(b *testing.B) {
	for _, profile := range []string{
		`{}`,
		`{"rtt":"10ms"}`,
		`{"rtt":"40ms"}`,
		`{"rtt":"10ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":0.08}}}`,
		`{"rtt":"10ms","rate":"1gbit"}`,
	} {
		b.Run(profile, func(b *testing.B) {
			l := newLab(b, testSpec, "a", "b")
			l.link("a", "b", profile)
			for b.Loop() {
				b.ReportMetric(l.iperf("a", "b", "198.18.7.2", "--time", "5")/1e9, "Gbit/s")
			}
		})
	}
}
