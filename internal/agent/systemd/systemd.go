// Package systemd keeps the services of a testbed running as units of the
// host's systemd. A unit holds its service in a section of its own, so units
// of a testbed are found, compared and removed without any other record, and
// no others are ever touched.
package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Units is the folder of units that belong to the machine's administrator.
const Units = "/etc/systemd/system"

// Running reports whether the machine's init is systemd, as sd_booted(3) does.
func Running() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// Manager makes and removes units.
type Manager struct {
	// Run runs a program to its end and returns its output. Its error says
	// what the program did.
	Run func(argv ...string) (output []byte, err error)
}

// Start makes a service run as specified, now and whenever the machine
// starts. One that runs so already is left alone.
func (m Manager) Start(spec host.Service) error {
	text, revision, err := render(spec)
	if err != nil {
		return err
	}
	present, err := m.own(spec.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if present != text {
		if err := write(path(spec.Name), text); err != nil {
			return fmt.Errorf("write the unit of service %s: %w", spec.Name, err)
		}
	}
	name := unitName(spec.Name)
	found, err := m.show(name)
	if err != nil {
		return err
	}
	if present != text || found["NeedDaemonReload"] == "yes" || found["LoadState"] != "loaded" {
		if _, err := m.Run("systemctl", "daemon-reload"); err != nil {
			return err
		}
	}
	if found["UnitFileState"] != "enabled" {
		if _, err := m.Run("systemctl", "--quiet", "enable", name); err != nil {
			return err
		}
	}
	if present == text && running(found) && startedBy(found, revision) {
		return nil
	}
	_, _ = m.Run("systemctl", "reset-failed", name) // of an earlier life, if any
	_, err = m.Run("systemctl", "restart", name)
	return err
}

// Stop ends a service with all its processes and removes its unit. An absent
// service is no error.
func (m Manager) Stop(service string) error {
	name := unitName(service)
	_, err := m.own(service)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := m.Run("systemctl", "stop", name); err != nil {
		return err
	}
	if _, err := m.Run("systemctl", "--quiet", "disable", name); err != nil {
		return err
	}
	if err := os.Remove(path(service)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the unit of service %s: %w", service, err)
	}
	if _, err := m.Run("systemctl", "daemon-reload"); err != nil {
		return err
	}
	_, _ = m.Run("systemctl", "reset-failed", name) // or a failed one is listed for ever
	return nil
}

// Restart ends a service's processes and starts it again.
func (m Manager) Restart(service string) error {
	if _, err := m.own(service); err != nil {
		return err
	}
	_, err := m.Run("systemctl", "restart", unitName(service))
	return err
}

// Signal sends a signal to a service's main process.
func (m Manager) Signal(service string, signal syscall.Signal) error {
	status, err := m.Status(service)
	if err != nil {
		return err
	}
	if !status.Running {
		return fmt.Errorf("signal service %s: it is not running, %s", service, status.Exit)
	}
	if err := syscall.Kill(status.PID, signal); err != nil {
		return fmt.Errorf("signal service %s: %w", service, err)
	}
	return nil
}

// Log returns the last lines that a service wrote.
func (m Manager) Log(service string, lines int) ([]byte, error) {
	if _, err := m.own(service); err != nil {
		return nil, err
	}
	return m.Run("journalctl", "_SYSTEMD_UNIT="+unitName(service), "--lines", strconv.Itoa(lines), "--output", "cat", "--no-pager", "--quiet")
}

// Status returns the state of a service.
func (m Manager) Status(service string) (host.ServiceStatus, error) {
	text, err := m.own(service)
	if err != nil {
		return host.ServiceStatus{}, err
	}
	found, err := m.show(unitName(service))
	if err != nil {
		return host.ServiceStatus{}, err
	}
	spec, _ := parse(text)
	s, err := status(spec, found)
	if rendered, revision, bad := render(spec); bad != nil || rendered != text || found["UnitFileState"] != "enabled" ||
		s.Running && !startedBy(found, revision) {
		s.Changed = true
	}
	return s, err
}

// Names returns the names of all services of a testbed on this machine.
func Names() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(Units, "*.service"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a link to a unit that is gone
		}
		if err != nil {
			return nil, err
		}
		if spec, ok := parse(string(text)); ok && file == path(spec.Name) {
			names = append(names, spec.Name)
		}
	}
	return names, nil
}

func path(service string) string { return filepath.Join(Units, unitName(service)) }

// own returns the unit of a service. The error is host.ErrForeign when the
// machine has a unit of this name that the testbed did not make, and
// fs.ErrNotExist when there is none.
func (m Manager) own(service string) (string, error) {
	if !validName.MatchString(service) {
		return "", fmt.Errorf("find service %q: this is no name of a service", service)
	}
	text, err := os.ReadFile(path(service))
	if err == nil {
		if _, ok := parse(string(text)); ok {
			return string(text), nil
		}
		return "", foreign(service, path(service))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("find service %s: %w", service, err)
	}
	found, err := m.show(unitName(service))
	if err != nil {
		return "", err
	}
	if file := found["FragmentPath"]; file != "" && file != path(service) {
		return "", foreign(service, file)
	}
	return "", fmt.Errorf("find service %s: %w", service, fs.ErrNotExist)
}

func foreign(service, file string) error {
	return fmt.Errorf("find service %s: %s is %w; remove it with what it belongs to, or take another host", service, file, host.ErrForeign)
}

// properties of a unit that show asks for.
const properties = "LoadState,FragmentPath,UnitFileState,NeedDaemonReload,ActiveState,SubState,Result,MainPID,NRestarts," +
	"ExecMainStartTimestampMonotonic,ExecMainCode,ExecMainStatus"

// show returns what systemd knows of a unit. One that is not there has a
// LoadState too.
func (m Manager) show(unit string) (map[string]string, error) {
	output, err := m.Run("systemctl", "show", "--property", properties, unit)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for line := range strings.Lines(string(output)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			found[key] = value
		}
	}
	return found, nil
}

// running reports whether the service has a process that is to stay.
func running(found map[string]string) bool {
	switch found["ActiveState"] {
	case "active", "activating", "reloading":
		return found["MainPID"] != "" && found["MainPID"] != "0"
	}
	return false
}

// startedBy reports whether the service's main process was started by this
// revision of its unit.
func startedBy(found map[string]string, revision string) bool {
	environ, err := os.ReadFile(filepath.Join("/proc", found["MainPID"], "environ"))
	return err == nil && strings.Contains("\x00"+string(environ), "\x00"+revisionKey+"="+revision+"\x00")
}

func status(spec host.Service, found map[string]string) (host.ServiceStatus, error) {
	s := host.ServiceStatus{Service: spec, Running: running(found)}
	s.Restarts, _ = strconv.Atoi(found["NRestarts"]) // systemd has it since version 235
	if s.Running {
		pid, err := strconv.Atoi(found["MainPID"])
		if err != nil {
			return s, fmt.Errorf("find service %s: %w", spec.Name, err)
		}
		s.PID = pid
	} else {
		s.Exit = ended(found)
	}
	if micros, err := strconv.ParseInt(found["ExecMainStartTimestampMonotonic"], 10, 64); err == nil && micros > 0 {
		started, err := sinceBoot(time.Duration(micros) * time.Microsecond)
		if err != nil {
			return s, fmt.Errorf("find service %s: %w", spec.Name, err)
		}
		s.Started = started
	}
	return s, nil
}

// ended says how the service ended last.
func ended(found map[string]string) string {
	code, _ := strconv.Atoi(found["ExecMainCode"])
	number, _ := strconv.Atoi(found["ExecMainStatus"])
	switch {
	case code == exited:
		return fmt.Sprintf("exit code %d", number)
	case code == killed || code == dumped:
		return "signal " + syscall.Signal(number).String()
	case found["Result"] != "" && found["Result"] != "success":
		return found["Result"]
	}
	return found["ActiveState"]
}

// How a process ended, as waitid(2) says it.
const (
	exited = 1 // CLD_EXITED
	killed = 2 // CLD_KILLED
	dumped = 3 // CLD_DUMPED
)

// sinceBoot returns the time of day at a reading of the clock that systemd
// tells times by.
func sinceBoot(reading time.Duration) (time.Time, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(reading - time.Duration(now.Nano())), nil
}

// write replaces a unit at once, safely on the disk before it has its name.
func write(file, text string) error {
	fresh, err := os.CreateTemp(filepath.Dir(file), ".testbed-*")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.WriteString(text)
	if err := errors.Join(err, fresh.Chmod(0o644), fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), file)
}
