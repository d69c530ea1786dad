output "comparisons_edge" {
  description = "ClusterLink's overhead against the direct path from edge, in milliseconds and as a ratio of medians."
  value       = testbed_benchmark_run.edge.comparisons
}

output "report" {
  description = "The page that shows it all."
  value       = testbed_report.this.html
}
