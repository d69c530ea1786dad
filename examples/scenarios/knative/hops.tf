# The points that requests pass on each path. Every pod of Knative has a
# queue-proxy before the function. The ingress is one proxy more, and one more
# translation of addresses; what ClusterLink adds is the same on both paths.

locals {
  from = [{ name = "client pod on edge", kind = "client" }]
  pod  = [{ name = "queue-proxy on cloud", kind = "proxy" }, { name = "function on cloud", kind = "function" }]

  # From the ingress on, and from the revision's private service on.
  ingress = concat([{ name = "Knative ingress on cloud", kind = "proxy" }, { name = "Service of the revision on cloud", kind = "service" }], local.pod)
  private = concat([{ name = "private Service of the revision on cloud", kind = "service" }], local.pod)

  clusterlink = concat(local.from, [
    { name = "Service of the import on edge", kind = "service" },
    { name = "ClusterLink data plane on edge", kind = "proxy" },
    { name = "NodePort of the peer on cloud", kind = "service", protocol = "mtls", network = "overlay" },
    { name = "ClusterLink data plane on cloud", kind = "proxy", protocol = "mtls" },
  ])

  hops = {
    direct              = concat(local.from, [{ name = "NodePort of the pods on cloud", kind = "service", network = "overlay" }], local.pod)
    direct-ingress      = concat(local.from, [{ name = "NodePort of the ingress on cloud", kind = "service", network = "overlay" }], local.ingress)
    clusterlink         = concat(local.clusterlink, local.private)
    clusterlink-ingress = concat(local.clusterlink, [{ name = "Service of the ingress on cloud", kind = "service" }], local.ingress)
  }
}
