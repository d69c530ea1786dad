package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/hosttest"
)

// complete is a host that lacks nothing.
func complete() host.Facts {
	return host.Facts{
		Arch: "arm64", Userland: "arm64", Kernel: "6.8.0-1010-raspi", Family: "debian", Distribution: "ubuntu", Init: "systemd",
		Controllers: []string{"cpu", "cpuset", "io", "memory", "pids"}, Programs: []string{"ip", "tc"},
		Tun: true, Netem: true, Memory: 4 << 30, FreeDisk: 20 << 30,
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*host.Facts)
		needs  []Need
		want   []string
	}{
		{"complete", func(*host.Facts) {}, Needs(), nil},
		{"no netem on Ubuntu", func(f *host.Facts) { f.Netem = false }, Needs(),
			[]string{"its kernel has no sch_netem: sudo apt-get install -y linux-modules-extra-6.8.0-1010-raspi"}},
		{"what nobody needs may lack", func(f *host.Facts) { f.Netem, f.Tun, f.Controllers = false, false, nil }, nil, nil},
		{"no tc on Fedora", func(f *host.Facts) { f.Programs, f.Family = nil, "rhel" }, []Need{Link},
			[]string{"the program tc is not installed: sudo dnf install -y iproute-tc"}},
		{"Raspberry Pi as it comes", func(f *host.Facts) { f.Controllers = []string{"cpu", "cpuset", "pids"} }, []Need{Cluster},
			[]string{"the cgroup controller memory is off, without which k3s does not start: add \"cgroup_enable=memory cgroup_memory=1\" to the one line of the kernel's command line (on a Raspberry Pi /boot/firmware/cmdline.txt) and restart"}},
		{"a clock one day behind", func(f *host.Facts) { f.ClockOffset = -24 * time.Hour }, nil,
			[]string{"its clock is 24h0m0s behind this machine's, so certificates would not be valid: set the clock that is wrong, on the host with: sudo timedatectl set-ntp true"}},
		{"a clock a little ahead", func(f *host.Facts) { f.ClockOffset = 2 * time.Second }, nil, nil},
		{"a clock that was hard to ask", func(f *host.Facts) { f.ClockOffset, f.ClockError = time.Minute, time.Minute }, nil, nil},
		{"full disk and no TUN", func(f *host.Facts) { f.FreeDisk, f.Tun = 1<<29, false }, []Need{Overlay, Cluster},
			[]string{"TUN devices cannot be made: sudo modprobe tun (in a container, give it /dev/net/tun)",
				"0.5 GB are free below /var/lib, and a cluster takes 4 GB: free some; du -xh /var | sort -h | tail shows what takes it"}},
		{"OpenRC", func(f *host.Facts) { f.Init = "openrc" }, nil,
			[]string{"its init is openrc, and services are units of systemd: use a distribution with systemd"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			facts := complete()
			test.change(&facts)
			var got []string
			for _, missing := range Check(facts, test.needs...) {
				got = append(got, missing.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAll wants one error for all hosts.
func TestAll(t *testing.T) {
	good := &hosttest.Fake{Name: "ssh://good", HostInfo: complete()}
	bare := &hosttest.Fake{Name: "ssh://bare", HostInfo: host.Facts{Init: "systemd", Family: "debian", Arch: "amd64"}}
	away := &hosttest.Fake{Name: "ssh://away", Unreachable: true}
	opener := hosttest.Opener{good, bare, away}
	needs := func(string) []Need { return []Need{Overlay, Link} }
	results := All(t.Context(), opener, []string{"ssh://good", "ssh://bare", "ssh://away"}, needs)
	want := `ssh://bare lacks:
  - TUN devices cannot be made: sudo modprobe tun (in a container, give it /dev/net/tun)
  - the program tc is not installed: sudo apt-get install -y iproute2
  - its kernel has no sch_netem: install the distribution's kernel, whose package has the module, and restart: sudo apt-get install -y linux-image-amd64
ssh://away cannot be asked: reach ssh://away: host is unreachable`
	if diff := cmp.Diff(want, Problems(results).Error()); diff != "" {
		t.Error(diff)
	}
	if err := Problems(All(t.Context(), opener, []string{"ssh://good"}, needs)); err != nil {
		t.Errorf("a complete host: %v", err)
	}
	if !strings.Contains(results[0].URL, "good") {
		t.Errorf("results are out of order: %+v", results)
	}
}
