# By the URL of the cluster.
terraform import testbed_knative.cloud k3s+local://cloud
