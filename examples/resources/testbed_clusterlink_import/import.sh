# By the URL of the cluster, the namespace and the name.
terraform import testbed_clusterlink_import.hello k3s+local://edge/default/hello
