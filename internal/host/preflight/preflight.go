// Package preflight compares what hosts are with what is to be built on them,
// and says of everything that is missing how to get it.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Need is what a host is to be good for.
type Need string

// The needs.
const (
	Overlay Need = "overlay" // a Nebula node
	Link    Need = "link"    // a link emulated by the kernel
	Cluster Need = "cluster" // a k3s server or agent
)

// Needs returns all needs.
func Needs() []Need { return []Need{Overlay, Link, Cluster} }

// maxClockOffset is how wrong a clock may be. Certificates and tokens are
// valid from about a minute before they are made.
const maxClockOffset = 30 * time.Second

// diskForCluster is what k3s and the images of a testbed take, in bytes.
const diskForCluster = 4 << 30

// memoryForCluster is what k3s with ClusterLink takes, in bytes; a machine that
// is sold as having 1 GB has less.
const memoryForCluster = 900 << 20

// Missing is something that a host lacks.
type Missing struct {
	What string // a clause, for example "its kernel has no sch_netem"
	Fix  string // what to do, for example a command
}

// String returns one line for people.
func (m Missing) String() string { return m.What + ": " + m.Fix }

// Check returns all that a host lacks for the needs.
func Check(facts host.Facts, needs ...Need) []Missing {
	missing := checkAlways(facts)
	for _, need := range needs {
		switch need {
		case Overlay:
			missing = append(missing, checkOverlay(facts)...)
		case Link:
			missing = append(missing, checkLink(facts)...)
		case Cluster:
			missing = append(missing, checkCluster(facts)...)
		}
	}
	return missing
}

func checkAlways(facts host.Facts) []Missing {
	var missing []Missing
	if offset := facts.ClockOffset.Round(time.Second); offset.Abs() > maxClockOffset+facts.ClockError {
		word := "ahead of"
		if offset < 0 {
			word = "behind"
		}
		missing = append(missing, Missing{
			fmt.Sprintf("its clock is %s %s this machine's, so certificates would not be valid", offset.Abs(), word),
			"set the clock that is wrong, on the host with: sudo timedatectl set-ntp true",
		})
	}
	if facts.ReadOnly {
		missing = append(missing, Missing{"/var/lib is on a read-only file system", "make it writable: sudo mount -o remount,rw / (see dmesg for why it is not)"})
	}
	if facts.Init != "systemd" && facts.Init != "testbed-agent" {
		missing = append(missing, Missing{
			fmt.Sprintf("its init is %s, and services are units of systemd", first(facts.Init, "unknown")),
			"use a distribution with systemd",
		})
	}
	return missing
}

func checkOverlay(facts host.Facts) []Missing {
	if facts.Tun {
		return nil
	}
	return []Missing{{"TUN devices cannot be made", "sudo modprobe tun (in a container, give it /dev/net/tun)"}}
}

func checkLink(facts host.Facts) []Missing {
	var missing []Missing
	if !slices.Contains(facts.Programs, "tc") {
		missing = append(missing, Missing{"the program tc is not installed", install(facts, map[string]string{"rhel": "iproute-tc"}, "iproute2")})
	}
	if !facts.Netem {
		missing = append(missing, Missing{"its kernel has no sch_netem", NetemFix(facts)})
	}
	return missing
}

// NetemFix says how a host gets sch_netem.
func NetemFix(facts host.Facts) string {
	switch {
	case facts.Distribution == "ubuntu":
		return "sudo apt-get install -y linux-modules-extra-" + facts.Kernel
	case facts.Family == "debian":
		return "install the distribution's kernel, whose package has the module, and restart: sudo apt-get install -y linux-image-" + debianArch(facts.Arch)
	case facts.Family == "rhel":
		return "sudo dnf install -y kernel-modules-extra-" + facts.Kernel
	}
	return "install the kernel's package of further modules, or a kernel with CONFIG_NET_SCH_NETEM"
}

func debianArch(arch string) string {
	if arch == "arm" {
		return "armmp"
	}
	return arch
}

func checkCluster(facts host.Facts) []Missing {
	var missing []Missing
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
		if slices.Contains(facts.Controllers, controller) {
			continue
		}
		fix := fmt.Sprintf("turn it on in the kernel's command line (cgroup_enable=%s) and restart", controller)
		if controller == "memory" {
			fix = "add \"cgroup_enable=memory cgroup_memory=1\" to the one line of the kernel's command line (on a Raspberry Pi /boot/firmware/cmdline.txt) and restart"
		}
		missing = append(missing, Missing{"the cgroup controller " + controller + " is off, without which k3s does not start", fix})
	}
	if facts.FreeDisk < diskForCluster && !facts.ReadOnly {
		missing = append(missing, Missing{
			fmt.Sprintf("%.1f GB are free below /var/lib, and a cluster takes %d GB", float64(facts.FreeDisk)/(1<<30), diskForCluster>>30),
			"free some; du -xh /var | sort -h | tail shows what takes it",
		})
	}
	if facts.Memory < memoryForCluster {
		missing = append(missing, Missing{
			fmt.Sprintf("it has %d MB of memory, and a cluster takes 1 GB", facts.Memory>>20), "use a larger machine",
		})
	}
	if facts.Arch == "386" || facts.Arch == "arm" && facts.Userland != "arm" {
		missing = append(missing, Missing{"k3s is not made for " + facts.Arch, "install a 64-bit system"})
	}
	return missing
}

// install is the command that installs a package, which some families name
// otherwise.
func install(facts host.Facts, others map[string]string, name string) string {
	name = first(others[facts.Family], name)
	switch facts.Family {
	case "debian":
		return "sudo apt-get install -y " + name
	case "rhel":
		return "sudo dnf install -y " + name
	case "suse":
		return "sudo zypper install -y " + name
	case "alpine":
		return "sudo apk add " + name
	case "arch":
		return "sudo pacman -S " + name
	}
	return "install " + name
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// Result is what was found out about one host.
type Result struct {
	URL     string
	Facts   host.Facts
	Missing []Missing
	Err     error // it could not be asked
}

// OK reports whether the host is there and lacks nothing.
func (r Result) OK() bool { return r.Err == nil && len(r.Missing) == 0 }

// All asks all hosts at the same time, each for its needs, and returns what was
// found out in the order of the URLs.
func All(ctx context.Context, hosts host.Opener, urls []string, needs func(url string) []Need) []Result {
	results := make([]Result, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() { results[i] = one(ctx, hosts, url, needs(url)) })
	}
	all.Wait()
	return results
}

func one(ctx context.Context, hosts host.Opener, url string, needs []Need) Result {
	result := Result{URL: url}
	h, err := hosts.Open(ctx, url)
	if err == nil {
		result.Facts, err = h.Facts(ctx)
	}
	if err != nil {
		result.Err = err
		return result
	}
	result.Missing = Check(result.Facts, needs...)
	return result
}

// Error reports hosts that cannot be used as they are.
type Error []Result

// Problems returns the results of the hosts that cannot be used as an error,
// or nil when all can.
func Problems(results []Result) error {
	var bad Error
	for _, result := range results {
		if !result.OK() {
			bad = append(bad, result)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return bad
}

// Error lists everything that is missing on every host, each with its fix.
func (e Error) Error() string {
	var text strings.Builder
	for i, result := range e {
		if i > 0 {
			text.WriteString("\n")
		}
		if result.Err != nil {
			fmt.Fprintf(&text, "%s cannot be asked: %v", result.URL, result.Err)
			continue
		}
		fmt.Fprintf(&text, "%s lacks:", result.URL)
		for _, missing := range result.Missing {
			fmt.Fprintf(&text, "\n  - %s", missing)
		}
	}
	return text.String()
}
