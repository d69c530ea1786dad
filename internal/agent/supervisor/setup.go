package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
)

// makeHost makes this process the only one of a machine of its own.
func makeHost(setup layout.Setup) error {
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	if err := enterCgroup(hierarchies, setup.Cgroup); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Relative paths keep characters of the folder's name out of mount options.
	if err := os.Chdir(setup.DataDir.Host(setup.Name)); err != nil {
		return err
	}
	if err := mountRoot(setup, hierarchies); err != nil {
		return err
	}
	if err := writeIdentity(setup); err != nil {
		return err
	}
	if err := os.Chdir(rootDir); err != nil {
		return err
	}
	// The old root comes to lie over the new one, and is taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Containers see later mounts of the host, as kubelet expects.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	if err := unix.Sethostname([]byte(setup.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return raiseLoopback()
}

// enterCgroup makes the host's group the root of what the host sees, and moves
// this process into a leaf of it: in the unified hierarchy, inner groups hold
// no process.
func enterCgroup(hierarchies cgroup.Hierarchies, path string) error {
	if err := hierarchies.Enter(path); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	return hierarchies.EnterLeaf(path, "init")
}

// writeIdentity makes the copy of the machine's files one of a fresh machine
// of its own name.
func writeIdentity(setup layout.Setup) error {
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, path := range foreign {
		if err := root.RemoveAll(path); err != nil {
			return fmt.Errorf("hide the machine's /%s: %w", path, err)
		}
	}
	for path, content := range map[string]string{
		"etc/hostname":    setup.Name + "\n",
		"etc/hosts":       layout.HostsFile(setup.Name, setup.Addresses),
		"etc/resolv.conf": resolvers("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"),
	} {
		// It may be a link to a place that does not exist here.
		if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return root.MkdirAll(strings.TrimPrefix(layout.Logs, "/"), 0o755)
}

// foreign are the folders by which services of the machine would show up on a
// host.
var foreign = []string{
	"etc/rancher", "etc/kubernetes", "etc/cni", "etc/containerd", "etc/nebula", "etc/testbed",
	"root/.kube", "var/log/containers", "var/log/pods", "var/log/testbed",
}

// resolvers returns a resolv.conf with the name servers of the first file that
// has one outside this machine: loopback is the host's own.
func resolvers(files ...string) string {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var kept strings.Builder
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) != 2 || fields[0] != "nameserver" {
				continue
			}
			if address, err := netip.ParseAddr(fields[1]); err == nil && !address.IsLoopback() {
				kept.WriteString("nameserver " + fields[1] + "\n")
			}
		}
		if kept.Len() > 0 {
			return kept.String()
		}
	}
	return "# The machine has no name server outside itself.\n"
}

// raiseLoopback sets the loopback device up.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	return nil
}

// within returns a path of the host before its root is entered.
func within(path string) string { return filepath.Join(rootDir, path) }
