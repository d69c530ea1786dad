# The sooner a function loses its pod, the more cold starts fit into an hour.
resource "testbed_knative" "edge" {
  cluster                    = "k3s+local://edge"
  stable_window              = "6s"
  scale_to_zero_grace_period = "1s"
}

resource "testbed_function" "hello" {
  cluster = testbed_knative.edge.cluster
  name    = "hello-world"
  builtin = "hello-world"
  runtime = "knative"
  scale   = { min = 0 }
}

# How long does a call take that finds no pod, and what takes how much of it?
resource "testbed_benchmark_run" "cold_start" {
  name      = "cold-start"
  client    = { cluster = testbed_knative.edge.cluster }
  functions = { hello = { function = testbed_function.hello } }
  arms      = { direct = { urls = { hello = testbed_function.hello.url } } }
  scenarios = { local = { profiles = {} } }

  load     = { model = "cold-start" }
  requests = 50
  blocks   = 5
}

output "cold_start_ms" {
  value = { for r in testbed_benchmark_run.cold_start.results : r.function => {
    whole      = r.median_ms
    decision   = r.cold_decision_ms
    scheduling = r.cold_scheduling_ms
    containers = r.cold_containers_ms
    readiness  = r.cold_readiness_ms
    answer     = r.cold_answer_ms
  } }
}
