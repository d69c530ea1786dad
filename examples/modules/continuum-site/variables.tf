variable "name" {
  description = "Name of the cluster and the peer."
  type        = string
}

variable "host" {
  description = "URL of the site's host, for example that of a testbed_local_host."
  type        = string
}

variable "overlay" {
  description = "Id of the overlay's CA, and the node's overlay address with the overlay's prefix length."
  type        = object({ ca = string, network = string })
}

variable "lighthouses" {
  description = "Endpoints of the overlay's lighthouses."
  type        = list(object({ overlay = string, underlay = string }))
}

variable "cluster_cidr" {
  description = "Addresses of pods; distinct at every site."
  type        = string
}

variable "service_cidr" {
  description = "Addresses of services; distinct at every site."
  type        = string
}

variable "fabric" {
  description = "ClusterLink fabric that the peer belongs to, by its id."
  type        = string
}

variable "dataplane" {
  description = "ClusterLink's data plane, \"envoy\" or \"go\"."
  type        = string
  default     = "envoy"
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
