# A link is imported by its network and its two hosts.
terraform import testbed_link.edge_cloud wan/edge/cloud
