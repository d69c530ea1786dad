# By the URL of the cluster, the namespace and the name.
terraform import testbed_clusterlink_export.hello k3s+local://cloud/default/hello
