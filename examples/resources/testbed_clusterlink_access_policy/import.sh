# By the URL of the cluster, the namespace and the name; a privileged policy has
# no namespace.
terraform import testbed_clusterlink_access_policy.hello k3s+local://edge/default/hello
terraform import testbed_clusterlink_access_policy.all k3s+local://cloud//all
