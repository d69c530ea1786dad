# Services of one site, imported at another over ClusterLink. Both sides allow
# all clients of the importing namespace.

terraform {
  required_providers {
    testbed = {
      source = "terraform-testbed/testbed"
    }
  }
}

resource "testbed_clusterlink_connection" "importer" {
  cluster  = var.importer.cluster
  peer     = var.exporter.peer
  gateways = [var.exporter.gateway]
}

resource "testbed_clusterlink_connection" "exporter" {
  cluster  = var.exporter.cluster
  peer     = var.importer.peer
  gateways = [var.importer.gateway]
}

resource "testbed_clusterlink_access_policy" "this" {
  for_each = { importer = var.importer.cluster, exporter = var.exporter.cluster }

  cluster = each.value
  name    = "allow-all"
  action  = "allow"
  from    = [{}]
  to      = [{}]

  depends_on = [testbed_clusterlink_connection.importer, testbed_clusterlink_connection.exporter]
}

resource "testbed_clusterlink_export" "this" {
  for_each = var.services

  cluster = var.exporter.cluster
  name    = each.key
  port    = each.value
  host    = lookup(var.hosts, each.key, null)

  depends_on = [testbed_clusterlink_connection.exporter]
}

resource "testbed_clusterlink_import" "this" {
  for_each = var.services

  cluster = var.importer.cluster
  name    = each.key
  port    = 80
  sources = [{ peer = testbed_clusterlink_connection.importer.peer, export = testbed_clusterlink_export.this[each.key].name }]

  depends_on = [testbed_clusterlink_access_policy.this]
}
