// Command terraform-provider-testbed serves the provider to Terraform and
// OpenTofu.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/terraform-testbed/terraform-provider-testbed/provider"
)

// version is set by the release build.
var version = "dev"

func main() {
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
