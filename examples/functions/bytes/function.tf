# The payload of a function, in bytes: 102400.
output "payload" {
  value = provider::testbed::bytes("100KiB")
}
