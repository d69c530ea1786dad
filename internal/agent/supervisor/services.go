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
	mu       sync.Mutex // held while a service is started or stopped
	running  map[string]*service
}

func newServices(children *children) *services {
	return &services{children: children, running: map[string]*service{}}
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

func (s *services) start(spec host.Service) error {
	if spec.Name == "" || len(spec.Argv) == 0 || strings.ContainsAny(spec.Name, "/\x00") {
		return fmt.Errorf("start service %q: it needs a name without slash and a command", spec.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.running[spec.Name]; current != nil {
		if reflect.DeepEqual(current.spec, spec) {
			return nil
		}
		s.stopLocked(spec.Name)
	}
	return s.startLocked(spec)
}

func (s *services) startLocked(spec host.Service) error {
	log, err := openLog(spec.Name)
	if err != nil {
		return err
	}
	service := &service{
		children: s.children, spec: spec, log: log,
		end: make(chan struct{}), ended: make(chan struct{}),
		status: host.ServiceStatus{Service: spec},
	}
	child, err := service.spawn()
	if err != nil {
		log.Close()
		return fmt.Errorf("start service %s: %w", spec.Name, err)
	}
	s.running[spec.Name] = service
	go service.keep(child)
	return nil
}

func (s *services) stopLocked(name string) {
	service := s.running[name]
	delete(s.running, name)
	close(service.end)
	<-service.ended
}

func (s *services) stop(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[name] != nil {
		s.stopLocked(name)
	}
	return nil
}

func (s *services) restart(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	service, err := s.find(name)
	if err != nil {
		return err
	}
	s.stopLocked(name)
	return s.startLocked(service.spec)
}

func (s *services) find(name string) (*service, error) {
	if service := s.running[name]; service != nil {
		return service, nil
	}
	return nil, fmt.Errorf("find service %s: %w", name, fs.ErrNotExist)
}

func (s *services) status(name string) (host.ServiceStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	service, err := s.find(name)
	if err != nil {
		return host.ServiceStatus{}, err
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	return service.status, nil
}

func (s *services) signal(name string, signal syscall.Signal) error {
	status, err := s.status(name)
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

func (s *services) log(name string, lines int) ([]byte, error) {
	s.mu.Lock()
	service, err := s.find(name)
	s.mu.Unlock()
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
	case <-current.exited:
	case <-time.After(stopPatience):
		_ = syscall.Kill(current.pid, syscall.SIGKILL)
		<-current.exited
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
