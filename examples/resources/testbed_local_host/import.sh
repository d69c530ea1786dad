# The id is the host's name.
terraform import testbed_local_host.edge edge
