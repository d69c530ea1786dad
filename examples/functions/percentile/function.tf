# The median of the medians of all cells of a run.
output "typical_ms" {
  value = provider::testbed::percentile([for cell in testbed_benchmark_run.response_time.results : cell.median_ms], 50)
}
