// Package supervisor does on a host what the provider asks for.
//
// It is the init of a local host: it makes the host around itself, then keeps
// its services running and serves the control socket; when it ends, everything
// in the host does. On a machine with an init of its own it serves one SSH
// session, and when that ends, so do the commands that were run for it.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
)

// environment is that of every program on a host.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"LANG=C.UTF-8",
}

// localEnvironment is that of every program on a local host. "container" tells
// programs that the kernel is not theirs alone, as system containers do.
func localEnvironment() []string { return append(slices.Clone(environment), "container=testbed") }

// Init is the "init" command. It is started as the first process of new mount,
// PID, network, UTS and IPC namespaces by process.Daemon, with a layout.Setup
// in JSON as its argument; it makes the host and becomes its supervisor.
func Init(ctx context.Context, args []string) error {
	if len(args) == 0 || os.Getpid() != 1 {
		return errors.New("init is started by the provider, as the first process of a host")
	}
	if args[0] == superviseArg {
		return supervise(ctx)
	}
	if err := process.Await(); err != nil {
		return err
	}
	err := become(args[0])
	process.Report(err)
	return err
}

// superviseArg is the argument of an init that has made its host; those after it
// tell people who look at the machine's processes whose init it is.
const superviseArg = "supervise"

// become makes the host and replaces this program by the supervisor. It returns
// only if that fails.
func become(text string) error {
	var setup layout.Setup
	if err := json.Unmarshal([]byte(text), &setup); err != nil {
		return fmt.Errorf("read setup: %w", err)
	}
	agent, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	agent, err = filepath.Rel(setup.DataDir.Agents(), agent)
	if err != nil {
		return err
	}
	// A cgroup namespace belongs to the thread that made it, and to the
	// program which that thread executes.
	runtime.LockOSThread()
	if err := makeHost(setup); err != nil {
		return err
	}
	agent = filepath.Join(layout.Agents, agent)
	argv := []string{"testbed-agent", "init", superviseArg, setup.Name, string(setup.DataDir)}
	return fmt.Errorf("execute %s: %w", agent, syscall.Exec(agent, argv, localEnvironment()))
}

// supervise serves the control socket until the host ends.
func supervise(ctx context.Context) error {
	prepare()
	children := newChildren(localEnvironment())
	listener, err := net.Listen("unix", layout.Socket)
	process.Report(err)
	if err != nil {
		return err
	}
	server := http.Server{Handler: newServer(children, newServices(children))}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	return server.Serve(listener)
}
