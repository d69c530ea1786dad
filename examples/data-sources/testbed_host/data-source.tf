resource "testbed_local_host" "edge" {
  name = "edge"
}

data "testbed_host" "edge" {
  url = testbed_local_host.edge.url
}

output "edge_kernel" {
  value = data.testbed_host.edge.kernel
}
