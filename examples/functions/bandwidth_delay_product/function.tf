# What a connection has to have in flight to fill the link: 500000 bytes.
output "window" {
  value = provider::testbed::bandwidth_delay_product("100mbit", "40ms")
}
