# A network is imported by its name.
terraform import testbed_network.wan wan
