terraform {
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

provider "testbed" {}
