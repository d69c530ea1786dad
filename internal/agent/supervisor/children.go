package supervisor

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// children starts programs and collects how they end. An init also gets the
// children of processes that ended before them, so all are collected in one
// place; that is why nothing here is started with os/exec.
type children struct {
	environment []string // of every program

	mu     sync.Mutex
	exited map[int]chan<- syscall.WaitStatus
}

func newChildren(environment []string) *children {
	c := &children{environment: environment, exited: map[int]chan<- syscall.WaitStatus{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for range signals {
			c.collect()
		}
	}()
	return c
}

// collect takes the status of all processes that have ended.
func (c *children) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if exited := c.exited[pid]; exited != nil {
			delete(c.exited, pid)
			exited <- status
		}
	}
}

// child is a running program, the leader of its own session and process group.
type child struct {
	pid    int
	exited <-chan syscall.WaitStatus // gets one value
}

// start starts a program with the given standard input, output and error.
func (c *children) start(argv, env []string, dir string, stdio [3]*os.File) (child, error) {
	env = append(slices.Clone(c.environment), env...)
	path, err := lookPath(argv[0], env)
	if err != nil {
		return child{}, err
	}
	if dir == "" {
		dir = "/"
	}
	attributes := &syscall.ProcAttr{Dir: dir, Env: dedupe(env), Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, file := range stdio {
		attributes.Files = append(attributes.Files, file.Fd())
	}
	// It may end before it is registered, but is not collected before.
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attributes)
	if err != nil {
		return child{}, &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	exited := make(chan syscall.WaitStatus, 1)
	c.exited[pid] = exited
	return child{pid: pid, exited: exited}, nil
}

// end kills all children, each with its whole group.
func (c *children) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pid := range c.exited {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// kill sends a signal to the child's whole group.
func (c child) kill(signal syscall.Signal) { _ = syscall.Kill(-c.pid, signal) }

// lookPath finds a program as a shell would, by the environment's PATH.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, setting := range env {
		if value, ok := strings.CutPrefix(setting, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("find program %s in %s: %w", name, path, fs.ErrNotExist)
}

// dedupe keeps the last value of each variable.
func dedupe(env []string) []string {
	at := map[string]int{}
	var kept []string
	for _, setting := range env {
		name, _, _ := strings.Cut(setting, "=")
		if i, ok := at[name]; ok {
			kept[i] = setting
			continue
		}
		at[name] = len(kept)
		kept = append(kept, setting)
	}
	return kept
}

// exitCode returns the code as shells count it.
func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
