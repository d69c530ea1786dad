# The results_folder of a testbed_benchmark_run, or a folder that was kept.
variable "run" {
  type    = string
  default = "/var/lib/testbed/results/response-time-20261201T080000Z"
}

# What one run found.
resource "testbed_report" "response_time" {
  runs       = [var.run]
  output_dir = abspath("report")
}

# The same next to the run of a colleague, whose folder was unpacked here.
resource "testbed_report" "against_theirs" {
  title      = "Response time: theirs and ours"
  runs       = [abspath("theirs/response-time-20261130T224522Z"), var.run]
  output_dir = abspath("comparison")
  formats    = ["html", "csv"]
}

output "report" {
  value = testbed_report.response_time.html
}
