// Package hosttest helps to test what is built on hosts: a host in memory, and
// a comparison of the real machine before and after a test.
package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

var (
	_ host.Host   = (*Fake)(nil)
	_ host.Opener = Opener(nil)
)

// Fake is a host in memory. Tests script its commands and compare its final
// state; a zero Fake is an empty machine on which no command exists.
type Fake struct {
	Name     string // the host's URL, "local://fake" when empty
	HostInfo host.Facts

	// Commands answers Run, by the base name of argv[0]. A command that is
	// not there fails like a program that is not installed.
	Commands map[string]func(ctx context.Context, command host.Command) (host.Output, error)

	// Connect answers Dial; without it nothing listens.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)

	// Unreachable, when set, makes every call fail.
	Unreachable bool

	mu       sync.Mutex
	files    map[string]File
	services map[string]*service
	ran      [][]string
}

// File is a file of a Fake.
type File struct {
	Content string
	Mode    fs.FileMode
}

type service struct {
	status  host.ServiceStatus
	log     strings.Builder
	signals []syscall.Signal
}

// Opener opens fakes by their URLs.
type Opener []*Fake

// Open returns the fake of that name.
func (o Opener) Open(_ context.Context, url string) (host.Host, error) {
	for _, fake := range o {
		if fake.URL() == url {
			return fake, nil
		}
	}
	return nil, fmt.Errorf("open %s: %w", url, host.ErrNotExist)
}

// URL returns the fake's name.
func (f *Fake) URL() string {
	if f.Name == "" {
		return "local://fake"
	}
	return f.Name
}

// Files returns the content and mode of all files by path.
func (f *Fake) Files() map[string]File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.files)
}

// Services returns the state of all services by name.
func (f *Fake) Services() map[string]host.ServiceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]host.ServiceStatus{}
	for name, service := range f.services {
		all[name] = service.status
	}
	return all
}

// Signals returns the signals that a service was sent.
func (f *Fake) Signals(name string) []syscall.Signal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if service := f.services[name]; service != nil {
		return slices.Clone(service.signals)
	}
	return nil
}

// Ran returns the argv of all commands that were run.
func (f *Fake) Ran() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ran)
}

// Log appends to a service's log.
func (f *Fake) Log(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if service := f.services[name]; service != nil {
		service.log.WriteString(text)
	}
}

// Crash makes a service look as if it had ended that way and been started
// again.
func (f *Fake) Crash(name, exit string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if service := f.services[name]; service != nil {
		service.restart()
		service.status.Restarts++
		service.status.Exit = exit
	}
}

func (f *Fake) reach(ctx context.Context) error {
	if f.Unreachable {
		return fmt.Errorf("reach %s: %w", f.URL(), host.ErrUnreachable)
	}
	return ctx.Err()
}

// Facts returns HostInfo.
func (f *Fake) Facts(ctx context.Context) (host.Facts, error) {
	return f.HostInfo, f.reach(ctx)
}

// Agent returns a path; there is no program behind it.
func (f *Fake) Agent(ctx context.Context) (string, error) {
	return "/run/testbed/agent/testbed-agent", f.reach(ctx)
}

// Run runs the scripted command and treats its output like a real host does.
func (f *Fake) Run(ctx context.Context, command host.Command) (host.Output, error) {
	if err := f.reach(ctx); err != nil {
		return host.Output{}, err
	}
	f.mu.Lock()
	f.ran = append(f.ran, slices.Clone(command.Argv))
	f.mu.Unlock()
	run := f.Commands[path.Base(command.Argv[0])]
	if run == nil {
		return host.Output{}, fmt.Errorf("run %s on %s: %w", host.Quote(command.Argv), f.URL(), fs.ErrNotExist)
	}
	output, err := run(ctx, command)
	if command.Stdout != nil {
		_, _ = command.Stdout.Write(output.Stdout)
		output.Stdout = nil
	}
	if command.Stderr != nil {
		_, _ = command.Stderr.Write(output.Stderr)
		output.Stderr = nil
	}
	return output, err
}

// Read returns the content of a file.
func (f *Fake) Read(ctx context.Context, name string) ([]byte, error) {
	if err := f.reach(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	file, ok := f.files[path.Clean(name)]
	if !ok {
		return nil, fmt.Errorf("read %s on %s: %w", name, f.URL(), fs.ErrNotExist)
	}
	return []byte(file.Content), nil
}

// Write replaces a file.
func (f *Fake) Write(ctx context.Context, name string, mode fs.FileMode, content io.Reader) error {
	if err := f.reach(ctx); err != nil {
		return err
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[string]File{}
	}
	f.files[path.Clean(name)] = File{Content: string(text), Mode: mode}
	return nil
}

// Remove removes a file or everything below a folder.
func (f *Fake) Remove(ctx context.Context, name string) error {
	if err := f.reach(ctx); err != nil {
		return err
	}
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.files, func(file string, _ File) bool {
		return file == name || strings.HasPrefix(file, name+"/")
	})
	return nil
}

// Dial asks Connect.
func (f *Fake) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := f.reach(ctx); err != nil {
		return nil, err
	}
	if f.Connect == nil {
		return nil, fmt.Errorf("dial %s on %s: %w", address, f.URL(), syscall.ECONNREFUSED)
	}
	return f.Connect(ctx, network, address)
}

func (s *service) restart() {
	s.status.PID++
	s.status.Started = s.status.Started.Add(time.Second)
}

// StartService starts a service, restarts one that differs, and leaves an
// equal one alone.
func (f *Fake) StartService(ctx context.Context, wanted host.Service) error {
	if err := f.reach(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.services == nil {
		f.services = map[string]*service{}
	}
	current := f.services[wanted.Name]
	if current == nil {
		current = &service{status: host.ServiceStatus{Running: true, PID: 100 * (len(f.services) + 1)}}
		f.services[wanted.Name] = current
	}
	if !reflect.DeepEqual(current.status.Service, wanted) {
		current.status.Service = wanted
		current.restart()
	}
	return nil
}

func (f *Fake) service(ctx context.Context, name string) (*service, error) {
	if err := f.reach(ctx); err != nil {
		return nil, err
	}
	if service := f.services[name]; service != nil {
		return service, nil
	}
	return nil, fmt.Errorf("find service %s on %s: %w", name, f.URL(), host.ErrNotExist)
}

// Service returns the state of a service.
func (f *Fake) Service(ctx context.Context, name string) (host.ServiceStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	service, err := f.service(ctx, name)
	if err != nil {
		return host.ServiceStatus{}, err
	}
	return service.status, nil
}

// RestartService gives the service another process.
func (f *Fake) RestartService(ctx context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	service, err := f.service(ctx, name)
	if err != nil {
		return err
	}
	service.restart()
	return nil
}

// SignalService records the signal.
func (f *Fake) SignalService(ctx context.Context, name string, signal syscall.Signal) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	service, err := f.service(ctx, name)
	if err != nil {
		return err
	}
	service.signals = append(service.signals, signal)
	return nil
}

// ServiceLog returns what Log appended.
func (f *Fake) ServiceLog(ctx context.Context, name string, lines int) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	service, err := f.service(ctx, name)
	if err != nil {
		return nil, err
	}
	all := bytes.SplitAfter([]byte(service.log.String()), []byte("\n"))
	if len(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	return bytes.Join(all[max(0, len(all)-lines):], nil), nil
}

// StopService forgets the service.
func (f *Fake) StopService(ctx context.Context, name string) error {
	if err := f.reach(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.services, name)
	return nil
}
