// Package host is the one way to touch a machine.
//
// A host is a Linux machine named by a URL: "local://NAME" is a namespace host
// of this machine. Nothing outside this package and its implementations runs a
// command on a machine or opens a connection to one, so whatever is built on a
// Host works the same on every kind of machine.
//
// Paths are absolute paths on the host. An unreachable host is an error that
// wraps ErrUnreachable; it is never reported as an absent file or service.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"
)

// ErrUnreachable is wrapped by every error that says nothing about the host's
// content because the host could not be asked.
var ErrUnreachable = errors.New("host is unreachable")

// ErrNotExist is wrapped by Open when there is no such host (a local host that
// was never made, or whose init has ended), and by Service and Read for absent
// services and files. It is fs.ErrNotExist.
var ErrNotExist = fs.ErrNotExist

// ErrForeign is wrapped by errors about a service of the host that has the name
// of one of the testbed's, but is not.
var ErrForeign = errors.New("not of the testbed")

// Opener turns host URLs into hosts. The hosts it returns are shared and are
// closed with the opener.
type Opener interface {
	Open(ctx context.Context, url string) (Host, error)
}

// Host is one Linux machine on which everything runs as root.
type Host interface {
	// URL returns the name the host was opened by, for example "local://edge".
	URL() string

	// Facts returns what the host is.
	Facts(ctx context.Context) (Facts, error)

	// Agent returns the path on the host of the testbed-agent program that
	// belongs to this build, after installing it if need be.
	Agent(ctx context.Context) (string, error)

	// Run runs one program to its end. A program that ends with another code
	// than 0 is an *ExitError. Cancelling ctx ends the program.
	Run(ctx context.Context, command Command) (Output, error)

	// Read returns the content of a file.
	Read(ctx context.Context, path string) ([]byte, error)

	// Write replaces a file at once, never leaving half of it, and makes its
	// parent folders.
	Write(ctx context.Context, path string, mode fs.FileMode, content io.Reader) error

	// Remove removes a file or a whole folder. An absent path is no error.
	Remove(ctx context.Context, path string) error

	// Dial opens a connection from within the host. Networks are those of
	// net.Dial.
	Dial(ctx context.Context, network, address string) (net.Conn, error)

	// StartService makes the service run as specified: it starts a new one,
	// restarts one whose specification differs, and leaves an equal one alone.
	StartService(ctx context.Context, service Service) error

	// Service returns the state of a service.
	Service(ctx context.Context, name string) (ServiceStatus, error)

	// RestartService ends the service's processes and starts it again.
	RestartService(ctx context.Context, name string) error

	// SignalService sends a signal to the service's main process.
	SignalService(ctx context.Context, name string, signal syscall.Signal) error

	// ServiceLog returns the last lines that the service wrote.
	ServiceLog(ctx context.Context, name string, lines int) ([]byte, error)

	// StopService ends the service with all its processes and forgets it. An
	// absent service is no error.
	StopService(ctx context.Context, name string) error
}

// Facts describe a host.
type Facts struct {
	Hostname string `json:"hostname"`
	OS       string `json:"os"`     // as in Debian's PRETTY_NAME
	Arch     string `json:"arch"`   // of the kernel, as GOARCH names it
	Kernel   string `json:"kernel"` // uname -r
	CPUs     int    `json:"cpus"`
	Memory   int64  `json:"memory"` // bytes
	Cgroup   int    `json:"cgroup"` // 1 or 2

	Distribution string `json:"distribution"` // ID of os-release, for example "ubuntu"
	Family       string `json:"family"`       // the distribution whose packages fit: "debian", "rhel", "suse", "alpine", "arch" or ""

	// Userland is the architecture of the installed programs, as GOARCH names
	// it. It differs from Arch where a 64-bit kernel runs a 32-bit system.
	Userland string `json:"userland"`

	Init        string   `json:"init"`        // "systemd", "openrc", or the name of process 1
	Controllers []string `json:"controllers"` // cgroup controllers that can be used, sorted
	Tun         bool     `json:"tun"`         // TUN devices can be made
	Netem       bool     `json:"netem"`       // the kernel has sch_netem, or its module is installed
	IFB         bool     `json:"ifb"`         // the same for ifb devices
	Programs    []string `json:"programs"`    // those of ProgramsOfInterest that are installed, sorted

	FreeDisk int64  `json:"free_disk"` // bytes that root can still write below /var/lib
	ReadOnly bool   `json:"read_only"` // /var/lib is on a read-only file system
	Ports    []Port `json:"ports"`     // in use, sorted

	Clock       time.Time     `json:"clock"`        // the host's, when it was asked
	ClockOffset time.Duration `json:"clock_offset"` // the host's clock less this machine's
	ClockError  time.Duration `json:"clock_error"`  // how far the offset may be from the truth
}

// ProgramsOfInterest are the programs that something on a host may need and
// that Facts look for.
func ProgramsOfInterest() []string {
	return []string{"conntrack", "ip", "iptables", "modprobe", "nft", "ping", "sysctl", "systemctl", "systemd-run", "tc"}
}

// Port is one on which a host listens.
type Port struct {
	Protocol string `json:"protocol"` // "tcp" or "udp"
	Number   uint16 `json:"number"`
}

// Command is one program with its arguments; no shell is involved.
type Command struct {
	Argv  []string
	Env   []string // added to the host's environment, "KEY=value"
	Dir   string   // "/" when empty
	Stdin io.Reader

	// Stdout and Stderr, when set, receive the output while the program runs,
	// and Output leaves that part empty.
	Stdout, Stderr io.Writer
}

// Output is what a program wrote.
type Output struct {
	Stdout, Stderr []byte
}

// ExitError reports a program that ran and did not end with code 0.
type ExitError struct {
	Argv   []string
	Code   int    // exit code, or 128 + the signal that ended it
	Stderr string // last lines
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s: exit code %d", Quote(e.Argv), e.Code)
	if tail := strings.TrimSpace(e.Stderr); tail != "" {
		text += ": " + tail
	}
	return text
}

// Quote prints an argv so that a reader can tell its arguments apart.
func Quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`") {
			arg = fmt.Sprintf("%q", arg)
		}
		quoted[i] = arg
	}
	return strings.Join(quoted, " ")
}

// Service is a program that the host keeps running: it is started again when
// it ends by itself, one second later.
type Service struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`

	// After names services that start first when the host starts. A local
	// host keeps it for the record only, since it starts nothing by itself.
	After []string `json:"after,omitempty"`

	// Requires names services without which this one cannot run: it starts
	// after them, and again when they are started again. A local host keeps it
	// for the record only.
	Requires []string `json:"requires,omitempty"`

	// Confine takes from the service what it does not need. Without it, the
	// service may do what root may. A local host keeps it for the record only.
	Confine *Confinement `json:"confine,omitempty"`

	// KillMode "process" ends only the main process on stop and restart, as
	// k3s wants it so that pods survive; the default ends the whole group.
	KillMode string `json:"kill_mode,omitempty"`
}

// Confinement is what a confined service may do.
type Confinement struct {
	Capabilities []string `json:"capabilities,omitempty"` // "CAP_NET_ADMIN"
	Devices      []string `json:"devices,omitempty"`      // "/dev/net/tun", to read and write
	Writes       []string `json:"writes,omitempty"`       // folders; those below /run are the service's own, and go with it
}

// ServiceStatus is the state of a service.
type ServiceStatus struct {
	Service  Service   `json:"service"`
	Changed  bool      `json:"changed,omitempty"` // by hand, so that it is not as Service says
	Running  bool      `json:"running"`
	PID      int       `json:"pid"` // as seen inside the host
	Started  time.Time `json:"started"`
	Restarts int       `json:"restarts"`
	Exit     string    `json:"exit,omitempty"` // how it ended last, for example "exit code 1"
}
