package supervisor

import (
	"net/http"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/cgroup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

func getFacts(w http.ResponseWriter, _ *http.Request) error {
	facts, err := facts()
	if err != nil {
		return err
	}
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
	return host.Facts{
		Hostname: unix.ByteSliceToString(name.Nodename[:]),
		OS:       prettyName(),
		Arch:     runtime.GOARCH,
		Kernel:   unix.ByteSliceToString(name.Release[:]),
		CPUs:     runtime.NumCPU(),
		Memory:   int64(info.Totalram) * int64(info.Unit),
		Cgroup:   hierarchies.Version(),
	}, nil
}

// prettyName returns what the distribution calls itself.
func prettyName() string {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
