resource "testbed_netem_profile" "this" {
  for_each = { edge = "10ms", cloud = "40ms" }

  rtt = each.value
}

# How much longer does a function answer over ClusterLink, at two distances?
resource "testbed_benchmark_run" "response_time" {
  name   = "response-time"
  client = { cluster = "k3s+local://edge" }

  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = 102400, echo = true }
  }

  baseline = "direct"
  arms = {
    direct = {
      path = "NodePort on the overlay address"
      urls = {
        hello-world  = "http://198.19.0.12:30080" # the node_port_url of a testbed_function
        payload-echo = "http://198.19.0.12:30081"
      }
    }
    clusterlink = {
      path = "ClusterLink import"
      urls = {
        hello-world  = "http://hello-world.default.svc.cluster.local" # the url of a testbed_clusterlink_import
        payload-echo = "http://payload-echo.default.svc.cluster.local"
      }
    }
  }

  # By the id of a testbed_link.
  scenarios = {
    for name, profile in testbed_netem_profile.this : name => { profiles = { "wan/edge/cloud" = profile.json } }
  }

  requests = 100
  blocks   = 5
  load     = { think_time = "200ms" }

  # The apply fails, with the numbers, unless the run bears this out.
  expect = {
    small_payloads = { function = "hello-world", connection = "reuse", arm = "clusterlink", max_overhead_percent = 5 }
  }
}

output "overhead_ms" {
  value = { for c in testbed_benchmark_run.response_time.comparisons :
    "${c.function} ${c.scenario} ${c.connection}" => c.difference_ms
  }
}
