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
  description = "Folder of this testbed on this machine."
  type        = string
  default     = "/var/lib/testbed"
}

variable "k3s_binary" {
  description = "Path of a k3s program; null downloads the pinned release."
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
