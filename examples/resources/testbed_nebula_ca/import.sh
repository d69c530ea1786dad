# By the name of a CA whose key is in the data folder, or by its key file.
terraform import testbed_nebula_ca.lab lab
terraform import testbed_nebula_ca.lab /etc/testbed/lab.key
