package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

// TestClusterResourcesRefuse gives every attribute that is checked a value that
// cannot work.
func TestClusterResourcesRefuse(t *testing.T) {
	const label = `must be at most 63 small letters, digits and hyphens`
	complete := map[string]string{
		"clusterlink_fabric":        "name = \"continuum\"",
		"clusterlink_peer":          "cluster = \"k3s+local://edge\"\nname = \"edge\"\nfabric = \"continuum\"",
		"clusterlink_connection":    "cluster = \"k3s+local://edge\"\npeer = \"cloud\"\ngateways = [{ host = \"198.19.0.12\", port = 30443 }]",
		"clusterlink_export":        "cluster = \"k3s+local://edge\"\nname = \"hello\"\nport = 80",
		"clusterlink_import":        "cluster = \"k3s+local://edge\"\nname = \"hello\"\nport = 80\nsources = [{ peer = \"cloud\", export = \"hello\" }]",
		"clusterlink_access_policy": "cluster = \"k3s+local://edge\"\nname = \"allow\"\naction = \"allow\"\nfrom = [{}]\nto = [{}]",
		"function":                  "cluster = \"k3s+local://edge\"\nname = \"hello\"\nbuiltin = \"hello-world\"",
	}
	for name, test := range map[string]struct{ kind, attribute, want string }{
		"fabric name":          {"clusterlink_fabric", `name = "a/b"`, label},
		"cluster":              {"clusterlink_peer", `cluster = "edge"`, `must be the URL of a cluster, for example "k3s\+local://edge"`},
		"peer name":            {"clusterlink_peer", `name = "Edge"`, `must be a DNS name of small letters`},
		"data plane":           {"clusterlink_peer", `dataplane = "nginx"`, `value must be one of`},
		"replicas of peer":     {"clusterlink_peer", `dataplane_replicas = 11`, `must be between 1 and 10`},
		"ingress":              {"clusterlink_peer", `ingress = "Ingress"`, `value must be one of`},
		"node port":            {"clusterlink_peer", `ingress_port = 443`, `ingress_port is 443; a node port is 30000 to 32767`},
		"port without ingress": {"clusterlink_peer", "ingress = \"none\"\ningress_port = 30443", `A peer without ingress has no port`},
		"log level":            {"clusterlink_peer", `log_level = "warn"`, `value must be one of`},
		"labels":               {"clusterlink_peer", `labels = { a = "b", c = "d" }`, `map must contain at most 1 elements`},
		"registry":             {"clusterlink_peer", `registry = "ghcr.io/clusterlink-net/"`, `must not end with a slash`},
		"archives":             {"clusterlink_peer", `airgap_images = ["images.tar"]`, `must be an absolute path on this machine`},
		"gateways":             {"clusterlink_connection", `gateways = []`, `list must contain at least 1 elements`},
		"gateway port":         {"clusterlink_connection", `gateways = [{ host = "198.19.0.12", port = 70000 }]`, `gateways\[0\]\.port value must be between 1 and 65535, got: 70000`},
		"no gateway":           {"clusterlink_connection", `gateways = [null]`, `it needs host and port`},
		"export name":          {"clusterlink_export", `name = "hello_world"`, label},
		"export port":          {"clusterlink_export", `port = 0`, `must be between 1 and 65535`},
		"export namespace":     {"clusterlink_export", `namespace = ""`, label},
		"export host":          {"clusterlink_export", `host = ""`, `string length must be at least 1`},
		"sources":              {"clusterlink_import", `sources = []`, `list must contain at least 1 elements`},
		"import port":          {"clusterlink_import", `port = 65536`, `must be between 1 and 65535`},
		"target port":          {"clusterlink_import", `target_port = -1`, `must be between 1 and 65535`},
		"scheme":               {"clusterlink_import", `lb_scheme = "least"`, `value must be one of`},
		"action":               {"clusterlink_access_policy", `action = "log"`, `value must be one of`},
		"from":                 {"clusterlink_access_policy", `from = []`, `list must contain at least 1 elements`},
		"to":                   {"clusterlink_access_policy", `to = []`, `list must contain at least 1 elements`},
		"operator":             {"clusterlink_access_policy", `to = [{ match_expressions = [{ key = "a", operator = "Equals", values = ["b"] }] }]`, `value must be one of`},
		"values":               {"clusterlink_access_policy", `to = [{ match_expressions = [{ key = "a", operator = "In" }] }]`, `In and NotIn need values, Exists and DoesNotExist take none`},
		"no values":            {"clusterlink_access_policy", `from = [{ match_expressions = [{ key = "a", operator = "Exists", values = ["b"] }] }]`, `In and NotIn need values, Exists and DoesNotExist take none`},
		"builtin":              {"function", `builtin = "fibonacci"`, `value must be one of`},
		"builtin and image":    {"function", `image = "example/image:1"`, `Exactly one of these attributes must be configured: \[builtin,image\]`},
		"args":                 {"function", `args = ["-v"]`, `Attribute "builtin" cannot be specified when "args" is specified`},
		"runtime":              {"function", `runtime = "wasm"`, `value must be one of`},
		"port":                 {"function", `port = 0`, `must be between 1 and 65535`},
		"replicas":             {"function", `replicas = 0`, `must be at least 1`},
		"function node port":   {"function", `node_port = 8080`, `must be between 30000 and 32767`},
		"quantity":             {"function", `resources = { limits = { cpu = "half" } }`, `"half" is no quantity such as "500m" or "64Mi"`},
	} {
		t.Run(name, func(t *testing.T) {
			key, _, _ := strings.Cut(test.attribute, " ")
			var lines []string
			for line := range strings.Lines(complete[test.kind]) {
				if !strings.HasPrefix(line, key+" ") {
					lines = append(lines, strings.TrimSuffix(line, "\n"))
				}
			}
			lines = append(lines, test.attribute)
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      providerConfig(t.TempDir()) + "resource \"testbed_" + test.kind + "\" \"this\" {\n" + strings.Join(lines, "\n") + "\n}\n",
					PlanOnly:    true,
					ExpectError: wrapped(test.want),
				}},
			})
		})
	}
}
