package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// inside is set in the process that has the namespace.
const inside = "TESTBED_LOADBENCH_INSIDE"

// inNamespace does something in a network namespace of its own, in a process
// of its own, whose loopback is up.
func inNamespace(ctx context.Context, do func() error) error {
	if os.Getenv(inside) != "" {
		if output, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return fmt.Errorf("set the loopback up: %w: %s", err, output)
		}
		return do()
	}
	command := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), inside+"=1")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := command.Run(); err != nil {
		return fmt.Errorf("measure in a network namespace, which needs root: %w", err)
	}
	return nil
}
