# What one run found.
resource "testbed_report" "response_time" {
  runs       = [testbed_benchmark_run.response_time.results_folder]
  output_dir = abspath("report")
}

# The same next to the run of a colleague, whose folder was unpacked here.
resource "testbed_report" "against_theirs" {
  title      = "Response time: theirs and ours"
  runs       = [abspath("theirs/response-time-20261130T224522Z"), testbed_benchmark_run.response_time.results_folder]
  output_dir = abspath("comparison")
  formats    = ["html", "csv"]
}

output "report" {
  value = testbed_report.response_time.html
}
