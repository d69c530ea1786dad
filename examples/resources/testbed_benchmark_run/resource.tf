# How much longer does a function answer over ClusterLink, at two distances?
resource "testbed_benchmark_run" "response_time" {
  name   = "response-time"
  client = { cluster = testbed_k3s_cluster.edge.url }

  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = provider::testbed::bytes("100KiB"), echo = true }
  }

  baseline = "direct"
  arms = {
    direct = {
      path = "NodePort on the overlay address"
      urls = { for name, function in testbed_function.this : name => function.node_port_url }
    }
    clusterlink = {
      path = "ClusterLink import"
      urls = { for name, import in testbed_clusterlink_import.this : name => import.url }
    }
  }

  scenarios = {
    edge  = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.edge.json } }
    cloud = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.cloud.json } }
  }

  requests   = 100
  blocks     = 5
  think_time = "200ms"
}

output "overhead_ms" {
  value = { for c in testbed_benchmark_run.response_time.comparisons :
    "${c.function} ${c.scenario} ${c.connection}" => c.difference_ms
  }
}
