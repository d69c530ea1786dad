// Package cgroup gives a local host control groups of its own, in each
// hierarchy that this machine has mounted: the old ones (v1), the unified one
// (v2), or both.
//
// A path names one group in all hierarchies, relative to their roots, for
// example "testbed/6c1f09aa/edge".
package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Needed are the controllers that a Kubernetes node needs.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// wanted are delegated as well where the unified hierarchy has them. Those that
// systemd does not know are not among them: it would not turn them off again.
var wanted = []string{"io"}

// Hierarchy is one mounted hierarchy.
type Hierarchy struct {
	Mount   string // where this machine has mounted it
	Unified bool   // v2

	// Options are the controllers of a v1 hierarchy, or "name=..." of one
	// without controllers, as mount takes them.
	Options []string
}

// Hierarchies are all those of a machine.
type Hierarchies []Hierarchy

// Mounted returns the hierarchies of this machine.
func Mounted() (Hierarchies, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	return parse(mountinfo), nil
}

// parse reads the hierarchies from mountinfo(5). A hierarchy that is mounted
// several times counts once, at its first place.
func parse(mountinfo []byte) Hierarchies {
	var found Hierarchies
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		// 30 23 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
		mount, system, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(mount), strings.Fields(system)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		device, root, at, kind := left[2], left[3], left[4], right[0]
		if root != "/" || seen[device] || kind != "cgroup" && kind != "cgroup2" {
			continue
		}
		seen[device] = true
		hierarchy := Hierarchy{Mount: at, Unified: kind == "cgroup2"}
		if !hierarchy.Unified {
			hierarchy.Options = slices.DeleteFunc(strings.Split(right[2], ","), func(option string) bool {
				return slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode", "favordynmods"}, option) ||
					strings.HasPrefix(option, "release_agent=")
			})
		}
		found = append(found, hierarchy)
	}
	return found
}

// Version returns 2 when the unified hierarchy carries the memory controller
// and 1 when an old one does.
func (hs Hierarchies) Version() int {
	for _, h := range hs {
		if slices.Contains(h.Options, "memory") {
			return 1
		}
	}
	return 2
}

// Check says what a machine lacks for running hosts.
func (hs Hierarchies) Check() error {
	if len(hs) == 0 {
		return errors.New("no cgroup hierarchy is mounted; mount one, for example with: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
	}
	for _, controller := range needed {
		if hs.has(controller) {
			continue
		}
		fix := "start the kernel with cgroup_enable=" + controller
		if controller == "memory" {
			fix += " cgroup_memory=1 (on a Raspberry Pi in /boot/firmware/cmdline.txt)"
		}
		return fmt.Errorf("the kernel offers no %q cgroup controller; %s, or mount its hierarchy", controller, fix)
	}
	return nil
}

func (hs Hierarchies) has(controller string) bool {
	for _, h := range hs {
		if slices.Contains(h.Options, controller) || h.Unified && slices.Contains(h.available(""), controller) {
			return true
		}
	}
	return false
}

// available returns the controllers that a group of the unified hierarchy can
// hand to its children.
func (h Hierarchy) available(path string) []string {
	content, _ := os.ReadFile(filepath.Join(h.Mount, path, "cgroup.controllers"))
	return strings.Fields(string(content))
}

// Create makes the group with all its parents. Everything that is there
// already stays.
func (hs Hierarchies) Create(path string) error {
	for _, h := range hs {
		err := h.create(path)
		for range 10 {
			if !overtaken(err) {
				break
			}
			err = h.create(path)
		}
		if err != nil {
			return fmt.Errorf("create cgroup %s: %w", filepath.Join(h.Mount, path), err)
		}
	}
	return nil
}

// overtaken reports whether an attempt failed because another testbed removed
// the parent while it was empty, or systemd took back a controller that no
// group used yet.
func overtaken(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func (h Hierarchy) create(path string) error {
	parent := ""
	for _, name := range strings.Split(path, "/") {
		if h.Unified {
			if err := h.Delegate(parent); err != nil {
				return err
			}
		}
		group := filepath.Join(parent, name)
		if err := os.Mkdir(filepath.Join(h.Mount, group), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if slices.Contains(h.Options, "cpuset") {
			if err := h.inheritCPUs(parent, group); err != nil {
				return err
			}
		}
		parent = group
	}
	return nil
}

// Delegate hands the controllers that hosts need from a group of the unified
// hierarchy to its children. A group that does so holds no process itself,
// unless it is the root.
func (h Hierarchy) Delegate(path string) error {
	offered := h.available("")
	if !slices.Contains(offered, "memory") {
		return nil // the controllers that hosts need are in v1 hierarchies
	}
	control := filepath.Join(h.Mount, path, "cgroup.subtree_control")
	enabled, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	// All in one write, since each takes the kernel long. One that the root
	// offers and this group lacks is an fs.ErrNotExist.
	var missing []string
	for _, controller := range slices.Concat(needed, wanted) {
		if slices.Contains(offered, controller) && !slices.Contains(strings.Fields(string(enabled)), controller) {
			missing = append(missing, "+"+controller)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	// Not os.WriteFile, which would want to create the file of a group that
	// somebody has just removed, and be forbidden to.
	file, err := os.OpenFile(control, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(strings.Join(missing, " "))
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("hand controllers to the children of %s, which holds processes itself; run on the machine rather than in a container: %w",
			filepath.Join(h.Mount, path), err)
	}
	return err
}

// inheritCPUs lets a group use what its parent may use. A new v1 cpuset has no
// CPU and no memory node, and takes no process before it has.
func (h Hierarchy) inheritCPUs(parent, group string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(h.Mount, group, file))
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(own)) > 0 {
			continue
		}
		inherited, err := os.ReadFile(filepath.Join(h.Mount, parent, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(h.Mount, group, file), inherited, 0); err != nil {
			return err
		}
	}
	return nil
}

// Enter moves the calling process into the group.
func (hs Hierarchies) Enter(path string) error {
	for _, h := range hs {
		if err := os.WriteFile(filepath.Join(h.Mount, path, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", filepath.Join(h.Mount, path), err)
		}
	}
	return nil
}

// EnterLeaf makes a group without children of its own below one whose only
// process is the caller, moves the caller there, and so frees the group to hand
// its controllers on.
func (hs Hierarchies) EnterLeaf(path, name string) error {
	leaf := filepath.Join(path, name)
	for _, h := range hs {
		err := os.Mkdir(filepath.Join(h.Mount, leaf), 0o755)
		if err == nil && slices.Contains(h.Options, "cpuset") {
			err = h.inheritCPUs(path, leaf)
		}
		if err != nil {
			return fmt.Errorf("create cgroup %s: %w", filepath.Join(h.Mount, leaf), err)
		}
	}
	if err := hs.Enter(leaf); err != nil {
		return err
	}
	for _, h := range hs {
		if h.Unified {
			if err := h.Delegate(path); err != nil {
				return err
			}
		}
	}
	return nil
}
