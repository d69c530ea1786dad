# By the URL of the cluster.
terraform import testbed_clusterlink_peer.edge k3s+local://edge
