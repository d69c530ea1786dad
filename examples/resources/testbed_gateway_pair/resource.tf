# Pods of the edge cluster call the function of the cloud cluster through a
# gateway on each side.
resource "testbed_gateway_pair" "edge_to_cloud" {
  name   = "edge-cloud"
  client = "k3s+local://edge"
  server = "k3s+local://cloud"

  services = {
    hello-world = { port = 8080 }
  }
}

output "gateway_url" {
  value = testbed_gateway_pair.edge_to_cloud.urls["hello-world"]
}
