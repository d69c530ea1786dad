resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}
