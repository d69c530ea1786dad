package bench

// Column is one number of a result or a comparison, under the name that it has
// everywhere: in files, in tables and as an attribute of a run.
type Column[T any] struct {
	Name  string
	About string // one sentence with the unit
	Value func(T) *float64
}

// ResultColumns returns all numbers of a result but its counts.
func ResultColumns() []Column[Result] {
	return []Column[Result]{
		{"first_ms", "Median over the visits of the first request, which sets up the connection and the session behind it, in milliseconds.", func(r Result) *float64 { return r.First }},
		{"first_low_ms", "Lower end of the first request's 95 % interval in milliseconds; null for fewer than 6 visits.", func(r Result) *float64 { return r.FirstLow }},
		{"first_high_ms", "Upper end of the first request's 95 % interval in milliseconds.", func(r Result) *float64 { return r.FirstHigh }},
		{"min_ms", "Least time in milliseconds, from the start of the request to the last byte of the answer, like all times.", func(r Result) *float64 { return r.Min }},
		{"mean_ms", "Mean in milliseconds.", func(r Result) *float64 { return r.Mean }},
		{"stddev_ms", "Standard deviation in milliseconds.", func(r Result) *float64 { return r.Stddev }},
		{"median_ms", "Median in milliseconds.", func(r Result) *float64 { return r.Median }},
		{"median_low_ms", "Lower end of the median's 95 % interval in milliseconds; null when the times do not bound it.", func(r Result) *float64 { return r.MedianLow }},
		{"median_high_ms", "Upper end of the median's 95 % interval in milliseconds; null when the times do not bound it.", func(r Result) *float64 { return r.MedianHigh }},
		{"p90_ms", "90th percentile in milliseconds; null for fewer than 100 requests.", func(r Result) *float64 { return r.P90 }},
		{"p90_low_ms", "Lower end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P90Low }},
		{"p90_high_ms", "Upper end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P90High }},
		{"p95_ms", "95th percentile in milliseconds; null for fewer than 200 requests.", func(r Result) *float64 { return r.P95 }},
		{"p95_low_ms", "Lower end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P95Low }},
		{"p95_high_ms", "Upper end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P95High }},
		{"p99_ms", "99th percentile in milliseconds; null for fewer than 1000 requests.", func(r Result) *float64 { return r.P99 }},
		{"p99_low_ms", "Lower end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P99Low }},
		{"p99_high_ms", "Upper end of its 95 % interval in milliseconds; null when the times do not bound it.", func(r Result) *float64 { return r.P99High }},
		{"p99_9_ms", "99.9th percentile in milliseconds; null for fewer than 10000 requests.", func(r Result) *float64 { return r.P999 }},
		{"p99_9_low_ms", "Lower end of its 95 % interval in milliseconds.", func(r Result) *float64 { return r.P999Low }},
		{"p99_9_high_ms", "Upper end of its 95 % interval in milliseconds; null when the times do not bound it.", func(r Result) *float64 { return r.P999High }},
		{"max_ms", "Greatest time in milliseconds.", func(r Result) *float64 { return r.Max }},
		{"lag_ms", "Median of the part of each time that the client itself caused, in milliseconds: sent later than it could have been, or read later than it had arrived.", func(r Result) *float64 { return r.Lag }},
		{"drift_percent", "Change of the blocks' medians from the first block to the last one, in percent (Theil and Sen's slope); null for fewer than 5 blocks.", func(r Result) *float64 { return r.Drift.percent() }},
		{"drift_p", "Probability that blocks without a trend are in as clear an order by chance (Mann and Kendall's test).", func(r Result) *float64 { return r.Drift.p() }},
		{"cold_decision_ms", "Median of the part of cold starts until the pod existed, which activator and autoscaler decide, in milliseconds; null for other requests, like all parts.", func(r Result) *float64 { return r.Cold.field(0) }},
		{"cold_scheduling_ms", "Median of the part from there until the pod had a node, in milliseconds.", func(r Result) *float64 { return r.Cold.field(1) }},
		{"cold_containers_ms", "Median of the part from there until the last of its containers ran, in milliseconds.", func(r Result) *float64 { return r.Cold.field(2) }},
		{"cold_readiness_ms", "Median of the part from there until Kubernetes called the pod ready, or until the answer where that was sooner, in milliseconds.", func(r Result) *float64 { return r.Cold.field(3) }},
		{"cold_answer_ms", "Median of the part from there to the last byte of the answer, in milliseconds.", func(r Result) *float64 { return r.Cold.field(4) }},
	}
}

// ComparisonColumns returns all numbers of a comparison.
func ComparisonColumns() []Column[Comparison] {
	return []Column[Comparison]{
		{"difference_ms", "The arm's median minus the baseline's, in milliseconds.", func(c Comparison) *float64 { return c.Difference }},
		{"difference_low_ms", "Lower end of the difference's interval in milliseconds.", func(c Comparison) *float64 { return c.DifferenceLow }},
		{"difference_high_ms", "Upper end of the difference's interval in milliseconds.", func(c Comparison) *float64 { return c.DifferenceHigh }},
		{"ratio", "The arm's median divided by the baseline's.", func(c Comparison) *float64 { return c.Ratio }},
		{"ratio_low", "Lower end of the ratio's interval.", func(c Comparison) *float64 { return c.RatioLow }},
		{"ratio_high", "Upper end of the ratio's interval.", func(c Comparison) *float64 { return c.RatioHigh }},
		{"p", "Probability that times of one law are ranked as differently by chance (Mann and Whitney's test, as benchstat has it). It takes requests for independent of each other, which the intervals do not: where the two disagree, believe the interval.", func(c Comparison) *float64 { return c.P }},
		{"p_adjusted", "`p` after Holm's correction for all comparisons of the run.", func(c Comparison) *float64 { return c.Adjusted }},
	}
}

// RunComparisonColumns returns all numbers of a comparison between runs.
func RunComparisonColumns() []Column[RunComparison] {
	return []Column[RunComparison]{
		{"difference_ms", "The run's median minus the base's, in milliseconds.", func(c RunComparison) *float64 { return c.Difference }},
		{"difference_low_ms", "Lower end of the difference's interval in milliseconds.", func(c RunComparison) *float64 { return c.DifferenceLow }},
		{"difference_high_ms", "Upper end of the difference's interval in milliseconds.", func(c RunComparison) *float64 { return c.DifferenceHigh }},
		{"ratio", "The run's median divided by the base's.", func(c RunComparison) *float64 { return c.Ratio }},
		{"ratio_low", "Lower end of the ratio's interval.", func(c RunComparison) *float64 { return c.RatioLow }},
		{"ratio_high", "Upper end of the ratio's interval.", func(c RunComparison) *float64 { return c.RatioHigh }},
	}
}

func (d *Drift) percent() *float64 {
	if d == nil {
		return nil
	}
	return &d.Percent
}

func (d *Drift) p() *float64 {
	if d == nil {
		return nil
	}
	return &d.P
}
