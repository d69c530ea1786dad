variable "connections" {
  description = "What happens to a connection between requests: reuse, new or both."
  type        = list(string)
  default     = ["reuse", "new"]
}

variable "requests" {
  description = "Measured requests of each cell, 40 as in the published measurements. A percentile is shown when the requests allow it."
  type        = number
  default     = 40
}

variable "blocks" {
  description = "Blocks that the requests are spread over, each with all cells in random order."
  type        = number
  default     = 8
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

variable "knative_manifests" {
  description = "Paths of the manifests of Knative Serving; null downloads those of the pinned release."
  type        = list(string)
  default     = null
}

variable "knative_images" {
  description = "Image tarballs of Knative; needed without internet only."
  type        = list(string)
  default     = []
}
