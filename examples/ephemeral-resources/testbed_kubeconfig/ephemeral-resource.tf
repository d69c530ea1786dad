ephemeral "testbed_kubeconfig" "edge" {
  cluster = testbed_k3s_cluster.edge.url
}

provider "kubernetes" {
  host                   = ephemeral.testbed_kubeconfig.edge.host
  cluster_ca_certificate = ephemeral.testbed_kubeconfig.edge.cluster_ca_certificate
  client_certificate     = ephemeral.testbed_kubeconfig.edge.client_certificate
  client_key             = ephemeral.testbed_kubeconfig.edge.client_key
}
