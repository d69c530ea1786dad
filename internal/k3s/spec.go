// Package k3s installs k3s on a host, waits until its cluster works, observes
// it, and removes it without a trace.
//
// A cluster has one server, and the server is also its node. Everything of it
// on the host lies where k3s documents it, so the k3s tools and habits apply.
// Its one invariant: config.yaml, the program and the image archives on the
// host are those of the Spec, or the cluster is not said to be applied.
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
	serviceName = "k3s"
	binaryPath  = "/usr/local/bin/k3s"
	configPath  = "/etc/rancher/k3s/config.yaml"
	tokenPath   = "/etc/rancher/k3s/token"
	imagesDir   = "/var/lib/rancher/k3s/agent/images"
)

// APIPort is the port that the API server listens on.
const APIPort = 6443

// Spec describes a cluster.
type Spec struct {
	Name      string     // of the node
	NodeIP    netip.Addr // an address of the host
	Interface string     // between nodes; k3s's choice when empty

	ClusterCIDR netip.Prefix // of pods
	ServiceCIDR netip.Prefix // of services

	TLSSANs []string       // further names and addresses of the API server
	Disable []string       // packaged components to leave out
	Config  map[string]any // further keys of config.yaml

	Binary       artifact.File
	AirgapImages []artifact.File
}

// InputError reports a part of a Spec that cannot work on the host. Field is
// "binary", "node_ip", "interface" or "name".
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
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("render config.yaml: %w", err)
	}
	return "# Managed by testbed_k3s_cluster, which undoes other changes.\n" + string(text), nil
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
