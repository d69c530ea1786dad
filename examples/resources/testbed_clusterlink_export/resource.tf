resource "testbed_function" "hello" {
  cluster = "k3s+local://cloud"
  name    = "hello"
  builtin = "hello-world"
}

resource "testbed_clusterlink_export" "hello" {
  cluster = testbed_function.hello.cluster
  name    = testbed_function.hello.name
  port    = testbed_function.hello.port
}

# Anything that the cluster reaches can be exported, also what is no service.
resource "testbed_clusterlink_export" "sensor" {
  cluster = "k3s+local://cloud"
  name    = "sensor"
  host    = "198.18.0.30"
  port    = 80
}
