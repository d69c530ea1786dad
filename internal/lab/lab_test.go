package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

const nodeAddress = "198.18.77.1"

// TestServer runs a pod on a server in a machine of its own, reaches it by
// every way there is, and finds it alive after the server was restarted.
func TestServer(t *testing.T) {
	n := startNode(t)
	n.write(t, "/etc/rancher/k3s/config.yaml", fmt.Sprintf(`node-name: lab
node-ip: %s
flannel-iface: uplink
cluster-cidr: 10.44.0.0/16
service-cidr: 10.45.0.0/16
disable: [traefik, servicelb, metrics-server, local-storage]
`, nodeAddress))
	n.copy(t, filepath.Join(n.lab, "k3s-airgap-images-"+runtime.GOARCH+".tar"), "/var/lib/rancher/k3s/agent/images/k3s.tar")

	began := time.Now()
	server := n.startServer(t)
	n.eventually(t, "pong", "/lab/web", "get", "https://"+nodeAddress+":6443/ping")
	t.Logf("/ping answers after %s", since(began))
	n.eventually(t, "lab", "/lab/k3s", "kubectl", "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
	n.run(t, "/lab/k3s", "kubectl", "wait", "--for=condition=Ready", "node/lab", "--timeout=60s")
	t.Logf("the node is ready after %s", since(began))
	n.run(t, "/lab/k3s", "kubectl", "wait", "-n", "kube-system", "--for=condition=Available", "deployment/coredns", "--timeout=60s")
	t.Logf("CoreDNS is available after %s", since(began))

	// An image that appears while the server runs.
	tarball := filepath.Join(t.TempDir(), "web.tar")
	if err := writeImages(tarball, []image{{name: "localhost/web:test", path: "web", program: filepath.Join(n.files, "web")}}, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	n.copy(t, tarball, "/var/lib/rancher/k3s/agent/images/web.tar")
	n.eventually(t, "localhost/web:test", "/lab/k3s", "ctr", "images", "list", "-q", "name==localhost/web:test")
	n.copy(t, "testdata/web.yaml", "/run/web.yaml")
	n.run(t, "/lab/k3s", "kubectl", "apply", "-f", "/run/web.yaml")
	n.run(t, "/lab/k3s", "kubectl", "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")

	const answer = "web mtu 1250" // the interface's 1300 without VXLAN's 50
	clusterIP := n.run(t, "/lab/k3s", "kubectl", "get", "service", "front", "-o", "jsonpath={.spec.clusterIP}")
	n.eventually(t, answer, "/lab/web", "get", "http://"+clusterIP)
	n.eventually(t, answer, "/lab/web", "get", "http://"+nodeAddress+":30080")
	n.eventually(t, answer, "/lab/k3s", "kubectl", "exec", "web", "--", "/web", "get", "http://front.default.svc.cluster.local")
	n.report(t)

	const container = "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}"
	before := n.run(t, "/lab/k3s", "kubectl", "get", "pod", "web", "-o", container)
	began = time.Now()
	server.stop(t)
	t.Logf("the server stopped in %s", since(began))
	n.eventually(t, answer, "/lab/web", "get", "http://"+nodeAddress+":30080")
	began = time.Now()
	n.startServer(t)
	n.eventually(t, before, "/lab/k3s", "kubectl", "get", "pod", "web", "-o", container)
	n.run(t, "/lab/k3s", "kubectl", "wait", "--for=condition=Ready", "node/lab", "pod/web", "--timeout=60s")
	t.Logf("the server is back after %s", since(began))
	n.eventually(t, answer, "/lab/k3s", "kubectl", "exec", "web", "--", "/web", "get", "http://front")
	if after := n.run(t, "/lab/k3s", "kubectl", "get", "pod", "web", "-o", container); after != before {
		t.Errorf("the pod's identity, container and restarts changed from %s to %s", before, after)
	}
}
