package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// What is wrong with a function or its Knative shows in the plan, before any
// cluster is asked.
func TestKnativeInputsAreRefused(t *testing.T) {
	const function, knative = `resource "testbed_function" "this" {
  cluster = "k3s+local://edge"
  builtin = "hello-world"
  `, `resource "testbed_knative" "this" {
  cluster = "k3s+local://edge"
  `
	const onKnative = function + "name = \"hello\"\n  runtime = \"knative\"\n  "
	for name, test := range map[string]struct{ config, want string }{
		"scale of a Deployment":  {function + "name = \"hello\"\n  scale = { min = 2 }", `A Deployment has a fixed number of pods. Use replicas, or runtime`},
		"replicas":               {onKnative + `replicas = 2`, `Knative decides how many pods there are. Say how with scale`},
		"least above most":       {onKnative + `scale = { min = 3, max = 2 }`, `The largest number of pods is 2 and the least number 3. Set max to 3 or more`},
		"least above default":    {onKnative + `scale = { min = 2 }`, `The largest number of pods is 1 and the least number 2`},
		"initial above most":     {onKnative + `scale = { initial = 4, max = 2 }`, `The largest number of pods is 2 and the initial number 4`},
		"negative":               {onKnative + `scale = { min = -1 }`, `must be at least 0`},
		"no initial":             {onKnative + `scale = { initial = 0 }`, `must be at least 1`},
		"concurrency":            {onKnative + `scale = { concurrency = 1001 }`, `must be between 0 and 1000`},
		"burst":                  {onKnative + `scale = { target_burst_capacity = -2 }`, `must be at least -1`},
		"port of the sidecar":    {onKnative + `port = 8012`, `Knative's queue-proxy listens on port 8012 of each pod. Have the function listen on another`},
		"variable":               {onKnative + `env = { PORT = "80" }`, `Knative itself sets PORT. Remove it`},
		"digit":                  {function + "name = \"1hello\"\n  runtime = \"knative\"", `begins with a letter and has 49 characters at most`},
		"long name":              {function + "name = \"a23456789-123456789-123456789-123456789-1234567890\"\n  runtime = \"knative\"", `has 49 characters at most, since its Services are named after it`},
		"window":                 {knative + `stable_window = "5s"`, `stable_window is 5s; it must be from 6s to 1h0m0s, in whole seconds`},
		"window in milliseconds": {knative + `stable_window = "6500ms"`, `stable_window is 6500ms; it must be from 6s to 1h0m0s, in whole seconds`},
		"window in words":        {knative + `stable_window = "a minute"`, `a minute`},
		"grace":                  {knative + `scale_to_zero_grace_period = "0s"`, `scale_to_zero_grace_period is 0s; it must be 1s or more`},
		"burst of all":           {knative + `target_burst_capacity = -2`, `must be at least -1`},
		"memory":                 {knative + `memory_request = "64 megabytes"`, `"64 megabytes" is no quantity such as`},
		"no class":               {knative + `ingress = "none"`, `Name its class`},
		"class":                  {knative + `ingress_class = "kourier"`, `The class follows from ingress`},
		"ingress":                {knative + `ingress = "nginx"`, `must be one of: \["built-in" "traefik" "none"\]`},
		"domain":                 {knative + `domain = "Edge Example"`, `must be a DNS name`},
		"manifest":               {knative + `manifests = ["serving-core.yaml"]`, `must be an absolute path on this machine or a URL`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      providerConfig(t.TempDir()) + test.config + "\n}\n",
					PlanOnly:    true,
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}
