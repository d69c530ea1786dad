# Response times of functions at cloud, called from edge: over ClusterLink
# against the direct path, on links that the hosts' kernels emulate. Written by
# "terraform-provider-testbed new"; it is yours to change.

terraform {
  required_version = ">= 1.11"
  required_providers {
    testbed = { source = "terraform-testbed/testbed" }
  }
}

provider "testbed" {
  data_dir = abspath("${path.root}/testbed")
}

# The hosts, what they have to be good for, and the addresses at which they reach
# each other.
resource "testbed_ssh_host" "lighthouse" {
  address  = "198.18.0.2"
  requires = ["overlay"]
}

resource "testbed_ssh_host" "edge" {
  address  = "198.18.0.11"
  port     = 2222
  user     = "pi"
  requires = ["overlay", "link", "cluster"]
}

resource "testbed_ssh_host" "cloud" {
  address  = "cloud"
  requires = ["overlay", "link", "cluster"]
}

locals {
  underlay = {
    lighthouse = "198.18.0.2"
    edge       = "198.18.0.11"
    cloud      = "198.18.0.12"
  }
}

# The overlay, with its lighthouse on a host of its own.
resource "testbed_nebula_ca" "continuum" {
  name     = "continuum"
  networks = ["198.19.0.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_ssh_host.lighthouse.url
  ca       = testbed_nebula_ca.continuum.id
  network  = "198.19.0.1/24"
  underlay = local.underlay.lighthouse
}

# The sites, each a host with an overlay node, a k3s cluster and a ClusterLink
# peer. Networks of pods and services are distinct at each.
resource "testbed_clusterlink_fabric" "continuum" {
  name = "continuum"
}

module "edge" {
  source = "./modules/continuum-site"

  name         = "edge"
  host         = testbed_ssh_host.edge.url
  overlay      = { ca = testbed_nebula_ca.continuum.id, network = "198.19.0.11/24" }
  lighthouses  = [testbed_nebula_lighthouse.this.endpoint]
  cluster_cidr = "10.44.0.0/16"
  service_cidr = "10.45.0.0/16"
  fabric       = testbed_clusterlink_fabric.continuum.id
}

module "cloud" {
  source = "./modules/continuum-site"

  name         = "cloud"
  host         = testbed_ssh_host.cloud.url
  overlay      = { ca = testbed_nebula_ca.continuum.id, network = "198.19.0.12/24" }
  lighthouses  = [testbed_nebula_lighthouse.this.endpoint]
  cluster_cidr = "10.46.0.0/16"
  service_cidr = "10.47.0.0/16"
  fabric       = testbed_clusterlink_fabric.continuum.id
}

# The links between the calling sites and cloud. A scenario gives them a
# profile; what the way between the hosts takes by itself comes on top.
resource "testbed_netem_profile" "local" {
  rtt = "0s"
}

resource "testbed_netem_profile" "wifi" {
  rtt          = "5ms"
  jitter       = "2ms"
  distribution = "normal"
  loss         = { random = { percent = 0.04 } }
}

resource "testbed_link" "edge" {
  between   = [module.edge.host, module.cloud.host]
  addresses = [[local.underlay.edge], [local.underlay.cloud]]
  profile   = testbed_netem_profile.local.json
  verify    = {}

  depends_on = [module.edge, module.cloud]
}

# The functions, and the ways to them.
resource "testbed_function" "this" {
  for_each = { hello-world = "hello-world", payload-echo = "payload-echo" }

  cluster  = module.cloud.cluster
  name     = each.key
  builtin  = each.value
  underlay = local.underlay.cloud
}

module "clusterlink_edge" {
  source = "./modules/clusterlink-pair"

  importer = module.edge
  exporter = module.cloud
  services = { for name, function in testbed_function.this : name => function.port }
}

# The experiment, and what it found as a page with figures and tables.
resource "testbed_benchmark_run" "edge" {
  name   = "edge"
  client = { cluster = module.edge.cluster }

  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = 1024, echo = true }
  }

  baseline = "direct"
  arms = {
    underlay = {
      path = "NodePort on the underlay address"
      urls = { for name, function in testbed_function.this : name => function.underlay_url }
    }
    direct = {
      path = "NodePort on the overlay address"
      urls = { for name, function in testbed_function.this : name => function.node_port_url }
    }
    clusterlink = {
      path = "ClusterLink import"
      urls = module.clusterlink_edge.urls
    }
  }

  scenarios = {
    local = { profiles = { (testbed_link.edge.id) = testbed_netem_profile.local.json } }
    wifi  = { profiles = { (testbed_link.edge.id) = testbed_netem_profile.wifi.json } }
  }

  describe    = [module.cloud.cluster]
  connections = ["reuse", "new"]
  requests    = 100
  blocks      = 10
}

resource "testbed_report" "this" {
  runs       = [testbed_benchmark_run.edge.results_folder]
  output_dir = abspath("${path.root}/report")
}
