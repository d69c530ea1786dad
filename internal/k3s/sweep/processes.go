//go:build linux

package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one process as /proc shows it.
type process struct {
	pid, parent int
	exe         string // resolved path of the program, "" for kernel threads
	argv        []string
	pod         bool // in a cgroup of the kubelet's pods
}

func (p process) String() string {
	return fmt.Sprintf("process %d (%s)", p.pid, strings.Join(p.argv, " "))
}

// root reports whether a process is k3s's by itself: k3s, a program of its
// data folder, a containerd or shim of its containerd, or part of a pod. The
// last is what tells of a process whose shim was killed while it started.
func (p process) root() bool {
	if p.pod || p.exe == "/usr/local/bin/k3s" || strings.HasPrefix(p.exe, "/var/lib/rancher/k3s/") {
		return true
	}
	return len(p.argv) > 0 && strings.HasPrefix(filepath.Base(p.argv[0]), "containerd") &&
		slices.ContainsFunc(p.argv[1:], func(arg string) bool {
			return strings.HasPrefix(arg, "/run/k3s/") || strings.HasPrefix(arg, "/var/lib/rancher/k3s/")
		})
}

// ours returns k3s's processes with all their descendants, pods included.
func ours() ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	roots := map[int]bool{}
	for _, p := range all {
		parents[p.pid] = p.parent
		roots[p.pid] = p.root()
	}
	return slices.DeleteFunc(all, func(p process) bool {
		for pid := p.pid; pid > 0; pid = parents[pid] {
			if roots[pid] {
				return p.pid == os.Getpid()
			}
		}
		return true
	}), nil
}

func processes() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := inspect(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// inspect returns false for a process that ended meanwhile or is a zombie.
func inspect(pid int) (process, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return process{}, false
	}
	p := process{pid: pid, parent: parent}
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		p.exe = strings.TrimSuffix(exe, " (deleted)") // replaced by an upgrade
	}
	if argv, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
		p.argv = strings.Split(strings.TrimRight(string(argv), "\x00"), "\x00")
	}
	if groups, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		p.pod = strings.Contains(string(groups), "/kubepods")
	}
	return p, true
}

// endProcesses kills until none is left, since what is killed may have started
// others before.
func endProcesses(ctx context.Context) error {
	for {
		left, err := ours()
		if err != nil || len(left) == 0 {
			return err
		}
		for _, p := range left {
			if err := unix.Kill(p.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end %s: %w", p, err)
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("end %s: %w", left[0], context.Cause(ctx))
		}
	}
}
