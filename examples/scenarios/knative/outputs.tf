output "results" {
  description = "Of each cell: count, errors, first request, min, mean, median, p90 and max in milliseconds."
  value       = testbed_benchmark_run.knative.results
}

output "comparisons" {
  description = "What the other paths take more than the direct one, in milliseconds and as a ratio of medians."
  value       = testbed_benchmark_run.knative.comparisons
}

output "samples_file" {
  description = "Every request that was measured."
  value       = testbed_benchmark_run.knative.samples_file
}

output "results_folder" {
  description = "All that the run left: enough to make the report again, on any machine."
  value       = testbed_benchmark_run.knative.results_folder
}

output "report" {
  description = "The page that shows it all."
  value       = testbed_report.knative.html
}
