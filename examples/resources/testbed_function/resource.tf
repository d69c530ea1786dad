resource "testbed_function" "echo" {
  cluster   = "k3s+local://cloud"
  name      = "echo"
  builtin   = "payload-echo"
  node_port = 30080
}

resource "testbed_function" "web" {
  cluster  = "k3s+local://cloud"
  name     = "web"
  image    = "docker.io/library/nginx:1.29"
  port     = 80
  replicas = 2
  resources = {
    requests = { cpu = "100m", memory = "64Mi" }
  }
}

# As a Knative service with one pod that takes one request at a time, beside a
# testbed_knative on the same cluster.

resource "testbed_function" "hello" {
  cluster = "k3s+local://cloud"
  name    = "hello"
  builtin = "hello-world"
  runtime = "knative"
  scale   = { min = 1, max = 1, concurrency = 1 }
}

output "url" {
  value = testbed_function.echo.node_port_url
}
