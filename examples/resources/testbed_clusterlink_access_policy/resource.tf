# Pods of the namespace "apps" may use the service "hello", and nothing else is
# allowed. The same policy is needed on the cluster that exports the service.
resource "testbed_clusterlink_access_policy" "hello" {
  cluster = "k3s+local://edge"
  name    = "hello"
  action  = "allow"
  from    = [{ match_labels = { "client.clusterlink.net/namespace" = "apps" } }]
  to      = [{ match_labels = { "export.clusterlink.net/name" = "hello" } }]
}

# All clients may use all services of the cluster.
resource "testbed_clusterlink_access_policy" "all" {
  cluster    = "k3s+local://cloud"
  name       = "all"
  privileged = true
  action     = "allow"
  from       = [{}]
  to         = [{}]
}
