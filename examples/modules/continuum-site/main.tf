# A site of the continuum: on a host of any kind, a node of the overlay, a k3s
# cluster on the overlay address and a ClusterLink peer.

terraform {
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

resource "testbed_nebula_node" "this" {
  host        = var.host
  ca          = var.overlay.ca
  network     = var.overlay.network
  lighthouses = var.lighthouses
}

resource "testbed_k3s_cluster" "this" {
  name = var.name
  servers = [{
    host      = var.host
    node_ip   = testbed_nebula_node.this.address
    interface = testbed_nebula_node.this.device
  }]
  cluster_cidr  = var.cluster_cidr
  service_cidr  = var.service_cidr
  binary        = var.k3s_binary == null ? null : { source = var.k3s_binary }
  airgap_images = var.k3s_images
}

resource "testbed_clusterlink_peer" "this" {
  cluster       = testbed_k3s_cluster.this.url
  name          = var.name
  fabric        = var.fabric
  dataplane     = var.dataplane
  airgap_images = var.clusterlink_images
}
