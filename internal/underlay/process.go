package underlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

// Files of a network's folder.
const (
	socketFile = "control.sock"
	stateFile  = "state.json"
	daemonFile = "daemon.json"
	logFile    = "daemon.log"
)

// Check says what this machine lacks for running networks.
func Check() error {
	if os.Geteuid() != 0 {
		return errors.New("networks need root; run as root, for example with sudo")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("networks need /dev/net/tun; load the kernel's module with: modprobe tun: %w", err)
	}
	return nil
}

// Apply makes the network run as specified: it starts the daemon, or changes
// the packet size and the seed of one that runs. The range of a running network
// cannot change. A daemon that takes the place of a killed one takes over its
// hosts and links. The program is the path of the agent.
func Apply(ctx context.Context, data datadir.Dir, program string, spec Spec) error {
	return apply(ctx, data, program, spec, true)
}

// Create is Apply for a network with a new owner: a new daemon knows no links
// of a former one.
func Create(ctx context.Context, data datadir.Dir, program string, spec Spec) error {
	return apply(ctx, data, program, spec, false)
}

func apply(ctx context.Context, data datadir.Dir, program string, spec Spec, keepLinks bool) error {
	if err := spec.Validate(); err != nil {
		return fmt.Errorf("apply network %q: %w", spec.Name, err)
	}
	dir := data.Network(spec.Name)
	unlock, err := data.Make(ctx, dir)
	if err != nil {
		return fmt.Errorf("apply network %q: %w", spec.Name, err)
	}
	defer unlock()
	switch _, err := call(ctx, dir, Request{Op: OpConfigure, Spec: &spec}); {
	case err == nil:
		return nil
	case !absent(err):
		return fmt.Errorf("configure network %q: %w", spec.Name, err)
	}
	_, missing := os.Stat(filepath.Join(dir, stateFile))
	if err := start(ctx, data, program, spec, keepLinks); err != nil {
		if missing != nil { // a new network, which nobody will own
			err = errors.Join(err, data.Drop(context.WithoutCancel(ctx), dir))
		}
		return fmt.Errorf("start network %q: %w", spec.Name, err)
	}
	return nil
}

// start runs a new daemon in place of one that has ended.
func start(ctx context.Context, data datadir.Dir, program string, spec Spec, keepLinks bool) error {
	dir := data.Network(spec.Name)
	if err := end(ctx, dir); err != nil {
		return err
	}
	state, err := ReadState(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if state.Spec.CIDR != spec.CIDR {
		state.Ports = nil
	}
	if !keepLinks {
		state.Links = nil
	}
	state.Spec = spec
	if err := WriteState(dir, state); err != nil {
		return err
	}
	daemon := process.Daemon{Argv: []string{program, "underlay", "run", dir}, Log: filepath.Join(dir, logFile)}
	_, err = daemon.Start(ctx, func(id process.ID) error {
		return datadir.WriteJSON(filepath.Join(dir, daemonFile), id)
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(daemon.Log))
	}
	return nil
}

// Observe returns what a network is. The error wraps fs.ErrNotExist when there
// is none or its daemon has ended.
func Observe(ctx context.Context, data datadir.Dir, network string) (Status, error) {
	client, err := Open(data, network)
	if err != nil {
		return Status{}, err
	}
	return client.Status(ctx)
}

// Remove ends the network's daemon, and with it the devices in the hosts, and
// forgets the network. An absent network is no error.
func Remove(ctx context.Context, data datadir.Dir, network string) error {
	dir := data.Network(network)
	unlock, err := data.Lock(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove network %q: %w", network, err)
	}
	defer unlock()
	if err := end(ctx, dir); err != nil {
		return fmt.Errorf("end network %q: %w", network, err)
	}
	if err := data.Drop(ctx, dir); err != nil {
		return fmt.Errorf("remove network %q: %w", network, err)
	}
	return nil
}

// end ends the daemon that a folder records. It holds nothing that killing it
// would leave behind: its devices go with its descriptors.
func end(ctx context.Context, dir string) error {
	var id process.ID
	err := datadir.ReadJSON(filepath.Join(dir, daemonFile), &id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return id.Kill(ctx)
}

// State is what a network's folder remembers for the next daemon.
type State struct {
	Spec  Spec       `json:"spec"`
	Ports []HeldPort `json:"ports,omitempty"`
	Links []Link     `json:"links,omitempty"`
}

// HeldPort is a port together with the process that its namespace belongs to.
type HeldPort struct {
	Port
	Process process.ID `json:"process"`
}

// ReadState reads what a network's folder remembers.
func ReadState(dir string) (state State, err error) {
	err = datadir.ReadJSON(filepath.Join(dir, stateFile), &state)
	return state, err
}

// WriteState replaces what a network's folder remembers.
func WriteState(dir string, state State) error {
	return datadir.WriteJSON(filepath.Join(dir, stateFile), state)
}

// tail returns the end of a log file for an error.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}
