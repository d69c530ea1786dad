resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}

resource "testbed_local_host" "this" {
  for_each = { edge = "198.18.0.11", cloud = "198.18.0.12", cloud2 = "198.18.0.13" }

  name     = each.key
  networks = [{ network = testbed_network.wan.name, address = each.value }]
}

# The pinned release, downloaded with its images. More agents join, and leave
# again, as the list changes.
resource "testbed_k3s_cluster" "cloud" {
  name = "cloud"
  servers = [{
    host    = testbed_local_host.this["cloud"].url
    node_ip = "198.18.0.12"
  }]
  agents = [{
    host    = testbed_local_host.this["cloud2"].url
    node_ip = "198.18.0.13"
  }]
}

# Files on this machine, for machines without internet. Clusters that talk to
# each other need networks of their own.
resource "testbed_k3s_cluster" "edge" {
  name = "edge"
  servers = [{
    host      = testbed_local_host.this["edge"].url
    node_ip   = "198.18.0.11"
    interface = "eth0"
  }]
  binary        = { source = "/opt/k3s/k3s" }
  airgap_images = ["/opt/k3s/k3s-airgap-images-amd64.tar.zst"]
  cluster_cidr  = "10.44.0.0/16"
  service_cidr  = "10.45.0.0/16"
  config        = jsonencode({ "kubelet-arg" = ["max-pods=50"] })
}
