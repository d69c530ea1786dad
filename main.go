// Command terraform-provider-testbed serves the provider to Terraform and
// OpenTofu. With the argument "report" it makes a report of results folders
// instead, without either.
package main

import (
	"context"
	"flag"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report"
	"github.com/terraform-testbed/terraform-provider-testbed/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "report" {
		log.SetFlags(0)
		if err := report.Command(os.Args[2:], os.Stdout); err != nil {
			log.Fatal(err)
		}
		return
	}
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
