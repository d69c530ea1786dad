# By the URL of the host.
terraform import testbed_nebula_lighthouse.this local://lighthouse
