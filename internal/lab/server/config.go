// Package server runs a Kubernetes server, which is also a node, or a further
// node from the components that are linked into the stand-in for k3s.
//
// It reads k3s's configuration, writes k3s's files and folders, and starts the
// components as processes of its own. Its one invariant is k3s's: when it
// ends, the pods live on, and the next start finds them.
package server

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// KubeconfigPath is where the administrator's kubeconfig is written.
const KubeconfigPath = "/etc/rancher/k3s/k3s.yaml"

const configPath = "/etc/rancher/k3s/config.yaml"

// Config is what a server or an agent is started with. Of an agent, what is
// the cluster's comes from its server.
type Config struct {
	DataDir string
	Token   string // as given: short, or with the hash of the CA
	Server  string // URL of an agent's server, "" for a server

	NodeName   string
	NodeIP     netip.Addr
	NodeLabels []string // "key=value"
	NodeTaints []string // "key=value:effect"

	Advertise netip.Addr
	Bind      netip.Addr
	Port      int // of the API server
	TLSSANs   []string

	ClusterCIDR   netip.Prefix
	ServiceCIDR   netip.Prefix
	ClusterDNS    netip.Addr
	ClusterDomain string
	NodePorts     string // "30000-32767"

	FlannelIface   string // its MTU bounds that of the pods
	FlannelBackend string // "vxlan" or "host-gw"

	Kubeconfig     string
	KubeconfigMode fs.FileMode
	PauseImage     string
	Snapshotter    string
	ResolvConf     string

	CoreDNS bool
	Args    map[string][]string // further flags by component, "name=value"
	Unused  []string            // keys that were given and do nothing here
}

// setting takes the values of one key: one value, or those of a list.
type setting func(c *Config, values []string) error

// settings are the keys of the configuration, which are also the flags.
func settings() map[string]setting {
	unused := setting(nil)
	return map[string]setting{
		"data-dir":                    text(func(c *Config) *string { return &c.DataDir }),
		"token":                       text(func(c *Config) *string { return &c.Token }),
		"token-file":                  tokenFile,
		"server":                      text(func(c *Config) *string { return &c.Server }),
		"node-name":                   text(func(c *Config) *string { return &c.NodeName }),
		"node-ip":                     address(func(c *Config) *netip.Addr { return &c.NodeIP }),
		"node-label":                  list(func(c *Config) *[]string { return &c.NodeLabels }),
		"node-taint":                  list(func(c *Config) *[]string { return &c.NodeTaints }),
		"advertise-address":           address(func(c *Config) *netip.Addr { return &c.Advertise }),
		"bind-address":                address(func(c *Config) *netip.Addr { return &c.Bind }),
		"https-listen-port":           port,
		"tls-san":                     list(func(c *Config) *[]string { return &c.TLSSANs }),
		"cluster-cidr":                prefix(func(c *Config) *netip.Prefix { return &c.ClusterCIDR }),
		"service-cidr":                prefix(func(c *Config) *netip.Prefix { return &c.ServiceCIDR }),
		"cluster-dns":                 address(func(c *Config) *netip.Addr { return &c.ClusterDNS }),
		"cluster-domain":              text(func(c *Config) *string { return &c.ClusterDomain }),
		"service-node-port-range":     text(func(c *Config) *string { return &c.NodePorts }),
		"flannel-iface":               text(func(c *Config) *string { return &c.FlannelIface }),
		"flannel-backend":             flannelBackend,
		"write-kubeconfig":            text(func(c *Config) *string { return &c.Kubeconfig }),
		"write-kubeconfig-mode":       kubeconfigMode,
		"pause-image":                 text(func(c *Config) *string { return &c.PauseImage }),
		"snapshotter":                 text(func(c *Config) *string { return &c.Snapshotter }),
		"resolv-conf":                 text(func(c *Config) *string { return &c.ResolvConf }),
		"disable":                     disable,
		"kubelet-arg":                 arguments("kubelet"),
		"kube-proxy-arg":              arguments("kube-proxy"),
		"kube-apiserver-arg":          arguments("kube-apiserver"),
		"kube-controller-manager-arg": arguments("kube-controller-manager"),
		"kube-scheduler-arg":          arguments("kube-scheduler"),

		// What these turn off is not in the stand-in, or what they tune is not.
		"disable-network-policy":            unused,
		"disable-cloud-controller":          unused,
		"disable-helm-controller":           unused,
		"disable-default-registry-endpoint": unused,
		"node-external-ip":                  unused,
		"egress-selector-mode":              unused,
		"prefer-bundled-bin":                unused,
		"debug":                             unused,
	}
}

// agentKeys are the settings that agents have, as in k3s.
func agentKeys() []string {
	return []string{
		"data-dir", "token", "token-file", "server", "node-name", "node-ip", "node-label", "node-taint", "flannel-iface",
		"pause-image", "snapshotter", "resolv-conf", "kubelet-arg", "kube-proxy-arg", "disable-default-registry-endpoint",
		"node-external-ip", "prefer-bundled-bin", "debug",
	}
}

// Load reads the configuration of "k3s server ARGS": the defaults, then
// config.yaml, the files of config.yaml.d in alphabetical order, and the
// flags. A later value replaces an earlier one; "key+" adds to it.
func Load(args []string, getenv func(string) string) (Config, error) {
	values, err := read(args, getenv)
	if err != nil {
		return Config{}, err
	}
	if len(values["server"]) > 0 {
		return Config{}, errors.New("\"server\": the stand-in has one server; further nodes are agents")
	}
	return build(values)
}

// LoadAgent is Load for "k3s agent ARGS".
func LoadAgent(args []string, getenv func(string) string) (Config, error) {
	values, err := read(args, getenv)
	if err != nil {
		return Config{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, known := settings()[key]; known && !slices.Contains(agentKeys(), key) {
			return Config{}, fmt.Errorf("%q is a setting of servers, which an agent does not have", key)
		}
	}
	c, err := build(values)
	if err != nil {
		return Config{}, err
	}
	if c.Server == "" || c.Token == "" {
		return Config{}, errors.New("an agent needs the settings server, for example https://198.18.1.10:6443, and token or token-file")
	}
	c.Server = strings.TrimSuffix(c.Server, "/")
	return c, nil
}

func read(args []string, getenv func(string) string) (map[string][]string, error) {
	flags, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	path := configPath
	if value := getenv("K3S_CONFIG_FILE"); value != "" {
		path = value
	}
	if value, ok := flags["config"]; ok {
		path = value[len(value)-1]
		delete(flags, "config")
	}

	values := map[string][]string{}
	for key, variable := range map[string]string{"token": "K3S_TOKEN", "token-file": "K3S_TOKEN_FILE", "data-dir": "K3S_DATA_DIR", "server": "K3S_URL"} {
		if value := getenv(variable); value != "" {
			values[key] = []string{value}
		}
	}
	further, err := filepath.Glob(path + ".d/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("find the files of %s.d: %w", path, err)
	}
	for _, file := range append([]string{path}, further...) {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the configuration: %w", err)
		}
		if err := merge(values, content); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
	}
	maps.Copy(values, flags)
	return values, nil
}

// merge adds a configuration file's values to those of earlier files.
func merge(values map[string][]string, content []byte) error {
	var file map[string]any
	if err := yaml.Unmarshal(content, &file); err != nil {
		return err
	}
	for key, value := range file {
		items, ok := value.([]any)
		if !ok {
			items = []any{value}
		}
		var texts []string
		for _, item := range items {
			switch item.(type) {
			case string, bool, float64, int64:
				texts = append(texts, fmt.Sprint(item))
			default:
				return fmt.Errorf("%s: %v is neither a value nor a list of values", key, item)
			}
		}
		name, adds := strings.CutSuffix(key, "+")
		if adds {
			texts = append(slices.Clone(values[name]), texts...)
		}
		values[name] = texts
	}
	return nil
}

// parseFlags reads --key value, --key=value and, for switches, --key.
func parseFlags(args []string) (map[string][]string, error) {
	flags := map[string][]string{}
	for len(args) > 0 {
		name, ok := strings.CutPrefix(args[0], "--")
		if !ok {
			return nil, fmt.Errorf("%q is not a flag of the form --key", args[0])
		}
		args = args[1:]
		name, value, given := strings.Cut(name, "=")
		switch {
		case given:
		case len(args) > 0 && !strings.HasPrefix(args[0], "--"):
			value, args = args[0], args[1:]
		default:
			value = "true"
		}
		flags[name] = append(flags[name], value)
	}
	return flags, nil
}

func build(values map[string][]string) (Config, error) {
	c := Config{
		DataDir:        "/var/lib/rancher/k3s",
		Bind:           netip.IPv4Unspecified(),
		Port:           6443,
		ClusterCIDR:    netip.MustParsePrefix("10.42.0.0/16"),
		ServiceCIDR:    netip.MustParsePrefix("10.43.0.0/16"),
		ClusterDomain:  "cluster.local",
		NodePorts:      "30000-32767",
		FlannelBackend: "vxlan",
		Kubeconfig:     KubeconfigPath,
		KubeconfigMode: 0o600,
		PauseImage:     PauseImage,
		Snapshotter:    "overlayfs",
		CoreDNS:        true,
		Args:           map[string][]string{},
	}
	known := settings()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		set, ok := known[key]
		switch {
		case !ok:
			return Config{}, fmt.Errorf("%q is not a setting of this stand-in for k3s", key)
		case set == nil:
			c.Unused = append(c.Unused, key)
		default:
			if err := set(&c, values[key]); err != nil {
				return Config{}, fmt.Errorf("setting %q: %w", key, err)
			}
		}
	}
	return c, c.complete()
}

// complete fills in what follows from the machine and from other settings.
func (c *Config) complete() error {
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find a name for the node: %w", err)
		}
		c.NodeName = name
	}
	c.NodeName = strings.ToLower(c.NodeName)
	if !c.NodeIP.IsValid() {
		ip, err := defaultAddress()
		if err != nil {
			return fmt.Errorf("find the node's address, set node-ip: %w", err)
		}
		c.NodeIP = ip
	}
	if !c.Advertise.IsValid() {
		c.Advertise = c.NodeIP
	}
	if !c.ClusterDNS.IsValid() {
		c.ClusterDNS = nth(c.ServiceCIDR, 10)
	}
	if !c.ServiceCIDR.Contains(c.ClusterDNS) {
		return fmt.Errorf("setting \"cluster-dns\": %s is outside service-cidr %s", c.ClusterDNS, c.ServiceCIDR)
	}
	if c.ClusterCIDR.Overlaps(c.ServiceCIDR) {
		return fmt.Errorf("cluster-cidr %s and service-cidr %s overlap", c.ClusterCIDR, c.ServiceCIDR)
	}
	return nil
}

// defaultAddress is the address that packets to the outside leave from. The
// socket sends none.
func defaultAddress() (netip.Addr, error) {
	conn, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), nil
}

// nth returns the nth address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	addr := p.Masked().Addr()
	for range n {
		addr = addr.Next()
	}
	return addr
}

func one(values []string) (string, error) {
	if len(values) != 1 {
		return "", fmt.Errorf("want one value, got %d", len(values))
	}
	return values[0], nil
}

func text(field func(*Config) *string) setting {
	return func(c *Config, values []string) (err error) {
		*field(c), err = one(values)
		return err
	}
}

func list(field func(*Config) *[]string) setting {
	return func(c *Config, values []string) error {
		for _, value := range values {
			*field(c) = append(*field(c), strings.Split(value, ",")...)
		}
		return nil
	}
}

func address(field func(*Config) *netip.Addr) setting {
	return func(c *Config, values []string) error {
		value, err := one(values)
		if err != nil {
			return err
		}
		ip, err := netip.ParseAddr(value)
		if err == nil && !ip.Is4() {
			err = fmt.Errorf("%s is not an IPv4 address; the stand-in has IPv4 alone", ip)
		}
		*field(c) = ip
		return err
	}
}

func prefix(field func(*Config) *netip.Prefix) setting {
	return func(c *Config, values []string) error {
		value, err := one(values)
		if err != nil {
			return err
		}
		p, err := netip.ParsePrefix(value)
		if err == nil && !p.Addr().Is4() {
			err = fmt.Errorf("%s is not an IPv4 network; the stand-in has IPv4 alone", p)
		}
		*field(c) = p.Masked()
		return err
	}
}

func arguments(component string) setting {
	return func(c *Config, values []string) error {
		c.Args[component] = values
		return nil
	}
}

func tokenFile(c *Config, values []string) error {
	path, err := one(values)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c.Token = strings.TrimSpace(string(content))
	return nil
}

func port(c *Config, values []string) error {
	value, err := one(values)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(value, 10, 16)
	c.Port = int(n)
	return err
}

func kubeconfigMode(c *Config, values []string) error {
	value, err := one(values)
	if err != nil {
		return err
	}
	mode, err := strconv.ParseUint(value, 8, 9)
	c.KubeconfigMode = fs.FileMode(mode)
	return err
}

func flannelBackend(c *Config, values []string) error {
	value, err := one(values)
	if err != nil {
		return err
	}
	if value != "vxlan" && value != "host-gw" {
		return fmt.Errorf("the stand-in knows vxlan and host-gw, not %q", value)
	}
	c.FlannelBackend = value
	return nil
}

// disable takes k3s's list of add-ons, of which the stand-in has CoreDNS.
func disable(c *Config, values []string) error {
	addons := []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server", "runtimes", "gateway-api-crd"}
	for _, value := range values {
		for _, name := range strings.Split(value, ",") {
			if !slices.Contains(addons, name) {
				return fmt.Errorf("%q is not an add-on of k3s, which are %s", name, strings.Join(addons, ", "))
			}
			c.CoreDNS = c.CoreDNS && name != "coredns"
		}
	}
	return nil
}
