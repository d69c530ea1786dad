package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

const edge = "testbed_local_host.edge"

// localHostConfig is two hosts on a network.
func localHostConfig(dir, edgeNetworks string) string {
	return providerConfig(dir) + fmt.Sprintf(`
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.21.0/24"
}

resource "testbed_network" "lan" {
  name = "lan"
  cidr = "198.18.22.0/24"
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.21.2" }]
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = %s
}
`, edgeNetworks)
}

const (
	onWAN  = `[{ network = testbed_network.wan.name, address = "198.18.21.1" }]`
	onBoth = `[
    { network = testbed_network.lan.name, address = "198.18.22.1" },
    { network = testbed_network.wan.name, address = "198.18.21.11" },
  ]`
)

// onHost runs a command on a local host.
func onHost(dir, name string, argv ...string) error {
	h, err := local.NewOpener(dir).Open(context.Background(), local.URL(name))
	if err == nil {
		_, err = h.Run(context.Background(), host.Command{Argv: argv})
	}
	return err
}

func ping(dir, from, address string) resource.TestCheckFunc {
	return func(*terraform.State) error { return onHost(dir, from, "ping", "-c1", "-W2", address) }
}

func TestAccLocalHost(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	expect := func(checks ...plancheck.PlanCheck) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: checks}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is left: %w", dir, err)
			}
			return nil
		},
		Steps: []resource.TestStep{
			{
				Config: localHostConfig(dir, onWAN),
				ConfigPlanChecks: expect(
					plancheck.ExpectKnownValue(edge, tfjsonpath.New("url"), knownvalue.StringExact("local://edge")),
					plancheck.ExpectKnownValue(edge, tfjsonpath.New("hostname"), knownvalue.StringExact("edge")),
				),
				Check: ping(dir, "edge", "198.18.21.2"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(edge, tfjsonpath.New("kernel"), knownvalue.NotNull()),
					statecheck.ExpectKnownValue(edge, tfjsonpath.New("addresses"), knownvalue.MapExact(map[string]knownvalue.Check{"wan": knownvalue.StringExact("198.18.21.1")})),
				},
			},
			{
				Config:           localHostConfig(dir, onWAN),
				ConfigPlanChecks: expect(plancheck.ExpectEmptyPlan()),
			},
			{
				ResourceName:            edge,
				ImportState:             true,
				ImportStateId:           "edge",
				ImportStateVerify:       true,
				ImportStateVerifyIgnore: []string{"timeouts"},
			},
			{
				Config:           localHostConfig(dir, onBoth),
				ConfigPlanChecks: expect(plancheck.ExpectResourceAction(edge, plancheck.ResourceActionUpdate)),
				Check: resource.ComposeAggregateTestCheckFunc(
					ping(dir, "cloud", "198.18.21.11"),
					func(*terraform.State) error {
						return onHost(dir, "edge", "sh", "-c", "ip route get 198.19.0.1 | grep 'dev eth0' && getent ahosts edge | grep 198.18.21.11")
					},
				),
			},
			{
				// Someone takes the host off the network.
				PreConfig: func() {
					client, err := underlay.Open(datadir.Dir(dir), "wan")
					if err == nil {
						err = client.Detach(context.Background(), "edge")
					}
					if err != nil {
						t.Error(err)
					}
				},
				Config:           localHostConfig(dir, onBoth),
				ConfigPlanChecks: expect(plancheck.ExpectResourceAction(edge, plancheck.ResourceActionUpdate)),
				Check:            ping(dir, "cloud", "198.18.21.11"),
			},
			{
				// Someone kills the host.
				PreConfig: func() {
					if err := onHost(dir, "edge", "kill", "-TERM", "1"); err != nil && !errors.Is(err, host.ErrUnreachable) {
						t.Log(err)
					}
				},
				Config:           localHostConfig(dir, onWAN),
				ConfigPlanChecks: expect(plancheck.ExpectResourceAction(edge, plancheck.ResourceActionCreate)),
				Check:            ping(dir, "edge", "198.18.21.2"),
			},
			{
				Config:      localHostConfig(dir, `[{ network = testbed_network.wan.name, address = "198.18.22.1" }]`),
				ExpectError: regexp.MustCompile(`address\s+198.18.22.1\s+is\s+not\s+within\s+198.18.21.0/24`),
			},
			{
				Config:      localHostConfig(dir, `[{ network = testbed_network.wan.name, address = "198.18.21.2" }]`),
				ExpectError: regexp.MustCompile(`host\s+cloud\s+has\s+address\s+198.18.21.2\s+already`),
			},
			{
				Config:      localHostConfig(dir, onWAN) + "resource \"testbed_local_host\" \"twin\" {\n  name = \"edge\"\n}\n",
				ExpectError: regexp.MustCompile(`There\s+is\s+a\s+host\s+"edge"\s+in`),
			},
		},
	})
}

func TestLocalHostValidation(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"name": {
			`resource "testbed_local_host" "h" { name = "Edge_1" }`,
			`it must be 1 to 63 lower-case letters`,
		},
		"network twice": {
			`resource "testbed_local_host" "h" {
			   name     = "edge"
			   networks = [{ network = "wan", address = "198.18.0.1" }, { network = "wan", address = "198.18.0.2" }]
			 }`,
			`the host is on network "wan" already`,
		},
		"address": {
			`resource "testbed_local_host" "h" {
			   name     = "edge"
			   networks = [{ network = "wan", address = "198.18.0.300" }]
			 }`,
			`Invalid IP Address`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      providerConfig(t.TempDir()) + test.config,
					PlanOnly:    true,
					ExpectError: regexp.MustCompile(strings.ReplaceAll(test.want, " ", `\s+`)),
				}},
			})
		})
	}
}

// A host that cannot be what it shall be is an error on the attribute that is
// wrong, and leaves nothing that its state does not know.
func TestAccLocalHostThatCannotBe(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	base := providerConfig(dir) + `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.24.0/24"
}
`
	hosts := func(network string, addresses ...string) string {
		text := base
		for i, address := range addresses {
			text += fmt.Sprintf(`
resource "testbed_local_host" "h%d" {
  name     = "edge"
  networks = [{ network = %s, address = %q }]
}
`, i, network, address)
		}
		return text
	}
	onlyNetwork := func(*terraform.State) error {
		names, err := datadir.Dir(dir).Hosts()
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("hosts are left: %v", names)
		}
		return err
	}
	const wan = "testbed_network.wan.name"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dir) },
		Steps: []resource.TestStep{
			{Config: hosts(wan, "198.18.25.1"), ExpectError: wrapped(`address 198.18.25.1 is not within 198.18.24.0/24; choose one that is`)},
			{Config: hosts(wan, "198.18.24.255"), ExpectError: wrapped(`address 198.18.24.255 is the first or the last of 198.18.24.0/24, .* choose one between them`)},
			{Config: hosts(`"wlan"`, "198.18.24.1"), ExpectError: wrapped(`there is no network "wlan" in .*; use the name of a testbed_network`)},
			{Config: base, Check: onlyNetwork},
			{Config: hosts(wan, "198.18.24.1", "198.18.24.2"), ExpectError: wrapped(`There is a host "edge" in .* already, made by another resource of this configuration`)},
			{Config: base, Check: onlyNetwork},
		},
	})
}
