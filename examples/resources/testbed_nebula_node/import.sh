# By the URL of the host. The rules of the firewall are taken from the
# configuration at the next apply.
terraform import testbed_nebula_node.edge local://edge
