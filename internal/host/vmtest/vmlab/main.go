// Command vmlab runs a command beside the machines of the VM lab, for example
//
//	go run ./internal/host/vmtest/vmlab -machines 1 -- bash
//
// The command finds the lab's folder in TESTBED_VM_LAB; there are the key that
// the machines accept (id_ed25519), what they are (machines.json) and what
// they say (vm1.console).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/vmtest"
)

func main() {
	home, _ := os.UserCacheDir()
	cache := flag.String("cache", filepath.Join(home, "terraform-provider-testbed", "vm"), "the `folder` of the machines' image")
	machines := flag.Int("machines", vmtest.MaxMachines, "how many machines")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: vmlab [-cache FOLDER] [-machines N] -- COMMAND [ARGUMENTS]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := vmtest.Run(ctx, *cache, *machines, flag.Args())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		stop()
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vmlab: %v\n", err)
		os.Exit(1)
	}
}
