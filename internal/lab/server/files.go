package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"
)

// ContainerdSocket is where containerd listens, as in k3s.
const ContainerdSocket = "/run/k3s/containerd/containerd.sock"

// object is the content of a YAML or JSON document.
type object = map[string]any

// files are the paths of the configurations that the components read.
type files struct {
	// Of each node.
	containerd, kubelet, proxy string
	kubeletAuth, proxyAuth     string
	network                    string // of pods; flannel writes it

	// Of a server.
	controllerAuth, schedulerAuth, kine, join string
}

func filesOf(c Config) files {
	var (
		agent  = filepath.Join(c.DataDir, "agent")
		server = filepath.Join(c.DataDir, "server")
	)
	return files{
		containerd:     filepath.Join(agent, "etc/containerd/config.toml"),
		kubelet:        filepath.Join(agent, "etc/kubelet.yaml"),
		proxy:          filepath.Join(agent, "etc/kube-proxy.yaml"),
		kubeletAuth:    filepath.Join(agent, "kubelet.kubeconfig"),
		proxyAuth:      filepath.Join(agent, "kubeproxy.kubeconfig"),
		network:        filepath.Join(agent, "etc/cni/net.d/10-k3s.conflist"),
		controllerAuth: filepath.Join(server, "cred/controller.kubeconfig"),
		schedulerAuth:  filepath.Join(server, "cred/scheduler.kubeconfig"),
		kine:           filepath.Join(server, "kine.sock"),
		join:           filepath.Join(server, "join.json"),
	}
}

// encode writes a document as YAML.
func encode(path string, document any) error {
	content, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, content, 0o600)
}

// writeContainerd writes what containerd reads.
func writeContainerd(c Config, f files) error {
	bin, err := pluginFolder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.network), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", f.network, err)
	}
	return writeFile(f.containerd, []byte(containerdConfig(c, bin)), 0o600)
}

// writeNode writes what a node's components read.
func writeNode(c Config, p pki, f files, resolvConf string) error {
	auth := func(path string, identity pair) error {
		return encode(path, kubeconfig(c, object{"certificate-authority": p.serverCA.certFile()},
			object{"client-certificate": identity.certFile(), "client-key": identity.keyFile()}))
	}
	return errors.Join(
		encode(f.kubelet, kubeletConfig(c, p, resolvConf)),
		encode(f.proxy, proxyConfig(c, f.proxyAuth)),
		auth(f.kubeletAuth, p.node),
		auth(f.proxyAuth, p.proxy),
	)
}

// writeServer writes what a server's components read beyond that, and the
// administrator's kubeconfig.
func writeServer(c Config, p pki, f files) error {
	auth := func(path string, identity pair) error {
		return encode(path, kubeconfig(c, object{"certificate-authority": p.serverCA.certFile()},
			object{"client-certificate": identity.certFile(), "client-key": identity.keyFile()}))
	}
	admin, err := adminKubeconfig(c, p)
	if err == nil {
		err = writeFile(c.Kubeconfig, admin, c.KubeconfigMode)
	}
	return errors.Join(err, writeJoining(c, f.join), auth(f.controllerAuth, p.controller), auth(f.schedulerAuth, p.scheduler))
}

// adminKubeconfig holds its certificates itself, so that it can be carried off.
func adminKubeconfig(c Config, p pki) ([]byte, error) {
	data := map[string]string{}
	for _, path := range []string{p.serverCA.certFile(), p.admin.certFile(), p.admin.keyFile()} {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("write the kubeconfig: %w", err)
		}
		data[path] = base64.StdEncoding.EncodeToString(content)
	}
	return yaml.Marshal(kubeconfig(c,
		object{"certificate-authority-data": data[p.serverCA.certFile()]},
		object{"client-certificate-data": data[p.admin.certFile()], "client-key-data": data[p.admin.keyFile()]}))
}

// apiURL is where a node finds the API server.
func (c Config) apiURL() string {
	if c.Server != "" {
		return c.Server
	}
	return "https://127.0.0.1:" + strconv.Itoa(c.Port)
}

func kubeconfig(c Config, cluster, user object) object {
	cluster["server"] = c.apiURL()
	return object{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []object{{"name": "default", "cluster": cluster}},
		"users":    []object{{"name": "default", "user": user}},
		"contexts": []object{{"name": "default", "context": object{"cluster": "default", "user": "default"}}},
	}
}

// pluginFolder finds the CNI plugins.
func pluginFolder() (string, error) {
	for _, folder := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(folder, "bridge")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("find the CNI plugins, which Debian's package containernetworking-plugins has")
}

// containerdConfig is in version 2 of the format, which containerd reads from
// 1.6 on. restrict_oom_score_adj lets sandboxes start where the machine does
// not allow a score below the service's own.
func containerdConfig(c Config, plugins string) string {
	agent := filepath.Join(c.DataDir, "agent")
	return fmt.Sprintf(`version = 2
root = %q
state = "/run/k3s/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[debug]
  level = "warn"

[grpc]
  address = %q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %q
  conf_dir = %q

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = %q
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
`, filepath.Join(agent, "containerd"), ContainerdSocket, c.PauseImage,
		plugins, filepath.Join(agent, "etc/cni/net.d"), c.Snapshotter)
}

// podNetwork is the bridge that flannel would make on each node.
func podNetwork(subnet string, mtu int) object {
	return object{
		"cniVersion": "0.4.0",
		"name":       "cbr0",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "mtu": mtu,
				"isGateway": true, "hairpinMode": true,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": subnet}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

// kubeletConfig keeps pods in cgroups below the root that the node sees, which
// in a container is the container's own. Images are never collected: nothing
// could bring one back.
func kubeletConfig(c Config, p pki, resolvConf string) object {
	return object{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/",
		"containerRuntimeEndpoint": "unix://" + ContainerdSocket,
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": p.clientCA.certFile()},
		},
		"authorization":               object{"mode": "Webhook"},
		"clusterDNS":                  []string{c.ClusterDNS.String()},
		"clusterDomain":               c.ClusterDomain,
		"resolvConf":                  resolvConf,
		"tlsCertFile":                 p.kubelet.certFile(),
		"tlsPrivateKeyFile":           p.kubelet.keyFile(),
		"serializeImagePulls":         false,
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                object{"imagefs.available": "2%", "nodefs.available": "2%"},
	}
}

// proxyConfig leaves the connection tracking's limits alone: they are the
// machine's, not the node's. Node ports answer on all addresses, as they do
// with k3s, whose mode has that as its default.
func proxyConfig(c Config, kubeconfig string) object {
	return object{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   object{"kubeconfig": kubeconfig},
		"mode":               "nftables",
		"clusterCIDR":        c.ClusterCIDR.String(),
		"hostnameOverride":   c.NodeName,
		"nodePortAddresses":  []string{"0.0.0.0/0"},
		"metricsBindAddress": "127.0.0.1:10249",
		"conntrack":          object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}
