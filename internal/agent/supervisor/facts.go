package supervisor

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

func (s *server) getFacts(w http.ResponseWriter, _ *http.Request) error {
	facts, err := facts()
	if err != nil {
		return err
	}
	facts.Clock = s.now()
	return reply(w, facts)
}

func facts() (host.Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return host.Facts{}, err
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return host.Facts{}, err
	}
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return host.Facts{}, err
	}
	kernel := unix.ByteSliceToString(name.Release[:])
	modules := findModules("/lib/modules/" + kernel)
	release := osRelease("/etc/os-release")
	found := host.Facts{
		Hostname:     unix.ByteSliceToString(name.Nodename[:]),
		OS:           release["PRETTY_NAME"],
		Distribution: release["ID"],
		Family:       family(release),
		Arch:         runtime.GOARCH,
		Userland:     userland("/bin/sh"),
		Kernel:       kernel,
		CPUs:         runtime.NumCPU(),
		Memory:       int64(info.Totalram) * int64(info.Unit),
		Cgroup:       hierarchies.Version(),
		Controllers:  controllers("/proc/cgroups", "/sys/fs/cgroup/cgroup.controllers"),
		Init:         initSystem("/"),
		Tun:          hasTun("/dev/net/tun"),
		Netem:        modules.has("sch_netem"),
		IFB:          modules.has("ifb"),
		Programs:     programs(),
		Ports:        ports("/proc/net"),
	}
	found.FreeDisk, found.ReadOnly = disk("/var/lib")
	return found, nil
}

// osRelease returns the settings of an os-release file.
func osRelease(path string) map[string]string {
	settings := map[string]string{}
	content, err := os.ReadFile(path)
	if err != nil {
		return settings
	}
	for line := range strings.Lines(string(content)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok {
			settings[name] = strings.Trim(value, `"'`)
		}
	}
	return settings
}

// family returns the distribution that a host's follows in how it is packaged.
func family(release map[string]string) string {
	for _, id := range append([]string{release["ID"]}, strings.Fields(release["ID_LIKE"])...) {
		switch id {
		case "debian", "ubuntu", "raspbian":
			return "debian"
		case "rhel", "fedora", "centos":
			return "rhel"
		case "suse", "opensuse", "sles":
			return "suse"
		case "alpine", "arch":
			return id
		}
	}
	return ""
}

// userland returns the architecture of a program, as GOARCH names it.
func userland(program string) string {
	file, err := elf.Open(program)
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_386:
		return "386"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_ARM:
		return "arm"
	}
	return strings.ToLower(strings.TrimPrefix(file.Machine.String(), "EM_"))
}

// controllers returns the cgroup controllers that the kernel has and that are
// not turned off. In the unified hierarchy the list of the first version also
// has those of the second, but not whether they are there.
func controllers(first, unified string) []string {
	if content, err := os.ReadFile(unified); err == nil {
		found := strings.Fields(string(content))
		slices.Sort(found)
		return found
	}
	content, err := os.ReadFile(first)
	if err != nil {
		return nil
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[3] == "1" {
			found = append(found, fields[0])
		}
	}
	slices.Sort(found)
	return found
}

// initSystem tells what keeps programs running below a root folder.
func initSystem(root string) string {
	// As systemd itself tells others whether it is the init.
	if info, err := os.Stat(filepath.Join(root, "run/systemd/system")); err == nil && info.IsDir() {
		return "systemd"
	}
	if _, err := os.Stat(filepath.Join(root, "run/openrc/softlevel")); err == nil {
		return "openrc"
	}
	content, err := os.ReadFile(filepath.Join(root, "proc/1/comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

func hasTun(device string) bool {
	file, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	file.Close()
	return true
}

// modules are the parts of the running kernel: built in or as files.
type modules map[string]bool

func findModules(folder string) modules {
	found := modules{}
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		file, err := os.Open(filepath.Join(folder, list))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			name, _, _ := strings.Cut(lines.Text(), ":")
			name, _, _ = strings.Cut(path.Base(name), ".")
			found[strings.ReplaceAll(name, "-", "_")] = true
		}
		file.Close()
	}
	return found
}

// has also asks the kernel, which may have it without having files.
func (m modules) has(name string) bool {
	if m[name] {
		return true
	}
	_, err := os.Stat("/sys/module/" + name)
	return err == nil
}

func programs() []string {
	var found []string
	for _, name := range host.ProgramsOfInterest() {
		if _, err := lookPath(name, environment); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// disk returns how much can be written to a folder, in bytes, and whether it
// cannot be written to at all.
func disk(folder string) (free int64, readOnly bool) {
	var status unix.Statfs_t
	if err := unix.Statfs(folder, &status); err != nil {
		return 0, false
	}
	return int64(status.Bfree) * int64(status.Bsize), status.Flags&unix.ST_RDONLY != 0 //nolint:unconvert // of 32 bits on arm
}

// ports returns the ports that are listened on, from the kernel's tables.
func ports(folder string) []host.Port {
	const listening, unconnected = "0A", "07" // states of TCP and of UDP
	var found []host.Port
	for table, state := range map[string]string{"tcp": listening, "tcp6": listening, "udp": unconnected, "udp6": unconnected} {
		content, err := os.ReadFile(filepath.Join(folder, table))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(content) {
			fields := strings.Fields(string(line))
			if len(fields) < 4 || fields[3] != state {
				continue
			}
			_, text, _ := strings.Cut(fields[1], ":")
			if number, err := strconv.ParseUint(text, 16, 16); err == nil {
				found = append(found, host.Port{Protocol: strings.TrimSuffix(table, "6"), Number: uint16(number)})
			}
		}
	}
	slices.SortFunc(found, func(a, b host.Port) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
	})
	return slices.Compact(found)
}
