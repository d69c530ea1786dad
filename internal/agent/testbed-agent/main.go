// Command testbed-agent is the program that the testbed runs on hosts and in
// pods. Each subcommand is one role; the packages that implement them say what
// they do.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/cleanup"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent/supervisor"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/function/server"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s/sweep"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative/ingress"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link/probe"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link/shape"
	nebula "github.com/terraform-testbed/terraform-provider-testbed/internal/nebula/daemon"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay/daemon"
)

// command is one role of the agent. It ends when ctx does.
type command func(ctx context.Context, args []string) error

func commands() map[string]command {
	return map[string]command{
		"cleanup":   cleanup.Command,
		"ingress":   ingress.Command,
		"init":      supervisor.Init,
		"function":  server.Run,
		"k3s-sweep": sweep.Command,
		"probe":     probe.Command,
		"shape":     shape.Command,
		"underlay":  daemon.Command,
		"load":      load.Serve,
		"nebula":    nebula.Command,
		"serve":     supervisor.Serve,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	all := commands()
	names := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	if len(os.Args) < 2 {
		fmt.Fprintf(os.Stderr, "usage: testbed-agent COMMAND [ARGUMENTS]\ncommands: %s\n", names)
		os.Exit(2)
	}
	run, ok := all[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "testbed-agent: unknown command %q; the commands are: %s\n", os.Args[1], names)
		os.Exit(2)
	}
	if err := run(ctx, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "testbed-agent %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
