// Command terraform-provider-testbed serves the provider to Terraform and
// OpenTofu. With the argument "report" it makes a report of results folders
// instead, and with "new" it writes an experiment for hosts that are reached by
// SSH, without either.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/scaffold"
	"github.com/terraform-testbed/terraform-provider-testbed/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case "report":
			err = report.Command(os.Args[2:], os.Stdout)
		case "new":
			err = newExperiment(os.Args[2:])
		default:
			serve()
			return
		}
		log.SetFlags(0)
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	serve()
}

// newExperiment writes an experiment; an interrupt ends it.
func newExperiment(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hosts := provider.SSHHosts()
	return errors.Join(scaffold.Command(ctx, args, os.Stdout, hosts), hosts.Close())
}

func serve() {
	debug := flag.Bool("debug", false, "serve until interrupted, for a debugger to attach")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(version), providerserver.ServeOpts{
		Address: "registry.terraform.io/terraform-testbed/testbed",
		Debug:   *debug,
	})
	if err != nil {
		log.Fatal(err)
	}
}
