resource "testbed_clusterlink_connection" "edge_to_cloud" {
  cluster  = "k3s+local://edge"
  peer     = "cloud"
  gateways = [{ host = "198.19.0.12", port = 30443 }]
}

resource "testbed_clusterlink_import" "hello" {
  cluster = "k3s+local://edge"
  name    = "hello"
  port    = 80
  sources = [{ peer = testbed_clusterlink_connection.edge_to_cloud.peer, export = "hello" }]
}

output "url" {
  value = testbed_clusterlink_import.hello.url
}
