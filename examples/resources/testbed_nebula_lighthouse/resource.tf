resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}

resource "testbed_local_host" "lighthouse" {
  name     = "lighthouse"
  networks = [{ network = testbed_network.wan.name, address = "198.18.0.2" }]
}

resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
}

resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_local_host.lighthouse.url
  ca       = testbed_nebula_ca.lab.id
  network  = "198.19.0.1/24"
  underlay = "198.18.0.2"
  relay    = true
}
