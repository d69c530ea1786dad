package supervisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Times of a service's life.
const (
	restartDelay = time.Second      // before a service that ended is started again
	stopPatience = 10 * time.Second // for a service to end by itself when told so
)

// nameVariable marks the processes of a service, whatever session they make
// their own.
const nameVariable = "TESTBED_SERVICE"

// services keeps programs running.
type services struct {
	children *children

	mu      sync.Mutex
	running map[string]*service
	turns   map[string]*sync.Mutex // held while a service of the name is started or stopped
}

func newServices(children *children) *services {
	return &services{children: children, running: map[string]*service{}, turns: map[string]*sync.Mutex{}}
}

// service is one program that is kept running by a goroutine of its own.
type service struct {
	children *children
	spec     host.Service
	log      *logFile
	end      chan struct{} // closed to end it
	ended    chan struct{} // closed when it has

	mu     sync.Mutex
	status host.ServiceStatus
}

func (s *services) Start(spec host.Service) error {
	if spec.Name == "" || len(spec.Argv) == 0 || strings.ContainsAny(spec.Name, "/\x00") {
		return fmt.Errorf("start service %q: it needs a name without slash and a command", spec.Name)
	}
	defer s.turn(spec.Name)()
	current, err := s.find(spec.Name)
	if err == nil && reflect.DeepEqual(current.spec, spec) {
		return nil
	}
	return s.replace(spec.Name, &spec)
}

func (s *services) Stop(name string) error {
	defer s.turn(name)()
	return s.replace(name, nil)
}

func (s *services) Restart(name string) error {
	defer s.turn(name)()
	current, err := s.find(name)
	if err != nil {
		return err
	}
	return s.replace(name, &current.spec)
}

// turn waits until nobody else starts or stops the service; stopping may take
// long, and other services do not wait for it.
func (s *services) turn(name string) (end func()) {
	s.mu.Lock()
	turn := s.turns[name]
	if turn == nil {
		turn = new(sync.Mutex)
		s.turns[name] = turn
	}
	s.mu.Unlock()
	turn.Lock()
	return turn.Unlock
}

// replace ends a service that runs and starts another in its place, if any.
func (s *services) replace(name string, spec *host.Service) error {
	if current, err := s.find(name); err == nil {
		close(current.end)
		<-current.ended
	}
	var next *service
	var err error
	if spec != nil {
		next, err = s.launch(*spec)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, name)
	if next != nil {
		s.running[name] = next
	}
	return err
}

func (s *services) launch(spec host.Service) (*service, error) {
	log, err := openLog(spec.Name)
	if err != nil {
		return nil, fmt.Errorf("start service %s: %w", spec.Name, err)
	}
	service := &service{
		children: s.children, spec: spec, log: log,
		end: make(chan struct{}), ended: make(chan struct{}),
		status: host.ServiceStatus{Service: spec},
	}
	child, err := service.spawn()
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("start service %s: %w", spec.Name, err)
	}
	go service.keep(child)
	return service, nil
}

func (s *services) find(name string) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if service := s.running[name]; service != nil {
		return service, nil
	}
	return nil, fmt.Errorf("find service %s: %w", name, fs.ErrNotExist)
}

func (s *services) Status(name string) (host.ServiceStatus, error) {
	service, err := s.find(name)
	if err != nil {
		return host.ServiceStatus{}, err
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	return service.status, nil
}

func (s *services) Signal(name string, signal syscall.Signal) error {
	status, err := s.Status(name)
	if err != nil {
		return err
	}
	if !status.Running {
		return fmt.Errorf("signal service %s: it is not running, %s", name, status.Exit)
	}
	if err := syscall.Kill(status.PID, signal); err != nil {
		return fmt.Errorf("signal service %s: %w", name, err)
	}
	return nil
}

func (s *services) Log(name string, lines int) ([]byte, error) {
	service, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return service.log.tail(lines)
}

// spawn starts the program once.
func (s *service) spawn() (child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return child{}, err
	}
	defer null.Close()
	output, stdout, err := os.Pipe()
	if err != nil {
		return child{}, err
	}
	defer stdout.Close()
	env := append(slices.Clone(s.spec.Env), nameVariable+"="+s.spec.Name)
	started, err := s.children.start(s.spec.Argv, env, s.spec.Dir, [3]*os.File{null, stdout, stdout})
	if err != nil {
		output.Close()
		return child{}, err
	}
	// Processes that outlive a service write on, so this ends by itself.
	go s.log.fill(output)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Running, s.status.PID, s.status.Started = true, started.pid, time.Now()
	return started, nil
}

// keep starts the program again whenever it ends, until the service is to end.
func (s *service) keep(current child) {
	defer close(s.ended)
	defer s.log.Close()
	for {
		select {
		case status := <-current.exited:
			s.gone(describe(status))
		case <-s.end:
			s.stop(current)
			return
		}
		if s.spec.KillMode != "process" {
			s.killRest(current, syscall.SIGKILL)
		}
		for {
			select {
			case <-time.After(restartDelay):
			case <-s.end:
				return
			}
			next, err := s.spawn()
			if err == nil {
				current = next
				s.mu.Lock()
				s.status.Restarts++
				s.mu.Unlock()
				break
			}
			s.gone(err.Error())
		}
	}
}

func (s *service) gone(how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Running, s.status.PID, s.status.Exit = false, 0, how
}

// stop tells the service to end, and makes it end when it does not.
func (s *service) stop(current child) {
	if s.spec.KillMode == "process" {
		_ = syscall.Kill(current.pid, syscall.SIGTERM)
	} else {
		s.killRest(current, syscall.SIGTERM)
	}
	select {
	case status := <-current.exited:
		s.gone(describe(status))
	case <-time.After(stopPatience):
		_ = syscall.Kill(current.pid, syscall.SIGKILL)
		s.gone(describe(<-current.exited))
	}
	if s.spec.KillMode != "process" {
		s.killRest(current, syscall.SIGKILL)
	}
}

// killRest signals every process of the service: its group, and those that
// have left the group.
func (s *service) killRest(current child, signal syscall.Signal) {
	current.kill(signal)
	mark := []byte(nameVariable + "=" + s.spec.Name)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		environ, err := os.ReadFile(filepath.Join(process, "environ"))
		if err != nil || !slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			_ = syscall.Kill(pid, signal)
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return "exit code " + strconv.Itoa(status.ExitStatus())
}
