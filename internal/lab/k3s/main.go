// Command k3s stands in for k3s on machines that cannot download it.
//
// It is built from Go modules alone: Kubernetes' own programs and kine in one
// file, together with Debian's containerd, runc and CNI plugins. It honours the
// part of k3s's command line, files and folders that a cluster of one server
// and agents uses, and names what it does not have: traefik, servicelb,
// metrics-server, local-storage and the network policy controller.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/lab/server"
)

const usage = `k3s is a stand-in for k3s, built from Go modules.

Usage:
  k3s server [--KEY VALUE ...]   run one Kubernetes server and node
  k3s agent [--KEY VALUE ...]    run a further node
  k3s kubectl ...                kubectl with the cluster's administrator
  k3s ctr ...                    containerd's client with the cluster's images
  k3s COMPONENT ...              one of %s
  k3s --version
`

func main() {
	args := os.Args[1:]
	if name := filepath.Base(os.Args[0]); name == "kubectl" || name == "ctr" {
		args = append([]string{name}, args...)
	}
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "k3s:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	switch name {
	case "server":
		return serve(args, server.Load, server.Run)
	case "agent":
		return serve(args, server.LoadAgent, server.RunAgent)
	case "kubectl":
		return runKubectl(args)
	case "ctr":
		return runCtr(args)
	case "--version", "-v", "version":
		fmt.Printf("k3s version %s (stand-in built from Go modules)\ngo version %s\n", server.Version, runtime.Version())
		return nil
	case "", "help", "--help", "-h":
		fmt.Printf(usage, strings.Join(componentNames(), ", "))
		return nil
	}
	if component, ok := components[name]; ok {
		return component(args)
	}
	return fmt.Errorf("%q is not a command of this stand-in for k3s; it has server, agent, kubectl, ctr and %s",
		name, strings.Join(componentNames(), ", "))
}

func serve(args []string, load func([]string, func(string) string) (server.Config, error), run func(context.Context, server.Config, io.Writer) error) error {
	config, err := load(args, os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return run(ctx, config, os.Stderr)
}

// runKubectl gives kubectl the administrator's kubeconfig unless the caller
// names another one.
func runKubectl(args []string) error {
	named := slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=")
	})
	if !named && os.Getenv("KUBECONFIG") == "" {
		if err := os.Setenv("KUBECONFIG", server.KubeconfigPath); err != nil {
			return err
		}
	}
	return kubectl(args)
}

// runCtr becomes containerd's own client.
func runCtr(args []string) error {
	path, err := exec.LookPath("ctr")
	if err != nil {
		return fmt.Errorf("find ctr, which Debian's package containerd has: %w", err)
	}
	argv := append([]string{"ctr", "--address", server.ContainerdSocket, "--namespace", "k8s.io"}, args...)
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, argv, os.Environ()))
}
