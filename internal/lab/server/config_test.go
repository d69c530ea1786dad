package server

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// load writes files below a folder and loads the configuration from there.
func load(t *testing.T, files map[string]string, args ...string) (Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string {
		return map[string]string{"K3S_CONFIG_FILE": filepath.Join(dir, "config.yaml"), "K3S_TOKEN": "from the environment"}[name]
	}
	if len(args) > 0 && args[0] == "agent" {
		return LoadAgent(args[1:], getenv)
	}
	return Load(args, getenv)
}

func TestLoad(t *testing.T) {
	got, err := load(t, map[string]string{
		"config.yaml": `
node-name: Edge
node-ip: 198.18.1.10
flannel-iface: nebula1
cluster-cidr: 10.44.0.0/16
service-cidr: 10.45.0.0/16
tls-san: [198.18.1.10, edge.example]
kubelet-arg: [max-pods=50]
disable: [traefik, servicelb]
disable-network-policy: true
write-kubeconfig-mode: "0640"
`,
		"config.yaml.d/10-more.yaml":  "kubelet-arg+: [v=2]\ntoken: from a file\nhttps-listen-port: 7443\n",
		"config.yaml.d/20-again.yaml": "node-label: [a=b]\ntls-san+: other.example\n",
		"config.yaml.d/ignored.txt":   "no: yaml",
	}, "--node-label=c=d", "--data-dir", "/data", "--debug")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		DataDir:        "/data",
		Token:          "from a file",
		NodeName:       "edge",
		NodeIP:         netip.MustParseAddr("198.18.1.10"),
		NodeLabels:     []string{"c=d"},
		Advertise:      netip.MustParseAddr("198.18.1.10"),
		Bind:           netip.MustParseAddr("0.0.0.0"),
		Port:           7443,
		TLSSANs:        []string{"198.18.1.10", "edge.example", "other.example"},
		ClusterCIDR:    netip.MustParsePrefix("10.44.0.0/16"),
		ServiceCIDR:    netip.MustParsePrefix("10.45.0.0/16"),
		ClusterDNS:     netip.MustParseAddr("10.45.0.10"),
		ClusterDomain:  "cluster.local",
		NodePorts:      "30000-32767",
		FlannelIface:   "nebula1",
		FlannelBackend: "vxlan",
		Kubeconfig:     KubeconfigPath,
		KubeconfigMode: 0o640,
		PauseImage:     PauseImage,
		Snapshotter:    "overlayfs",
		CoreDNS:        true,
		Args:           map[string][]string{"kubelet": {"max-pods=50", "v=2"}},
		Unused:         []string{"debug", "disable-network-policy"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, test := range []struct{ name, config, want string }{
		{"unknown key", "flanel-iface: eth0", `"flanel-iface" is not a setting`},
		{"another backend", "flannel-backend: wireguard-native", `"flannel-backend": the stand-in knows vxlan and host-gw`},
		{"joining", "server: https://198.18.1.1:6443", `the stand-in has one server`},
		{"bad address", "node-ip: 198.18.1", `"node-ip"`},
		{"IPv6", "cluster-cidr: fd00::/48", "IPv4 alone"},
		{"two values", "node-ip: [198.18.1.1, 198.18.1.2]", "want one value, got 2"},
		{"nested value", "node-label: [{a: b}]", "neither a value nor a list"},
		{"unknown add-on", "disable: [coredn]", `"coredn" is not an add-on`},
		{"DNS outside services", "cluster-dns: 10.99.0.10", "outside service-cidr"},
		{"overlap", "cluster-cidr: 10.43.128.0/17", "overlap"},
		{"port", "https-listen-port: 65536", `"https-listen-port"`},
		{"mode", `write-kubeconfig-mode: "0999"`, `"write-kubeconfig-mode"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := test.config
			if !strings.Contains(config, "node-ip") {
				config += "\nnode-ip: 198.18.1.1\n"
			}
			_, err := load(t, map[string]string{"config.yaml": config})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
	if _, err := load(t, nil, "node-ip"); err == nil || !strings.Contains(err.Error(), "not a flag") {
		t.Errorf("a flag without dashes: got error %v", err)
	}
}

func TestLoadAgent(t *testing.T) {
	got, err := load(t, map[string]string{"config.yaml": "server: https://198.18.1.1:6443/\nnode-name: b\nnode-ip: 198.18.1.2\nkubelet-arg: [v=2]\n"}, "agent")
	if err != nil || got.Server != "https://198.18.1.1:6443" || got.Token != "from the environment" || got.NodeName != "b" {
		t.Errorf("configuration %+v, %v", got, err)
	}
	for config, want := range map[string]string{
		"server: https://198.18.1.1:6443\ncluster-cidr: 10.44.0.0/16\n": `"cluster-cidr" is a setting of servers`,
		"node-name: b\n": "an agent needs the settings server",
	} {
		if _, err := load(t, map[string]string{"config.yaml": config + "node-ip: 198.18.1.2\n"}, "agent"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}
