package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MountBelow mounts all hierarchies below root, at the places they have on the
// machine. What is seen there is the group that the caller was in when it got
// its cgroup namespace, and nothing above.
func (hs Hierarchies) MountBelow(root string) error {
	for _, h := range hs {
		target := filepath.Join(root, h.Mount)
		kind, data := "cgroup", strings.Join(h.Options, ",")
		if h.Unified {
			kind, data = "cgroup2", ""
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(kind, target, kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, data); err != nil {
			return fmt.Errorf("mount %s hierarchy %q: %w", kind, data, err)
		}
		if err := link(target, h.Options); err != nil {
			return err
		}
	}
	return nil
}

// link makes the usual names of the controllers of a joint hierarchy, such as
// cpu and cpuacct beside cpu,cpuacct.
func link(target string, controllers []string) error {
	if !strings.Contains(filepath.Base(target), ",") {
		return nil
	}
	for _, controller := range controllers {
		if err := os.Symlink(filepath.Base(target), filepath.Join(filepath.Dir(target), controller)); err != nil {
			return err
		}
	}
	return nil
}
