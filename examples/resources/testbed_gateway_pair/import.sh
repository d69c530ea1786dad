# By the URLs of the client's and the server's cluster and the name of the pair.
terraform import testbed_gateway_pair.edge_to_cloud k3s+local://edge,k3s+local://cloud,edge-cloud
