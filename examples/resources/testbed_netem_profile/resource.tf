# 10 ms there and back, with jitter and some loss in each direction.
resource "testbed_netem_profile" "edge" {
  rtt          = "10ms"
  jitter       = "1ms"
  distribution = "normal"
  loss         = { random = { percent = 0.08 } }
}

# An access line: slow upwards, and losses that come in bursts.
resource "testbed_netem_profile" "access" {
  delay = "8ms"
  rate  = "50mbit"
  seed  = 7

  forward = {
    rate = "10mbit"
    loss = { gemodel = { p = 0.5, r = 20 } }
  }
}
