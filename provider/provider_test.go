package provider

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// factories serve the provider under test inside the test process.
func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"testbed": providerserver.NewProtocol6WithError(New("test")()),
	}
}

// factoriesDialling serve the provider under test with another way of opening
// connections to hosts that are reached by SSH.
func factoriesDialling(dial func(ctx context.Context, network, address string) (net.Conn, error)) map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"testbed": providerserver.NewProtocol6WithError(&testbedProvider{version: "test", dial: dial}),
	}
}

// refuse is the way to hosts where nobody answers.
func refuse(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

// preCheck skips an acceptance test where the machine cannot run local hosts,
// and says why.
func preCheck(t *testing.T) {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("TF_ACC is not set; make test sets it")
	}
	if os.Geteuid() != 0 {
		t.Skip("local hosts need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("local hosts need /dev/net/tun: " + err.Error())
	}
}

// providerConfig is the provider block of a test whose testbed lives in a
// folder of its own.
func providerConfig(dataDir string) string {
	return "provider \"testbed\" {\n  data_dir = \"" + dataDir + "\"\n}\n"
}
