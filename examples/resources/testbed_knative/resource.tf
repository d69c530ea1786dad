# Knative Serving, for functions that scale with their calls.

resource "testbed_knative" "cloud" {
  cluster = "k3s+local://cloud"
}

# On a machine without internet the release's manifests and images come from
# files.

resource "testbed_knative" "edge" {
  cluster       = "k3s+local://edge"
  manifests     = ["/srv/testbed/knative-serving.yaml"]
  airgap_images = ["/srv/testbed/knative-images-amd64.tar"]

  # Nothing of a cold start in the path of a steady state.
  scale_to_zero         = false
  target_burst_capacity = 0
}
