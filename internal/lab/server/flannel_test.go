package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideNetwork names the variable that tells the test that it runs in a
// network of its own.
const insideNetwork = "LAB_FLANNEL_INSIDE"

// TestFlannel makes and removes the ways between nodes in a network of its own.
func TestFlannel(t *testing.T) {
	if os.Getenv(insideNetwork) != "" {
		testFlannel(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	again := exec.Command("/proc/self/exe", "-test.run=^TestFlannel$", "-test.v")
	again.Env = append(os.Environ(), insideNetwork+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if output, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

func testFlannel(t *testing.T) {
	ip := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	ip("ip", "link", "add", "uplink", "mtu", "1300", "type", "veth", "peer", "name", "far")
	ip("ip", "link", "set", "far", "up")
	ip("ip", "address", "add", "198.18.1.10/24", "dev", "uplink")
	ip("ip", "link", "set", "uplink", "up")
	c, err := build(map[string][]string{"node-name": {"edge"}, "node-ip": {"198.18.1.10"}, "data-dir": {t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := preparePKI(c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFlannel(c, p, filesOf(c))
	if err != nil {
		t.Fatal(err)
	}
	node := func(name, cidr, address string) flannelNode {
		var n flannelNode
		n.Metadata.Name, n.Spec.PodCIDR = name, cidr
		n.Status.Addresses = []struct{ Type, Address string }{{"Hostname", name}, {"InternalIP", address}}
		return n
	}
	all := map[string]flannelNode{"edge": node("edge", "10.42.0.0/24", "198.18.1.10"), "new": {}}
	apply := func() {
		t.Helper()
		if err := f.apply(all); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	network, err := os.ReadFile(filepath.Join(c.DataDir, "agent/etc/cni/net.d/10-k3s.conflist"))
	if err != nil || !strings.Contains(string(network), `"10.42.0.0/24"`) || !strings.Contains(string(network), `"mtu": 1250`) {
		t.Errorf("network %s, %v", network, err)
	}
	if links := ip("ip", "-brief", "link"); strings.Contains(links, vxlanDevice) {
		t.Errorf("one node has a tunnel: %s", links)
	}
	has := func(wanted bool, want string, args ...string) {
		t.Helper()
		if got := ip(args...); strings.Contains(got, want) != wanted {
			t.Errorf("%v: %q is there: %t, want %t, in:\n%s", args, want, !wanted, wanted, got)
		}
	}
	all["b"] = node("b", "10.42.1.0/24", "198.18.1.11")
	apply()
	has(true, "mtu 1250", "ip", "link", "show", vxlanDevice)
	has(true, "vxlan id 1 local 198.18.1.10 dev uplink", "ip", "-details", "link", "show", vxlanDevice)
	has(true, "10.42.0.0/32", "ip", "address", "show", vxlanDevice)
	has(true, "10.42.1.0/24 via 10.42.1.0 dev flannel.1 onlink", "ip", "route")
	has(true, "10.42.1.0 dev flannel.1 lladdr 02:6b:c6:12:01:0b PERMANENT", "ip", "neighbour")
	has(true, "02:6b:c6:12:01:0b dst 198.18.1.11 self permanent", "bridge", "fdb", "show", "dev", vxlanDevice)
	all["b"] = node("b", "10.42.2.0/24", "198.18.1.11")
	apply()
	has(false, "10.42.1.0/24", "ip", "route")
	has(true, "10.42.2.0/24 via 10.42.2.0", "ip", "route")
	delete(all, "b")
	apply()
	has(false, "10.42.2.0/24", "ip", "route")

	f.config.FlannelBackend = "host-gw"
	all["b"] = node("b", "10.42.1.0/24", "198.18.1.11")
	apply()
	has(true, "10.42.1.0/24 via 198.18.1.11 dev uplink", "ip", "route")
}
