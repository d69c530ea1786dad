# The points that requests pass on each path. The gateway's and ClusterLink's are
# the same but for the programs, so that what lies between those two is
# ClusterLink's authorisation of each connection; between the gateway and the
# direct path are proxies and TLS, and between direct and underlay the overlay.

locals {
  from = { name = "client pod on edge", kind = "client" }
  to   = { name = "function pod on cloud", kind = "function" }

  hops = {
    underlay = [
      local.from,
      { name = "NodePort of the function on cloud", kind = "service", network = "underlay" },
      local.to,
    ]
    direct = [
      local.from,
      { name = "NodePort of the function on cloud", kind = "service", network = "overlay" },
      local.to,
    ]
    gateway = [
      local.from,
      { name = "Service on edge", kind = "service" },
      { name = "haproxy on edge", kind = "proxy" },
      { name = "NodePort of the gateway on cloud", kind = "service", protocol = "mtls", network = "overlay" },
      { name = "haproxy on cloud", kind = "proxy", protocol = "mtls" },
      { name = "Service of the function on cloud", kind = "service" },
      local.to,
    ]
    clusterlink = [
      local.from,
      { name = "Service of the import on edge", kind = "service" },
      { name = "ClusterLink data plane on edge", kind = "proxy" },
      { name = "NodePort of the peer on cloud", kind = "service", protocol = "mtls", network = "overlay" },
      { name = "ClusterLink data plane on cloud", kind = "proxy", protocol = "mtls" },
      { name = "Service of the function on cloud", kind = "service" },
      local.to,
    ]
  }
}
