variable "lighthouse" {
  description = "Machine that the others find each other by: how SSH reaches it, and the address at which the others do."
  type        = object({ address = string, port = optional(number), user = optional(string), underlay = string })
}

variable "pi" {
  description = "Machine at the edge, whose pods call."
  type        = object({ address = string, port = optional(number), user = optional(string), underlay = string })
}

variable "cloud" {
  description = "Machine in the cloud, whose pods answer."
  type        = object({ address = string, port = optional(number), user = optional(string), underlay = string })
}

variable "requests" {
  description = "Measured requests of each cell. A percentile is shown when the requests allow it: 100 for p90."
  type        = number
  default     = 100
}

variable "blocks" {
  description = "Blocks that the requests are spread over, each with all cells in random order."
  type        = number
  default     = 10
}

variable "dataplane" {
  description = "ClusterLink's data plane, \"envoy\" or \"go\"."
  type        = string
  default     = "envoy"
}

variable "data_dir" {
  description = "Folder on this machine for keys, downloads and results."
  type        = string
  default     = "/var/lib/testbed"
}

variable "k3s_binary" {
  description = "Path of a k3s program for both clusters; null downloads the pinned release for each machine's architecture."
  type        = string
  default     = null
}

variable "k3s_images" {
  description = "Air-gap image archives of k3s; null takes those of the release."
  type        = list(string)
  default     = null
}

variable "clusterlink_images" {
  description = "Image tarballs of ClusterLink; needed without internet only."
  type        = list(string)
  default     = []
}

variable "gateway_image" {
  description = "Image of haproxy, for the gateway pair."
  type        = string
  default     = "docker.io/library/haproxy:3.0"
}

variable "gateway_images" {
  description = "Image tarballs of haproxy; needed without internet only."
  type        = list(string)
  default     = []
}
