# By the URL of the cluster, the namespace and the name.
terraform import testbed_function.echo k3s+local://cloud/default/echo
