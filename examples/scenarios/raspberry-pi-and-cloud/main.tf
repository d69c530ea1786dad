# The response-time experiment on machines that are reached by SSH: a Raspberry
# Pi at the edge, a virtual machine in a cloud, and a small one between them as
# the lighthouse. The machines' kernels emulate the link.

terraform {
  required_version = ">= 1.11"
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

provider "testbed" {
  data_dir = var.data_dir
}

# Profiles on top of what the way between the machines takes by itself.

resource "testbed_netem_profile" "local" {
  rtt = "0ms"
}

resource "testbed_netem_profile" "edge" {
  rtt          = "10ms"
  jitter       = "1ms"
  distribution = "normal"
  loss         = { random = { percent = 0.08 } }
}

resource "testbed_netem_profile" "cloud" {
  rtt          = "40ms"
  jitter       = "4ms"
  distribution = "normal"
  loss         = { random = { percent = 0.32 } }
}

# The machines. What one lacks is told by the plan, with the command that gets
# it.

resource "testbed_ssh_host" "lighthouse" {
  address  = var.lighthouse.address
  port     = var.lighthouse.port
  user     = var.lighthouse.user
  requires = ["overlay"]
}

resource "testbed_ssh_host" "pi" {
  address  = var.pi.address
  port     = var.pi.port
  user     = var.pi.user
  requires = ["overlay", "link", "cluster"]
}

resource "testbed_ssh_host" "cloud" {
  address  = var.cloud.address
  port     = var.cloud.port
  user     = var.cloud.user
  requires = ["overlay", "link", "cluster"]
}

# The overlay, with its lighthouse at an address that both others reach.

resource "testbed_nebula_ca" "continuum" {
  name     = "continuum"
  networks = ["198.19.0.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_ssh_host.lighthouse.url
  ca       = testbed_nebula_ca.continuum.id
  network  = "198.19.0.1/24"
  underlay = var.lighthouse.underlay
}

# Two sites, each a machine with an overlay node, a k3s cluster and a ClusterLink
# peer.

module "edge" {
  source = "../../modules/continuum-site"

  name               = "edge"
  host               = testbed_ssh_host.pi.url
  overlay            = { ca = testbed_nebula_ca.continuum.id, network = "198.19.0.11/24" }
  lighthouses        = [testbed_nebula_lighthouse.this.endpoint]
  cluster_cidr       = "10.44.0.0/16"
  service_cidr       = "10.45.0.0/16"
  fabric             = testbed_clusterlink_fabric.continuum.id
  dataplane          = var.dataplane
  k3s_binary         = var.k3s_binary
  k3s_images         = var.k3s_images
  clusterlink_images = var.clusterlink_images
}

module "cloud" {
  source = "../../modules/continuum-site"

  name               = "cloud"
  host               = testbed_ssh_host.cloud.url
  overlay            = { ca = testbed_nebula_ca.continuum.id, network = "198.19.0.12/24" }
  lighthouses        = [testbed_nebula_lighthouse.this.endpoint]
  cluster_cidr       = "10.46.0.0/16"
  service_cidr       = "10.47.0.0/16"
  fabric             = testbed_clusterlink_fabric.continuum.id
  dataplane          = var.dataplane
  k3s_binary         = var.k3s_binary
  k3s_images         = var.k3s_images
  clusterlink_images = var.clusterlink_images
}

resource "testbed_link" "edge_cloud" {
  between   = [module.edge.host, module.cloud.host]
  addresses = [[var.pi.underlay], [var.cloud.underlay]]
  profile   = testbed_netem_profile.local.json
  verify    = {}

  # Measured once the clusters have started and the machines are quiet.
  depends_on = [module.edge, module.cloud]
}

# The functions, and the ways to them.

resource "testbed_function" "this" {
  for_each = toset(["hello-world", "payload-echo"])

  cluster  = module.cloud.cluster
  name     = each.key
  builtin  = each.key
  underlay = var.cloud.underlay
}

resource "testbed_gateway_pair" "edge_to_cloud" {
  name          = "edge-cloud"
  client        = module.edge.cluster
  server        = module.cloud.cluster
  services      = { for name, function in testbed_function.this : name => { port = function.port } }
  image         = var.gateway_image
  airgap_images = var.gateway_images
}

resource "testbed_clusterlink_fabric" "continuum" {
  name = "continuum"
}

module "clusterlink" {
  source = "../../modules/clusterlink-pair"

  importer = module.edge
  exporter = module.cloud
  services = { for name, function in testbed_function.this : name => function.port }
}

# The experiment.

resource "testbed_benchmark_run" "response_time" {
  name   = "raspberry-pi-and-cloud"
  client = { cluster = module.edge.cluster }

  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = 102400, echo = true }
  }

  # hops.tf has the points that each arm passes.
  baseline = "direct"
  arms = {
    underlay = {
      path = "NodePort on the underlay address"
      hops = local.hops.underlay
      urls = { for name, function in testbed_function.this : name => function.underlay_url }
    }
    direct = {
      path = "NodePort on the overlay address"
      hops = local.hops.direct
      urls = { for name, function in testbed_function.this : name => function.node_port_url }
    }
    gateway = {
      path = "pair of haproxy with mutual TLS"
      hops = local.hops.gateway
      urls = testbed_gateway_pair.edge_to_cloud.urls
    }
    clusterlink = {
      path = "ClusterLink import"
      hops = local.hops.clusterlink
      urls = module.clusterlink.urls
    }
  }

  scenarios = {
    local = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.local.json } }
    edge  = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.edge.json } }
    cloud = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.cloud.json } }
  }

  describe    = [module.cloud.cluster] # beside the client's, which is always recorded
  connections = ["reuse", "new"]
  requests    = var.requests
  blocks      = var.blocks
}

# What it found, as a page with figures and tables.

resource "testbed_report" "response_time" {
  runs       = [testbed_benchmark_run.response_time.results_folder]
  output_dir = "${var.data_dir}/report"
}
