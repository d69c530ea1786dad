package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
)

// rootDir is where the host's root is put together, in the host's folder. The
// folder also has the writable layers and what becomes the host's /var/lib.
const rootDir = "root"

// fileSystems are the folders that a machine may have on file systems of their
// own and that hold its programs and settings.
var fileSystems = []string{"/", "/etc", "/home", "/opt", "/root", "/srv", "/usr", "/usr/local", "/var"}

func mountRoot(setup layout.Setup, hierarchies cgroup.Hierarchies) error {
	for i, dir := range fileSystems {
		if dir != "/" && !isMountPoint(dir) {
			continue
		}
		if err := mountCopy(dir, fmt.Sprintf("layer%d", i)); err != nil {
			return err
		}
	}
	for _, step := range []func() error{
		func() error { return mountData(setup) },
		mountProc,
		func() error { return mountSys(hierarchies) },
		mountDev,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func isMountPoint(dir string) bool {
	var this, parent unix.Stat_t
	return unix.Lstat(dir, &this) == nil && this.Mode&unix.S_IFMT == unix.S_IFDIR &&
		unix.Lstat(filepath.Dir(dir), &parent) == nil && this.Dev != parent.Dev
}

// mountCopy mounts a file system of the machine such that what is written goes
// to a layer in the host's folder.
func mountCopy(dir, layer string) error {
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	for _, folder := range []string{rootDir, upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dir, upper, work)
	if err := unix.Mount("overlay", within(dir), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount an overlay over %s (the kernel needs overlayfs, and data_dir must be on a file system that can be its upper layer, such as ext4, xfs, btrfs or tmpfs): %w", dir, err)
	}
	return nil
}

// mountData gives the host its own changing data, and hides the testbed's.
func mountData(setup layout.Setup) error {
	if err := os.MkdirAll("lib", 0o755); err != nil {
		return err
	}
	if err := bind("lib", "/var/lib", 0); err != nil {
		return err
	}
	for path, mode := range map[string]string{"/run": "755", "/tmp": "1777"} {
		if err := mount("tmpfs", path, unix.MS_NOSUID|unix.MS_NODEV, "mode="+mode); err != nil {
			return err
		}
	}
	// Some places are expected to be there.
	for path, mode := range map[string]fs.FileMode{"/run/lock": 0o1777, "/run/testbed": 0o700} {
		if err := os.MkdirAll(within(path), mode); err != nil {
			return err
		}
	}
	dir := string(setup.DataDir)
	if _, err := os.Stat(within(dir)); err == nil {
		if err := mount("tmpfs", dir, unix.MS_RDONLY, "mode=700"); err != nil {
			return err
		}
	}
	return bind(setup.DataDir.Agents(), layout.Agents, unix.MS_RDONLY)
}

// mountProc shows the host its own processes. The kernel's settings are the
// machine's, except those of the network namespace.
func mountProc() error {
	if err := mount("proc", "/proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := bind(within("/proc/sys"), "/proc/sys", unix.MS_RDONLY); err != nil {
		return err
	}
	if err := bind(within("/proc/sys/net"), "/proc/sys/net", 0); err != nil {
		return err
	}
	return mountSettings()
}

// settings are those that a kubelet sets and insists on, though they are the
// machine's: a host gets copies of its own.
var settings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func mountSettings() error {
	for _, setting := range settings {
		path := filepath.Join("/proc/sys", setting)
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel was built without it
		}
		if err != nil {
			return err
		}
		own := within(filepath.Join("/run/testbed/sysctl", setting))
		if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(own, value, 0o644); err != nil {
			return err
		}
		if err := bind(own, path, 0); err != nil {
			return err
		}
	}
	return nil
}

func mountSys(hierarchies cgroup.Hierarchies) error {
	if err := mount("sysfs", "/sys", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	const groups = "/sys/fs/cgroup"
	if !slices.ContainsFunc(hierarchies, func(h cgroup.Hierarchy) bool { return h.Mount == groups }) {
		if err := mount("tmpfs", groups, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
			return err
		}
	}
	if err := hierarchies.MountBelow(rootDir); err != nil {
		return err
	}
	// Optional in the kernel, and needed by few.
	_ = mount("bpf", "/sys/fs/bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700")
	return nil
}

// mountDev makes the devices that work the same in every host.
func mountDev() error {
	if err := mount("tmpfs", "/dev", unix.MS_NOSUID, "mode=755,size=64k"); err != nil {
		return err
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse", "net/tun"} {
		if err := makeDevice("/dev/" + device); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, within("/dev/"+name)); err != nil {
			return err
		}
	}
	if err := mount("devpts", "/dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	if err := mount("tmpfs", "/dev/shm", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	_ = mount("mqueue", "/dev/mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") // optional in the kernel
	return nil
}

// makeDevice makes a device that the machine has.
func makeDevice(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		if path == "/dev/net/tun" {
			return fmt.Errorf("find %s (load the kernel's module with: modprobe tun): %w", path, err)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(within(path)), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(within(path), stat.Mode, int(stat.Rdev)); err != nil {
		return fmt.Errorf("make device %s: %w", path, err)
	}
	return os.Chmod(within(path), fs.FileMode(stat.Mode&0o777))
}

// mount mounts a file system that the kernel makes up.
func mount(kind, path string, flags uintptr, options string) error {
	target := within(path)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(kind, target, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, path, err)
	}
	return nil
}

// bind makes a folder or a file of the machine appear in the host.
func bind(source, path string, flags uintptr) error {
	target := within(path)
	if info, err := os.Stat(source); err == nil && info.IsDir() && !strings.HasPrefix(path, "/proc/") {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", path, err)
	}
	// Without this it would be as restricted as its source.
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("restrict %s: %w", path, err)
	}
	return nil
}
