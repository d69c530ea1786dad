resource "testbed_k3s_cluster" "edge" {
  name = "edge"
  servers = [{
    host      = testbed_local_host.edge.url
    node_ip   = testbed_nebula_node.edge.address
    interface = testbed_nebula_node.edge.device
  }]

  # Clusters that talk to each other need networks of their own.
  cluster_cidr = "10.44.0.0/16"
  service_cidr = "10.45.0.0/16"
}

# Without internet: a program and image archives that lie on this machine.
resource "testbed_k3s_cluster" "offline" {
  name    = "offline"
  servers = [{ host = testbed_local_host.offline.url, node_ip = "198.18.0.12" }]
  binary = {
    source = abspath("k3s")
    sha256 = filesha256("k3s")
  }
  airgap_images = [abspath("k3s-airgap-images-amd64.tar.zst")]
  config = jsonencode({
    "kubelet-arg" = ["max-pods=50"]
  })
}
