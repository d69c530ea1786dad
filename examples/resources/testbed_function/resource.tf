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

output "url" {
  value = testbed_function.echo.node_port_url
}
