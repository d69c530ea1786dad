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
