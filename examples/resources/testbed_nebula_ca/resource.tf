resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
  groups   = ["k3s", "edge", "cloud"]
}
