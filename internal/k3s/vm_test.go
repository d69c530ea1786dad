package k3s_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"path"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Where the machine has what its cluster is made of.
const (
	vmBinary  = "/root/lab/k3s"
	vmArchive = "/root/lab/images.tar"
	vmMarker  = "TESTBED_VM_CLUSTER=here"
)

// TestVMLocalCluster has a cluster on a local host of a machine with the
// unified hierarchy of control groups.
func TestVMLocalCluster(t *testing.T) {
	binary, archive := os.Getenv("TESTBED_K3S_BINARY"), os.Getenv("TESTBED_K3S_AIRGAP_IMAGES")
	if binary == "" || archive == "" {
		t.Skip("TESTBED_K3S_BINARY and TESTBED_K3S_AIRGAP_IMAGES are not set; make testvm builds what they name and sets them")
	}
	m := vmtest.Lab(t, 1)[0]
	for from, to := range map[string]string{binary: vmBinary, archive: vmArchive} {
		if err := m.Upload(t.Context(), from, to, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Shell(t.Context(), "modprobe -a overlay br_netfilter nf_conntrack tun"); err != nil {
		t.Fatal(err)
	}
	m.RunTests(t, "^TestHelperLocalCluster$", vmMarker)
}

func vmFile(t *testing.T, name string) artifact.File {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return artifact.File{Path: name, Name: path.Base(name), SHA256: hex.EncodeToString(sum[:])}
}

// TestHelperLocalCluster is what TestVMLocalCluster runs on its machine.
func TestHelperLocalCluster(t *testing.T) {
	if os.Getenv("TESTBED_VM_CLUSTER") == "" {
		t.Skip("for TestVMLocalCluster only")
	}
	dir := t.TempDir()
	machine := hosttest.Snapshot(t, dir)
	program, err := agent.Install(datadir.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := underlay.Apply(ctx, datadir.Dir(dir), program, underlay.Spec{Name: "wan", CIDR: netip.MustParsePrefix("198.18.31.0/24"), MTU: 1500}); err != nil {
		t.Fatal(err)
	}
	opener := local.NewOpener(dir)
	address := netip.MustParseAddr("198.18.31.11")
	status, err := opener.Apply(ctx, local.Spec{Name: "edge", Networks: []local.Network{{Name: "wan", Address: address}}})
	if err != nil {
		t.Fatal(err)
	}
	if status.Cgroup != 2 {
		t.Errorf("the host has control groups of version %d", status.Cgroup)
	}
	h, err := opener.Open(ctx, local.URL("edge"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	spec := k3s.Spec{
		Name: "edge", NodeIP: address, Interface: "eth0",
		ClusterCIDR: netip.MustParsePrefix("10.144.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.145.0.0/16"),
		Binary: vmFile(t, vmBinary), AirgapImages: []artifact.File{vmFile(t, vmArchive)},
	}
	if err := k3s.Apply(ctx, h, spec, func(message string) { t.Logf("%s: %s", time.Since(start).Round(time.Second), message) }); err != nil {
		t.Fatal(err)
	}
	t.Logf("the cluster works after %s", time.Since(start).Round(time.Second))
	found, err := k3s.Observe(ctx, h)
	if err != nil || len(found.Nodes) != 1 || found.Nodes[0] != "edge" {
		t.Errorf("nodes %q, %v", found.Nodes, err)
	}
	if err := k3s.Remove(ctx, h, "edge"); err != nil {
		t.Error(err)
	}
	if err := opener.Remove(ctx, "edge"); err != nil {
		t.Error(err)
	}
	if err := underlay.Remove(ctx, datadir.Dir(dir), "wan"); err != nil {
		t.Error(err)
	}
	machine.CompareAfter(t)
}
