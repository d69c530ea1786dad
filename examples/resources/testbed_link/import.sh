# A link is imported by its network and its two hosts.
terraform import testbed_link.edge_cloud wan/edge/cloud

# A link by the hosts' kernels is imported by its place and the hosts' URLs.
terraform import testbed_link.board_rented underlay/ssh://pi@198.18.0.21/ssh://root@198.18.0.22
