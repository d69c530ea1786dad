name = "short"
arms = {
  direct = {
    urls = {
      hello = "http://198.19.0.12:30080/"
    }
  }
}
blocks          = 5
connections     = ["new", "reuse"]
max_error_ratio = 0.05
scenarios = {
  edge = {
    profiles = {
      "wan/edge/cloud" = "{\"delay\":\"5ms\"}"
    }
  }
  local = {
    profiles = {}
  }
  odd = {
    profiles = {
      "wan/a/b" = "$${path.module} and %%{ if }"
    }
  }
}
