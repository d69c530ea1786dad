// Package k3s installs k3s on a host, waits until its cluster works, observes
// it, and removes it without a trace.
//
// A cluster has one server, which is also a node, and any number of agents,
// which are further nodes and join and leave while the cluster runs. All that
// lies on a host lies where k3s documents it, so the k3s tools and habits
// apply. Its one invariant: config.yaml, the program and the image archives on
// each host are those of the Spec, or the cluster is not said to be applied.
package k3s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
)

const (
	serverService = "k3s"
	agentService  = "k3s-agent"

	binaryPath       = "/usr/local/bin/k3s"
	configPath       = "/etc/rancher/k3s/config.yaml"
	registriesPath   = "/etc/rancher/k3s/registries.yaml"
	tokenPath        = "/etc/rancher/k3s/token"
	imagesDir        = "/var/lib/rancher/k3s/agent/images"
	nodeTokenPath    = "/var/lib/rancher/k3s/server/node-token"
	nodePasswordPath = "/etc/rancher/node/password"
)

// APIPort is the port that the API server listens on.
const APIPort = 6443

// Spec describes the server of a cluster.
type Spec struct {
	Name      string     // of the node
	NodeIP    netip.Addr // an address of the host
	Interface string     // between nodes; k3s's choice when empty

	ClusterCIDR netip.Prefix // of pods
	ServiceCIDR netip.Prefix // of services

	TLSSANs []string       // further names and addresses of the API server
	Disable []string       // packaged components to leave out
	Config  map[string]any // further keys of config.yaml

	Registries   string // content of registries.yaml; no such file when empty
	Binary       artifact.File
	AirgapImages []artifact.File
}

// Agent describes a further node of a cluster.
type Agent struct {
	Name      string     // of the node
	NodeIP    netip.Addr // an address of the host
	Interface string     // between nodes; k3s's choice when empty

	Cluster  string     // the name of the server's node
	ServerIP netip.Addr // an address of the server that the agent reaches

	// Config are keys of config.yaml, those of the server; the ones that
	// agents do not have are left out.
	Config map[string]any

	Registries   string // content of registries.yaml; no such file when empty
	Binary       artifact.File
	AirgapImages []artifact.File
}

// InputError reports a part of a Spec or an Agent that cannot work on the
// host. Field is "binary", "node_ip", "interface", "name", "host" or "config".
type InputError struct {
	Field string
	Err   error
}

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// Reserved returns the keys of config.yaml that Spec.Config must not have,
// with the reason.
func Reserved() map[string]string {
	const managed = "it follows from other attributes"
	return map[string]string{
		"node-name":             managed,
		"node-ip":               managed,
		"advertise-address":     managed,
		"flannel-iface":         managed,
		"cluster-cidr":          managed,
		"service-cidr":          managed,
		"tls-san":               managed,
		"disable":               managed,
		"token-file":            "the token is made on the host",
		"token":                 "it would enter the state; the token is made on the host",
		"agent-token":           "it would enter the state",
		"data-dir":              "the cluster could not be found again",
		"write-kubeconfig":      "the cluster could not be found again",
		"write-kubeconfig-mode": "the kubeconfig holds the administrator's key",
		"https-listen-port":     "the cluster could not be found again",
		"server":                "a cluster has one server",
		"cluster-init":          "a cluster has one server",
		"private-registry":      "registries is written to the usual place",
	}
}

// agentKeys are the keys of config.yaml that agents have too; they refuse to
// start with those of servers.
func agentKeys() []string {
	return []string{
		"debug", "v", "vmodule", "node-external-ip", "node-label", "node-taint", "with-node-id", "snapshotter", "pause-image",
		"system-default-registry", "disable-default-registry-endpoint", "resolv-conf", "flannel-conf", "flannel-cni-conf",
		"kubelet-arg", "kube-proxy-arg", "protect-kernel-defaults", "prefer-bundled-bin", "lb-server-port", "selinux",
	}
}

// ConfigYAML returns the content of config.yaml. It holds no secret.
func (s Spec) ConfigYAML() (string, error) {
	config := map[string]any{}
	for key, value := range s.Config {
		if reason, ok := Reserved()[strings.TrimSuffix(key, "+")]; ok {
			return "", fmt.Errorf("render config.yaml: %q cannot be set: %s", key, reason)
		}
		config[key] = value
	}
	config["node-name"] = s.Name
	config["node-ip"] = s.NodeIP.String()
	config["advertise-address"] = s.NodeIP.String()
	config["tls-san"] = append(s.ownSANs(), s.TLSSANs...)
	config["cluster-cidr"] = s.ClusterCIDR.String()
	config["service-cidr"] = s.ServiceCIDR.String()
	config["token-file"] = tokenPath
	config["write-kubeconfig-mode"] = "0600"
	if s.Interface != "" {
		config["flannel-iface"] = s.Interface
	}
	if len(s.Disable) > 0 {
		config["disable"] = s.Disable
	}
	return render(config)
}

func render(config map[string]any) (string, error) {
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("render config.yaml: %w", err)
	}
	return "# Managed by testbed_k3s_cluster, which undoes other changes.\n" + string(text), nil
}

// ConfigYAML returns the content of config.yaml. It holds no secret.
func (a Agent) ConfigYAML() (string, error) {
	config := map[string]any{}
	for key, value := range a.Config {
		if slices.Contains(agentKeys(), strings.TrimSuffix(key, "+")) {
			config[key] = value
		}
	}
	config["node-name"] = a.Name
	config["node-ip"] = a.NodeIP.String()
	config["server"] = fmt.Sprintf("https://%s:%d", a.ServerIP, APIPort)
	config["token-file"] = tokenPath
	if a.Interface != "" {
		config["flannel-iface"] = a.Interface
	}
	return render(config)
}

// ownSANs are the names that the API server's certificate always has.
func (s Spec) ownSANs() []string { return []string{s.NodeIP.String(), s.Name} }

// ParseConfig returns the part of a Spec that its config.yaml holds.
func ParseConfig(text string) (Spec, error) {
	var known struct {
		Name        string       `json:"node-name"`
		NodeIP      netip.Addr   `json:"node-ip"`
		Interface   string       `json:"flannel-iface"`
		ClusterCIDR netip.Prefix `json:"cluster-cidr"`
		ServiceCIDR netip.Prefix `json:"service-cidr"`
		TLSSANs     []string     `json:"tls-san"`
		Disable     []string     `json:"disable"`
	}
	if err := yaml.Unmarshal([]byte(text), &known); err != nil {
		return Spec{}, fmt.Errorf("parse %s: %w", configPath, err)
	}
	var further map[string]any
	if err := yaml.Unmarshal([]byte(text), &further); err != nil {
		return Spec{}, fmt.Errorf("parse %s: %w", configPath, err)
	}
	for key := range Reserved() {
		delete(further, key)
	}
	spec := Spec{
		Name:        known.Name,
		NodeIP:      known.NodeIP,
		Interface:   known.Interface,
		ClusterCIDR: known.ClusterCIDR,
		ServiceCIDR: known.ServiceCIDR,
		Disable:     known.Disable,
		Config:      further,
	}
	for _, san := range known.TLSSANs {
		if !slices.Contains(spec.ownSANs(), san) {
			spec.TLSSANs = append(spec.TLSSANs, san)
		}
	}
	return spec, nil
}
