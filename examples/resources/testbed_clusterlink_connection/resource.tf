resource "testbed_clusterlink_connection" "edge_to_cloud" {
  cluster  = "k3s+local://edge"
  peer     = "cloud"
  gateways = [{ host = "198.19.0.12", port = 30443 }]
}
