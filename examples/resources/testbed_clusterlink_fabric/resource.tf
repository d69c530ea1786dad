resource "testbed_clusterlink_fabric" "continuum" {
  name = "continuum"
}
