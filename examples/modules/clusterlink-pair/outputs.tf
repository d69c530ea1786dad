output "urls" {
  description = "URL of each imported service, as pods of the importer call it."
  value       = { for name, import in testbed_clusterlink_import.this : name => import.url }
}
