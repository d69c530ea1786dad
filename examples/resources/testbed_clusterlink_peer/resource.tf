resource "testbed_clusterlink_fabric" "continuum" {
  name = "continuum"
}

resource "testbed_clusterlink_peer" "edge" {
  cluster      = "k3s+local://edge"
  name         = "edge"
  fabric       = testbed_clusterlink_fabric.continuum.id
  ingress_port = 30443
}
