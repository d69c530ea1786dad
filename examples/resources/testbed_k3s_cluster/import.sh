# By the URL of the server's host. Where the program and the images came from
# is not known afterwards, so the next apply sets binary and airgap_images.
terraform import testbed_k3s_cluster.edge local://edge
