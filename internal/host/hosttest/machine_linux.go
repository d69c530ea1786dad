package hosttest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
)

// Machine is what a testbed could leave on this machine, as sorted lines by
// kind. Of processes, mounts, control groups and files it has only those that
// belong to one testbed, so others on the machine do not disturb.
type Machine struct {
	dir   datadir.Dir
	lines map[string][]string
}

// Snapshot looks at the machine before a test.
func Snapshot(t testing.TB, dataDir string) Machine {
	t.Helper()
	m := Machine{dir: datadir.Dir(dataDir)}
	m.lines = m.look(t)
	return m
}

// CompareAfter fails the test when the machine is not what it was at the
// snapshot. The kernel may take a moment for the last things to vanish.
func (m Machine) CompareAfter(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after := m.look(t)
		after["cgroup to all"] = slices.DeleteFunc(after["cgroup to all"], func(line string) bool {
			return slices.Contains(delegated, filepath.Base(line)) && !slices.Contains(m.lines["cgroup to all"], line)
		})
		diff := cmp.Diff(m.lines, after)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the testbed in %s changed the machine (-before +after):\n%s", m.dir, diff)
			return
		}
	}
}

// delegated are the controllers that the root of the unified hierarchy hands to
// its children once there was a host. They stay on, as any group may use them
// by then. Systemd turns those off that nobody uses.
var delegated = []string{"cpu", "cpuset", "memory", "pids", "io"}

// settings of the kernel that Kubernetes nodes like to change.
var settings = []string{
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "vm/overcommit_memory", "vm/panic_on_oom",
	"net/ipv4/ip_forward", "net/ipv4/conf/all/forwarding", "net/bridge/bridge-nf-call-iptables",
	"net/netfilter/nf_conntrack_max", "net/ipv4/conf/all/rp_filter",
}

func (m Machine) look(t testing.TB) map[string][]string {
	t.Helper()
	lines := map[string][]string{
		"processes":     m.processes(),
		"mounts":        m.mounts(t),
		"cgroups":       m.groups(t),
		"files":         m.files(),
		"devices":       names("/sys/class/net"),
		"named netns":   names("/run/netns"),
		"nftables":      m.rules(),
		"settings":      nil,
		"cgroup to all": nil,
	}
	for _, setting := range settings {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", setting)); err == nil {
			lines["settings"] = append(lines["settings"], setting+" = "+strings.TrimSpace(string(value)))
		}
	}
	for _, h := range hierarchies(t) {
		if value, err := os.ReadFile(filepath.Join(h.Mount, "cgroup.subtree_control")); err == nil {
			for _, controller := range strings.Fields(string(value)) {
				lines["cgroup to all"] = append(lines["cgroup to all"], filepath.Join(h.Mount, controller))
			}
		}
	}
	return lines
}

func hierarchies(t testing.TB) cgroup.Hierarchies {
	t.Helper()
	found, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// processes are those whose program or arguments name the testbed's folder, or
// that are in one of its control groups.
func (m Machine) processes() []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == fmt.Sprint(os.Getpid()) {
			continue
		}
		arguments, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		program, _ := os.Readlink(filepath.Join(dir, "exe"))
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if len(arguments) == 0 {
			continue // it has ended, and its parent, perhaps this test, has not asked how
		}
		text := strings.ReplaceAll(string(arguments), "\x00", " ")
		if strings.Contains(text, string(m.dir)+"/") && strings.Contains(program, "testbed-agent") ||
			strings.HasPrefix(program, m.dir.Agents()+"/") ||
			strings.Contains(string(groups), local.GroupPath(m.dir, "")+"/") {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return found
}

func (m Machine) mounts(t testing.TB) []string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, string(m.dir)) {
			found = append(found, line)
		}
	}
	return found
}

func (m Machine) groups(t testing.TB) []string {
	t.Helper()
	var found []string
	for _, h := range hierarchies(t) {
		root := filepath.Join(h.Mount, local.GroupPath(m.dir, ""))
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil // a group that goes meanwhile is seen in the next look
		})
	}
	return found
}

func (m Machine) files() []string {
	var found []string
	_ = filepath.WalkDir(string(m.dir), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != string(m.dir) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// rules are the machine's packet filters.
func (m Machine) rules() []string {
	output, err := exec.Command("nft", "list", "ruleset").Output()
	if err != nil {
		return nil // without the program there is nobody who sets rules either
	}
	return strings.Split(string(output), "\n")
}

func names(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}
