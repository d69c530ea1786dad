resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}

resource "testbed_local_host" "this" {
  for_each = { lighthouse = "198.18.0.2", edge = "198.18.0.11" }

  name     = each.key
  networks = [{ network = testbed_network.wan.name, address = each.value }]
}

resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_local_host.this["lighthouse"].url
  ca       = testbed_nebula_ca.lab.id
  network  = "198.19.0.1/24"
  underlay = "198.18.0.2"
}

resource "testbed_nebula_node" "edge" {
  host        = testbed_local_host.this["edge"].url
  ca          = testbed_nebula_ca.lab.id
  network     = "198.19.0.11/24"
  lighthouses = [testbed_nebula_lighthouse.this.endpoint]
  groups      = ["k3s"]

  firewall = {
    inbound = [
      { proto = "icmp", host = "any" },
      { port = "6443", proto = "tcp", groups = ["k3s"] },
      { port = "8472", proto = "udp", groups = ["k3s"] },
    ]
    outbound = [{ host = "any" }]
  }
}
