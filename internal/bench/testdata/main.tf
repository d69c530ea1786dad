# Makes the run of inputs.tfvars once more, on a testbed that has its clusters,
# links and functions. Copy both files to a folder of their own, beside the
# provider block of the testbed unless its data_dir is the default, then:
#   terraform init && terraform apply -var-file=inputs.tfvars

terraform {
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

variable "name" {
  type = any
}

variable "arms" {
  type = any
}

variable "blocks" {
  type = any
}

variable "connections" {
  type = any
}

variable "max_error_ratio" {
  type = any
}

variable "scenarios" {
  type = any
}

resource "testbed_benchmark_run" "this" {
  name            = var.name
  arms            = var.arms
  blocks          = var.blocks
  connections     = var.connections
  max_error_ratio = var.max_error_ratio
  scenarios       = var.scenarios
}

output "run" {
  value = testbed_benchmark_run.this
}
