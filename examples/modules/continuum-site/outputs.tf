output "host" {
  description = "URL of the host."
  value       = var.host
}

output "cluster" {
  description = "URL of the cluster."
  value       = testbed_k3s_cluster.this.url
}

output "peer" {
  description = "Name of the ClusterLink peer."
  value       = testbed_clusterlink_peer.this.name
}

output "gateway" {
  description = "Host and port at which other peers reach this one."
  value       = testbed_clusterlink_peer.this.gateway
}
