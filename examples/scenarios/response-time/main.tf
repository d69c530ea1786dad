# Response times of functions in a cloud cluster, called from an edge cluster on
# four paths, on a local, an edge and a cloud link: ClusterLink, the direct path
# that it is compared with, and two that say where the difference comes from.
# Everything runs on this machine.

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

# The underlay: what would be the Internet between the sites.

resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}

resource "testbed_netem_profile" "local" {
  rtt = "0ms"
}

# Jitter and loss follow the rule of the published testbed: 20 % of the one-way
# delay, and 0.016 % for each millisecond of it.

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

# The overlay, with its lighthouse on a host of its own.

resource "testbed_nebula_ca" "continuum" {
  name     = "continuum"
  networks = ["198.19.0.0/24"]
}

resource "testbed_local_host" "lighthouse" {
  name     = "lighthouse"
  networks = [{ network = testbed_network.wan.name, address = "198.18.0.2" }]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_local_host.lighthouse.url
  ca       = testbed_nebula_ca.continuum.id
  network  = "198.19.0.1/24"
  underlay = "198.18.0.2"
}

# Two sites, each a host with an overlay node, a k3s cluster and a ClusterLink
# peer.

resource "testbed_local_host" "site" {
  for_each = { edge = "198.18.0.11", cloud = "198.18.0.12" }

  name     = each.key
  networks = [{ network = testbed_network.wan.name, address = each.value }]
}

module "edge" {
  source = "../../modules/continuum-site"

  name               = "edge"
  host               = testbed_local_host.site["edge"].url
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
  host               = testbed_local_host.site["cloud"].url
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
  network = testbed_network.wan.name
  between = [module.edge.host, module.cloud.host]
  profile = testbed_netem_profile.local.json
  verify  = {}

  # Measured once the clusters have started and the machine is quiet.
  depends_on = [module.edge, module.cloud]
}

# The functions, and the ways to them.

locals {
  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = 102400, echo = true }
  }
}

resource "testbed_function" "this" {
  for_each = var.functions

  cluster  = module.cloud.cluster
  name     = each.key
  builtin  = each.key
  underlay = testbed_local_host.site["cloud"].networks[0].address
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
  name   = "response-time"
  client = { cluster = module.edge.cluster }

  functions = { for name, call in local.functions : name => call if contains(var.functions, name) }

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
  connections = var.connections
  requests    = var.requests
  blocks      = var.blocks
}

# What it found, as a page with figures and tables.

resource "testbed_report" "response_time" {
  runs       = [testbed_benchmark_run.response_time.results_folder]
  output_dir = "${var.data_dir}/report"
}
