package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// boot names the time since the kernel was started.
var boot = sync.OnceValues(func() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
})

// Of returns the identity of a living process. It is an fs.ErrNotExist when
// there is none, or only its end is left.
func Of(pid int) (ID, error) {
	id, ended, err := find(pid)
	if err == nil && ended {
		err = fmt.Errorf("it has ended: %w", fs.ErrNotExist)
	}
	if err != nil {
		return ID{}, fmt.Errorf("find process %d: %w", pid, err)
	}
	return id, nil
}

// exiting is the kernel's flag PF_EXITING: the process does nothing more but
// give back what it has.
const exiting = 4

// find returns the identity of a process, also of one that has ended or is
// about to.
func find(pid int) (id ID, ended bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return ID{}, false, err
	}
	// The program's name is in parentheses and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ID{}, false, fmt.Errorf("its status has %d fields", len(fields))
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return ID{}, false, err
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return ID{}, false, err
	}
	boot, err := boot()
	return ID{PID: pid, Start: start, Boot: boot}, flags&exiting != 0, err
}

// Alive reports whether the process still runs.
func (id ID) Alive() bool {
	found, err := Of(id.PID)
	return err == nil && found == id
}

// Kill ends the process at once and returns when it is gone. A process that is
// gone already is no error.
func (id ID) Kill(ctx context.Context) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", id.PID, err)
	}
	defer unix.Close(fd)
	// The descriptor is held, so the number cannot change hands any more.
	found, _, err := find(id.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && found != id {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find process %d: %w", id.PID, err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", id.PID, err)
	}
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end of process %d: %w", id.PID, err)
		}
		if n == 1 {
			reap(id.PID)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the end of process %d: %w", id.PID, context.Cause(ctx))
		}
	}
}

// reap takes the exit status of a child; other processes have other parents.
func reap(pid int) {
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// Start starts the daemon and returns when it reports that it is ready. The
// daemon does nothing before record has returned without an error; after that
// it lives on by itself, whatever becomes of the starter.
//
// An error of the daemon, or the end of ctx, ends the process.
func (d Daemon) Start(ctx context.Context, record func(ID) error) (ID, error) {
	log, err := os.OpenFile(d.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return ID{}, err
	}
	defer log.Close()
	permission, permit, err := os.Pipe()
	if err != nil {
		return ID{}, err
	}
	defer permission.Close()
	defer permit.Close()
	reports, report, err := os.Pipe()
	if err != nil {
		return ID{}, err
	}
	defer reports.Close()
	defer report.Close()

	command := exec.Command(d.Argv[0], d.Argv[1:]...)
	command.Env = d.Env
	command.Dir = "/"
	command.Stdin, command.Stdout, command.Stderr = permission, log, log
	command.ExtraFiles = []*os.File{report}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: d.Namespaces}
	if err := command.Start(); err != nil {
		return ID{}, err
	}
	report.Close()
	permission.Close()

	id, err := Of(command.Process.Pid)
	if err == nil {
		err = record(id)
	}
	if err == nil {
		_, err = permit.Write([]byte{1})
	}
	if err == nil {
		err = awaitReport(ctx, reports)
	}
	if err != nil {
		_ = command.Process.Kill()
		_ = command.Wait()
		return ID{}, err
	}
	return id, nil
}

// awaitReport returns what the daemon says about its start.
func awaitReport(ctx context.Context, reports *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = reports.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := io.ReadAll(reports)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case len(text) == 0:
		return errors.New("it ended without a word; its log may tell why")
	case string(text) != reportReady:
		return errors.New(string(text))
	}
	return nil
}
