variable "importer" {
  description = "Site whose pods call the services."
  type        = object({ cluster = string, peer = string, gateway = object({ host = string, port = number }) })
}

variable "exporter" {
  description = "Site that runs the services."
  type        = object({ cluster = string, peer = string, gateway = object({ host = string, port = number }) })
}

variable "services" {
  description = "Services of the exporter, name to port."
  type        = map(number)
}

variable "hosts" {
  description = "Address or DNS name of those services that are not Services of the same name, by their names."
  type        = map(string)
  default     = {}
}
