# A cluster of two nodes, from both of which a function is called at a rate.

terraform {
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

variable "data_dir" { type = string }
variable "k3s_binary" { type = string }
variable "k3s_images" { type = list(string) }

provider "testbed" {
  data_dir = var.data_dir
}

resource "testbed_network" "site" {
  name = "site"
  cidr = "198.18.0.0/24"
}

resource "testbed_local_host" "node" {
  for_each = { a = "198.18.0.11", b = "198.18.0.12" }

  name     = each.key
  networks = [{ network = testbed_network.site.name, address = each.value }]
}

resource "testbed_k3s_cluster" "site" {
  name          = "site"
  servers       = [{ host = testbed_local_host.node["a"].url, node_ip = "198.18.0.11", interface = "eth0" }]
  agents        = [{ host = testbed_local_host.node["b"].url, node_ip = "198.18.0.12", interface = "eth0" }]
  binary        = { source = var.k3s_binary }
  airgap_images = var.k3s_images
}

resource "testbed_link" "nodes" {
  network = testbed_network.site.name
  between = [testbed_local_host.node["a"].url, testbed_local_host.node["b"].url]
  profile = jsonencode({ rtt = "2ms" })
}

resource "testbed_function" "hello" {
  cluster = testbed_k3s_cluster.site.url
  name    = "hello-world"
  builtin = "hello-world"
}

resource "testbed_benchmark_run" "rate" {
  name        = "rate"
  client      = { cluster = testbed_k3s_cluster.site.url, clients = 2 }
  functions   = { hello = {} }
  arms        = { direct = { urls = { hello = testbed_function.hello.url } } }
  scenarios   = { near = { profiles = { (testbed_link.nodes.id) = jsonencode({ rtt = "1ms" }) } } }
  connections = ["reuse"]
  load        = { model = "open", rate = 100, arrivals = "poisson" }
  requests    = 200
  warmup      = 1
  blocks      = 2
  seed        = 7
  # A test may run on a busy machine.
  verify = { packets = 20, rtt_tolerance = "50ms" }
}

output "results_folder" {
  value = testbed_benchmark_run.rate.results_folder
}
