# Response times of Knative functions in a cloud cluster, called from an edge
# cluster on four paths: at the functions' pods, as the published testbed did,
# and through Knative's ingress; each directly and over ClusterLink. Everything
# runs on this machine.

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

resource "testbed_netem_profile" "edge" {
  rtt          = "10ms"
  jitter       = "1ms"
  distribution = "normal"
  loss         = { random = { percent = 0.08 } }
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

locals {
  sites = {
    edge  = { underlay = "198.18.0.11", overlay = "198.19.0.11/24", pods = "10.44.0.0/16", services = "10.45.0.0/16" }
    cloud = { underlay = "198.18.0.12", overlay = "198.19.0.12/24", pods = "10.46.0.0/16", services = "10.47.0.0/16" }
  }
}

resource "testbed_local_host" "site" {
  for_each = local.sites

  name     = each.key
  networks = [{ network = testbed_network.wan.name, address = each.value.underlay }]
}

module "site" {
  source   = "../../modules/continuum-site"
  for_each = local.sites

  name               = each.key
  host               = testbed_local_host.site[each.key].url
  overlay            = { ca = testbed_nebula_ca.continuum.id, network = each.value.overlay }
  lighthouses        = [testbed_nebula_lighthouse.this.endpoint]
  cluster_cidr       = each.value.pods
  service_cidr       = each.value.services
  fabric             = testbed_clusterlink_fabric.continuum.id
  dataplane          = var.dataplane
  k3s_binary         = var.k3s_binary
  k3s_images         = var.k3s_images
  clusterlink_images = var.clusterlink_images
}

resource "testbed_clusterlink_fabric" "continuum" {
  name = "continuum"
}

resource "testbed_link" "edge_cloud" {
  network = testbed_network.wan.name
  between = [module.site["edge"].host, module.site["cloud"].host]
  profile = testbed_netem_profile.local.json
  verify  = {}

  # Measured once the clusters have started and the machine is quiet.
  depends_on = [module.site, testbed_knative.cloud]
}

# Knative, and the functions with one pod each that takes one request at a time,
# so that no cold start is measured.

resource "testbed_knative" "cloud" {
  cluster       = module.site["cloud"].cluster
  manifests     = var.knative_manifests
  airgap_images = var.knative_images
}

locals {
  functions = {
    hello-world  = {}
    payload-echo = { payload_bytes = 102400, echo = true }
  }
}

resource "testbed_function" "this" {
  for_each = local.functions

  cluster = testbed_knative.cloud.cluster
  name    = each.key
  builtin = each.key
  runtime = "knative"
  scale   = { concurrency = 1 }
}

# ClusterLink makes both available: the pods of each function, by the private
# service of its revision, and the ingress, which tells functions apart by host.

module "clusterlink" {
  source = "../../modules/clusterlink-pair"

  importer = module.site["edge"]
  exporter = module.site["cloud"]
  services = { for name in concat(keys(local.functions), ["ingress"]) : name => 80 }
  hosts = merge(
    { for name, function in testbed_function.this : name => function.private_service },
    { ingress = testbed_knative.cloud.ingress_cluster_ip },
  )
}

# The experiment.

locals {
  hosts = { for name, function in testbed_function.this : name => function.host }
}

resource "testbed_benchmark_run" "knative" {
  name   = "knative"
  client = { cluster = module.site["edge"].cluster }

  functions = local.functions

  # hops.tf has the points that each arm passes.
  baseline = "direct"
  arms = {
    direct = {
      path = "NodePort of the pods"
      hops = local.hops.direct
      urls = { for name, function in testbed_function.this : name => function.node_port_url }
    }
    direct-ingress = {
      path  = "NodePort of the ingress"
      hops  = local.hops.direct-ingress
      urls  = { for name in keys(local.functions) : name => testbed_knative.cloud.ingress_url }
      hosts = local.hosts
    }
    clusterlink = {
      path = "ClusterLink import of the pods"
      hops = local.hops.clusterlink
      urls = { for name in keys(local.functions) : name => module.clusterlink.urls[name] }
    }
    clusterlink-ingress = {
      path  = "ClusterLink import of the ingress"
      hops  = local.hops.clusterlink-ingress
      urls  = { for name in keys(local.functions) : name => module.clusterlink.urls.ingress }
      hosts = local.hosts
    }
  }

  scenarios = {
    local = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.local.json } }
    edge  = { profiles = { (testbed_link.edge_cloud.id) = testbed_netem_profile.edge.json } }
  }

  describe    = [module.site["cloud"].cluster] # beside the client's, which is always recorded
  connections = var.connections
  requests    = var.requests
  blocks      = var.blocks
}

# What it found, as a page with figures and tables.

resource "testbed_report" "knative" {
  runs       = [testbed_benchmark_run.knative.results_folder]
  output_dir = "${var.data_dir}/report"
}
