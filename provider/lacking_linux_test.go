package provider

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"golang.org/x/sys/unix"
)

// lacks is what a machine may lack, with what makes it lack it in a mount
// namespace, and what networks and hosts say then.
var lacks = map[string]struct {
	take          func() error
	network, host string
}{
	"root": {
		take:    func() error { return nil }, // its user is taken
		network: `networks need root; run as root, for example with sudo`,
		host:    `local hosts need root; run as root, for example with sudo`,
	},
	"tun": {
		take:    func() error { return unix.Mount("tmpfs", "/dev/net", "tmpfs", 0, "") },
		network: `networks need /dev/net/tun; load the kernel's module with: modprobe tun`,
		host:    `local hosts need /dev/net/tun; load the kernel's module with: modprobe tun`,
	},
	"cgroups": {
		take: func() error { return unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH) },
		host: `no cgroup hierarchy is mounted; mount one, for example with: mount -t cgroup2 cgroup2 /sys/fs/cgroup`,
	},
}

// TestAccLacking runs a process of its own on a machine that lacks something.
func TestAccLacking(t *testing.T) {
	preCheck(t)
	for lack := range lacks {
		t.Run(lack, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "testbed-lacking-") //nolint:usetesting // t.TempDir is for its owner only
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			command := exec.Command("/proc/self/exe", "-test.run=^TestHelperLacking$")
			command.Dir = dir
			command.Env = append(os.Environ(), "TESTBED_HELPER_LACKS="+lack, "TMPDIR="+dir, "HOME="+dir)
			command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
			if lack == "root" {
				command.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
			}
			if out, err := command.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestHelperLacking is the process that TestAccLacking starts.
func TestHelperLacking(t *testing.T) {
	lack, ok := lacks[os.Getenv("TESTBED_HELPER_LACKS")]
	if !ok {
		t.Skip("for TestAccLacking only")
	}
	if os.Geteuid() == 0 { // in a mount namespace, which a user cannot change
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := lack.take(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() + "/data"
	step := func(kind, attributes, want string) {
		if want == "" {
			return
		}
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: factories(),
			Steps: []resource.TestStep{{
				Config:      providerConfig(dir) + "resource \"testbed_" + kind + "\" \"this\" {\n  name = \"wan\"\n" + attributes + "}\n",
				ExpectError: wrapped(want),
			}},
		})
		if err := gone(dir); err != nil {
			t.Error(err)
		}
	}
	step("network", "  cidr = \"198.18.26.0/24\"\n", lack.network)
	step("local_host", "", lack.host)
}
