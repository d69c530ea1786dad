# The id is how the host is reached: [user@]address[:port].
terraform import testbed_ssh_host.edge pi@198.18.0.21
