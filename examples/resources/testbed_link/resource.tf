resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.0.11" }]
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.0.12" }]
}

resource "testbed_netem_profile" "edge" {
  rtt = "10ms"
}

resource "testbed_link" "edge_cloud" {
  network = testbed_network.wan.name
  between = [testbed_local_host.edge.url, testbed_local_host.cloud.url]
  profile = testbed_netem_profile.edge.json

  # The apply fails when the link does not do what the profile says.
  verify = {
    packets = 200
  }
}

# Two machines that are reached by SSH: their kernels carry the link out, on the
# network cards by which they reach each other.
resource "testbed_ssh_host" "board" {
  address = "198.18.0.21"
  user    = "pi"
}

resource "testbed_ssh_host" "rented" {
  address = "198.18.0.22"
  user    = "root"
}

resource "testbed_link" "board_rented" {
  between = [testbed_ssh_host.board.url, testbed_ssh_host.rented.url]
  profile = testbed_netem_profile.edge.json
  verify  = {}
}
