# A board behind the router of the lab, and a machine in a data centre.

resource "testbed_ssh_host" "edge" {
  address  = "198.18.0.21"
  user     = "pi"
  bastion  = "student@lab.example.org"
  host_key = "SHA256:uNiVztksCsDhcc0u9e8BrrJXVGDYuJEHMDcZrsBqhyo"
  requires = ["overlay", "link", "cluster"]
}

resource "testbed_ssh_host" "cloud" {
  address  = "198.18.0.22"
  user     = "root"
  requires = ["overlay", "link", "cluster"]

  # It is rented by the hour, and may be gone before the testbed is.
  on_destroy_unreachable = "abandon"
}
