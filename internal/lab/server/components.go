package server

import (
	"path/filepath"
	"strconv"
	"strings"
)

// component is a program that a server consists of. Its argv begins with the
// component's name when it is linked into this program.
type component struct {
	name string
	argv []string
	env  []string
}

// kine keeps the cluster's objects in SQLite. Nothing is flushed to the disk:
// a lab cluster outlives its processes, not a power failure.
func kine(c Config, f files) component {
	db := filepath.Join(c.DataDir, "server/db/state.db")
	return component{name: "kine", argv: []string{"kine",
		"--endpoint=sqlite://" + db + "?_journal_mode=WAL&_synchronous=OFF&_busy_timeout=30000&_txlock=immediate",
		"--listen-address=unix://" + f.kine,
		"--metrics-bind-address=0",
		"--log-format=json",
	}}
}

func containerd(f files) component {
	return component{name: "containerd", argv: []string{"/usr/bin/containerd", "--config", f.containerd}}
}

func apiServer(c Config, p pki, f files) component {
	return linked(c, "kube-apiserver",
		"etcd-servers=unix://"+f.kine,
		"advertise-address="+c.Advertise.String(),
		"bind-address="+c.Bind.String(),
		"secure-port="+strconv.Itoa(c.Port),
		"tls-cert-file="+p.apiserver.certFile(),
		"tls-private-key-file="+p.apiserver.keyFile(),
		"join-file="+f.join,
		"client-ca-file="+p.clientCA.certFile(),
		"kubelet-certificate-authority="+p.serverCA.certFile(),
		"kubelet-client-certificate="+p.apiToKubelet.certFile(),
		"kubelet-client-key="+p.apiToKubelet.keyFile(),
		"kubelet-preferred-address-types=InternalIP",
		"proxy-client-cert-file="+p.authProxy.certFile(),
		"proxy-client-key-file="+p.authProxy.keyFile(),
		"requestheader-client-ca-file="+p.headerCA.certFile(),
		"requestheader-allowed-names="+p.authProxy.cert.Subject.CommonName,
		"requestheader-username-headers=X-Remote-User",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"service-account-issuer=https://kubernetes.default.svc."+c.ClusterDomain,
		"service-account-key-file="+p.serviceKey,
		"service-account-signing-key-file="+p.serviceKey,
		"service-cluster-ip-range="+c.ServiceCIDR.String(),
		"service-node-port-range="+c.NodePorts,
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"allow-privileged=true",
		"enable-priority-and-fairness=false",
		"profiling=false",
	)
}

func controllerManager(c Config, p pki, f files) component {
	return linked(c, "kube-controller-manager",
		"kubeconfig="+f.controllerAuth,
		"service-account-private-key-file="+p.serviceKey,
		"root-ca-file="+p.serverCA.certFile(),
		"cluster-signing-cert-file="+p.clientCA.certFile(),
		"cluster-signing-key-file="+p.clientCA.keyFile(),
		"use-service-account-credentials=false",
		"allocate-node-cidrs=true",
		"cluster-cidr="+c.ClusterCIDR.String(),
		"node-cidr-mask-size="+strconv.Itoa(nodeBits(c)),
		"leader-elect=false",
		"profiling=false",
	)
}

// nodeBits is the length of the prefix of each node's part of the pods'
// addresses, as in k3s.
func nodeBits(c Config) int { return max(24, c.ClusterCIDR.Bits()) }

func kubeScheduler(c Config, f files) component {
	return linked(c, "kube-scheduler", "kubeconfig="+f.schedulerAuth, "leader-elect=false", "profiling=false")
}

func kubelet(c Config, f files) component {
	flags := []string{
		"config=" + f.kubelet,
		"kubeconfig=" + f.kubeletAuth,
		"cert-dir=" + filepath.Join(c.DataDir, "agent/pki"),
		"hostname-override=" + c.NodeName,
		"node-ip=" + c.NodeIP.String(),
	}
	if len(c.NodeLabels) > 0 {
		flags = append(flags, "node-labels="+strings.Join(c.NodeLabels, ","))
	}
	if len(c.NodeTaints) > 0 {
		flags = append(flags, "register-with-taints="+strings.Join(c.NodeTaints, ","))
	}
	return linked(c, "kubelet", flags...)
}

func kubeProxy(c Config, f files) component {
	return linked(c, "kube-proxy", "config="+f.proxy)
}

// linked is a component of this program with its flags, the user's last so
// that they win.
func linked(c Config, name string, flags ...string) component {
	argv := []string{name}
	for _, flag := range append(flags, c.Args[name]...) {
		argv = append(argv, "--"+strings.TrimPrefix(flag, "--"))
	}
	return component{name: name, argv: argv}
}
