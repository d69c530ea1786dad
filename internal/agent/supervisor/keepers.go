package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/systemd"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
)

var (
	_ keeper = (*services)(nil)
	_ keeper = systemd.Manager{}
	_ keeper = initKeeper{}
	_ keeper = noKeeper{}
)

// findKeeper returns what keeps services running on a machine that was started
// by another init than this program.
func findKeeper(ctx context.Context, children *children) keeper {
	if systemd.Running() {
		return systemd.Manager{Run: children.output}
	}
	if _, err := os.Lstat(layout.Socket); err == nil {
		return initKeeper{ctx, control.NewClient("the init", func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", layout.Socket)
		})}
	}
	name, _ := os.ReadFile("/proc/1/comm")
	return noKeeper{strings.TrimSpace(string(name))}
}

// initKeeper is the init of a local host, as seen by who logged in to it.
type initKeeper struct {
	ctx    context.Context // of the session
	client *control.Client
}

func (k initKeeper) Start(service host.Service) error { return k.client.StartService(k.ctx, service) }
func (k initKeeper) Stop(name string) error           { return k.client.StopService(k.ctx, name) }
func (k initKeeper) Restart(name string) error        { return k.client.RestartService(k.ctx, name) }

func (k initKeeper) Signal(name string, signal syscall.Signal) error {
	return k.client.SignalService(k.ctx, name, signal)
}

func (k initKeeper) Status(name string) (host.ServiceStatus, error) {
	return k.client.Service(k.ctx, name)
}

func (k initKeeper) Log(name string, lines int) ([]byte, error) {
	return k.client.ServiceLog(k.ctx, name, lines)
}

// noKeeper stands for an init that the testbed does not know. It has no
// services, so there are none to stop.
type noKeeper struct{ init string }

func (k noKeeper) absent(name string) error {
	return fmt.Errorf("find service %s: %w", name, fs.ErrNotExist)
}

func (k noKeeper) Start(service host.Service) error {
	return fmt.Errorf("start service %s: the host's init is %q, and services need systemd; install a system with systemd, for example Debian or Raspberry Pi OS", service.Name, k.init)
}

func (k noKeeper) Stop(string) error                          { return nil }
func (k noKeeper) Restart(name string) error                  { return k.absent(name) }
func (k noKeeper) Signal(name string, _ syscall.Signal) error { return k.absent(name) }
func (k noKeeper) Log(name string, _ int) ([]byte, error)     { return nil, k.absent(name) }
func (k noKeeper) Status(name string) (host.ServiceStatus, error) {
	return host.ServiceStatus{}, k.absent(name)
}

// output runs a program to its end and returns what it wrote. A program that
// ends with another code than 0 is a *host.ExitError.
func (c *children) output(argv ...string) ([]byte, error) {
	var pipes pipes
	defer pipes.close()
	output, stdout := pipes.open()
	errput, stderr := pipes.open()
	if pipes.err != nil {
		return nil, pipes.err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	child, err := c.start(argv, nil, "", [3]*os.File{null, stdout, stderr})
	if err != nil {
		return nil, err
	}
	stdout.Close()
	stderr.Close()
	var said, complained bytes.Buffer
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(&said, output) })
	both.Go(func() { _, _ = io.Copy(&complained, errput) })
	status := <-child.exited
	both.Wait()
	if code := exitCode(status); code != 0 {
		text := complained.Bytes()
		return said.Bytes(), &host.ExitError{Argv: argv, Code: code, Stderr: string(text[max(0, len(text)-complaintSize):])}
	}
	return said.Bytes(), nil
}

// complaintSize is how much of what a program says on its error output its
// error keeps, in bytes.
const complaintSize = 2 << 10
