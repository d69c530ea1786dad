# By the URL of the cluster and the name of the other peer.
terraform import testbed_clusterlink_connection.edge_to_cloud k3s+local://edge/cloud
