package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/nebula"
)

// machines are the hosts of the overlay's tests.
var machines = `
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.0.0/24"
}
` + machine("lighthouse", "198.18.0.2") + machine("edge", "198.18.0.11") + machine("cloud", "198.18.0.12")

func machine(name, address string) string {
	return fmt.Sprintf(`
resource "testbed_local_host" %[1]q {
  name     = %[1]q
  networks = [{ network = testbed_network.wan.name, address = %[2]q }]
}
`, name, address)
}

const lighthouse = `
resource "testbed_nebula_lighthouse" "this" {
  host     = testbed_local_host.lighthouse.url
  ca       = testbed_nebula_ca.lab.id
  network  = "198.19.0.1/24"
  underlay = "198.18.0.2"
}
`

func ca(groups string) string {
	return `
resource "testbed_nebula_ca" "lab" {
  name     = "lab"
  networks = ["198.19.0.0/24"]
  groups   = ` + groups + `
}
`
}

func node(name, address, more string) string {
	return fmt.Sprintf(`
resource "testbed_nebula_node" %[1]q {
  host        = testbed_local_host.%[1]s.url
  ca          = testbed_nebula_ca.lab.id
  network     = "%[2]s/24"
  lighthouses = [testbed_nebula_lighthouse.this.endpoint]
  %[3]s
}
`, name, address, more)
}

const (
	nebulaLighthouse = "testbed_nebula_lighthouse.this"
	nebulaEdge       = "testbed_nebula_node.edge"
	nebulaCloud      = "testbed_nebula_node.cloud"
)

// on returns a host of the testbed, as its owner could reach it.
func on(t *testing.T, dataDir, name string) host.Host {
	t.Helper()
	h, err := local.NewOpener(dataDir).Open(t.Context(), local.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// output runs a program on a host and returns what it wrote.
func output(t *testing.T, h host.Host, argv ...string) string {
	t.Helper()
	out, err := h.Run(t.Context(), host.Command{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out.Stdout))
}

// pings checks that packets pass through the overlay.
func pings(t *testing.T, dataDir string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		t.Helper()
		t.Log(output(t, on(t, dataDir, "edge"), "ping", "-c", "3", "-i", "0.2", "-W", "5", "198.19.0.12"))
		return nil
	}
}

// device identifies the overlay device of a host: another one has another
// index or belongs to another process.
func device(t *testing.T, dataDir, name string) string {
	t.Helper()
	h := on(t, dataDir, name)
	service, err := h.Service(t.Context(), "nebula")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(service.PID, output(t, h, "cat", "/sys/class/net/nebula1/ifindex"))
}

func action(address string, kind plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, kind)}}
}

func TestAccNebula(t *testing.T) {
	preCheck(t)
	dataDir := filepath.Join(t.TempDir(), "d")
	config := func(groups, cloud string) string {
		return providerConfig(dataDir) + machines + ca(groups) + lighthouse + node("edge", "198.19.0.11", "") + node("cloud", "198.19.0.12", cloud)
	}
	both := `["k3s", "cloud"]`
	const walled = `firewall = {
    inbound  = [{ proto = "icmp", groups = ["k3s"] }]
    outbound = [{ host = "any" }]
  }`
	fingerprint := statecheck.CompareValue(compareDiffer)
	cloudFingerprint := func() []statecheck.StateCheck {
		return []statecheck.StateCheck{fingerprint.AddStateValue(nebulaCloud, tfjsonpath.New("fingerprint"))}
	}
	var before string

	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy: func(*terraform.State) error {
			return gone(dataDir)
		},
		Steps: []resource.TestStep{
			{
				Config: config(both, ""),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("address"), knownvalue.StringExact("198.19.0.11")),
					plancheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("config"), knownvalue.StringRegexp(regexp.MustCompile("198.18.0.2:4242"))),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("id"), knownvalue.StringExact("local://edge")),
					statecheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("name"), knownvalue.StringExact("edge")),
					statecheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("device"), knownvalue.StringExact("nebula1")),
					statecheck.ExpectKnownValue(nebulaEdge, tfjsonpath.New("up"), knownvalue.Bool(true)),
					cloudFingerprint()[0],
				},
				Check: resource.ComposeTestCheckFunc(pings(t, dataDir), noPrivateKey, func(*terraform.State) error {
					if got := output(t, on(t, dataDir, "edge"), "stat", "-c", "%a %U", "/etc/nebula/host.key"); got != "600 root" {
						return fmt.Errorf("the private key has mode and owner %q", got)
					}
					return nil
				}),
			},
			{
				Config:           config(both, ""),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				PreConfig:         func() { before = device(t, dataDir, "cloud") },
				Config:            config(both, `groups = ["k3s"]`),
				ConfigPlanChecks:  action(nebulaCloud, plancheck.ResourceActionUpdate),
				ConfigStateChecks: cloudFingerprint(),
				Check: resource.ComposeTestCheckFunc(pings(t, dataDir), func(*terraform.State) error {
					if after := device(t, dataDir, "cloud"); after != before {
						return fmt.Errorf("the overlay device changed from %s to %s", before, after)
					}
					return nil
				}),
			},
			{
				Config:            config(both, `groups = ["k3s"]`+"\n"+`rotate = "2"`),
				ConfigPlanChecks:  action(nebulaCloud, plancheck.ResourceActionUpdate),
				ConfigStateChecks: cloudFingerprint(),
				Check: func(*terraform.State) error {
					if after := device(t, dataDir, "cloud"); after != before {
						return fmt.Errorf("the overlay device changed from %s to %s", before, after)
					}
					return nil
				},
			},
			{
				ResourceName:                         nebulaCloud,
				ImportState:                          true,
				ImportStateId:                        "local://cloud",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "id",
				ImportStateVerifyIgnore:              []string{"rotate"},
			},
			{
				ResourceName:            nebulaLighthouse,
				ImportState:             true,
				ImportStateId:           "local://lighthouse",
				ImportStateVerify:       true,
				ImportStateVerifyIgnore: []string{"underlay", "endpoint"},
			},
			{
				ResourceName:  nebulaLighthouse,
				ImportState:   true,
				ImportStateId: "local://edge",
				ExpectError:   wrapped("is not a lighthouse. Import it as testbed_nebula_node"),
			},
			{ // a firewall that lets in a group that the peer is not in
				PreConfig: func() { before = device(t, dataDir, "cloud") },
				Config:    config(both, walled),
				Check: func(*terraform.State) error {
					_, err := on(t, dataDir, "edge").Run(t.Context(), host.Command{Argv: []string{"ping", "-c", "1", "-W", "2", "198.19.0.12"}})
					if err == nil {
						return errors.New("the firewall let a ping through")
					}
					return nil
				},
			},
			{ // and now is, as its peers learn within seconds
				Config: strings.Replace(config(both, walled), "host.edge.url", "host.edge.url\n  groups = [\"k3s\"]", 1),
				Check: func(*terraform.State) error {
					started := time.Now()
					out, err := on(t, dataDir, "edge").Run(t.Context(), host.Command{Argv: []string{"ping", "-i", "0.2", "-W", "1", "-c", "1", "-w", "30", "198.19.0.12"}})
					t.Logf("the firewall knew the group after %s: %s", time.Since(started).Round(time.Millisecond), out.Stdout)
					return err
				},
			},
			{ // changed by hand
				PreConfig: func() {
					if after := device(t, dataDir, "cloud"); after != before {
						t.Errorf("the overlay device changed from %s to %s", before, after)
					}
					h := on(t, dataDir, "cloud")
					text, err := h.Read(t.Context(), nebula.Dir+"/config.yml")
					if err != nil {
						t.Fatal(err)
					}
					text = bytes.Replace(text, []byte("mtu: 1300"), []byte("mtu: 1200"), 1)
					if err := h.Write(t.Context(), nebula.Dir+"/config.yml", 0o644, bytes.NewReader(text)); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config(both, ""),
				ConfigPlanChecks: action(nebulaCloud, plancheck.ResourceActionUpdate),
				Check: resource.ComposeTestCheckFunc(pings(t, dataDir),
					resource.TestMatchResourceAttr(nebulaCloud, "config", regexp.MustCompile("mtu: 1300"))),
			},
			{ // the host lost its key
				PreConfig: func() {
					if err := on(t, dataDir, "cloud").Remove(t.Context(), nebula.Dir+"/host.key"); err != nil {
						t.Fatal(err)
					}
				},
				Config:            config(both, ""),
				ConfigPlanChecks:  action(nebulaCloud, plancheck.ResourceActionUpdate),
				ConfigStateChecks: cloudFingerprint(),
				Check:             pings(t, dataDir),
			},
			{ // the service is gone
				PreConfig: func() {
					if err := on(t, dataDir, "edge").StopService(t.Context(), "nebula"); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config(both, ""),
				ConfigPlanChecks: action(nebulaEdge, plancheck.ResourceActionCreate),
				Check:            pings(t, dataDir),
			},
			{ // the lighthouse is changed in place
				PreConfig:        func() { before = device(t, dataDir, "lighthouse") },
				Config:           strings.Replace(config(both, ""), "host.lighthouse.url", "host.lighthouse.url\n  groups   = [\"k3s\"]", 1),
				ConfigPlanChecks: action(nebulaLighthouse, plancheck.ResourceActionUpdate),
				Check: func(*terraform.State) error {
					if after := device(t, dataDir, "lighthouse"); after != before {
						return fmt.Errorf("the overlay device changed from %s to %s", before, after)
					}
					return nil
				},
			},
			{ // its service is gone
				PreConfig: func() {
					if err := on(t, dataDir, "lighthouse").StopService(t.Context(), "nebula"); err != nil {
						t.Fatal(err)
					}
				},
				Config:           config(both, ""),
				ConfigPlanChecks: action(nebulaLighthouse, plancheck.ResourceActionCreate),
				Check:            pings(t, dataDir),
			},
			{ // another CA
				Config: config(`["k3s"]`, ""),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(nebulaCA, plancheck.ResourceActionReplace),
					plancheck.ExpectResourceAction(nebulaLighthouse, plancheck.ResourceActionUpdate),
					plancheck.ExpectResourceAction(nebulaCloud, plancheck.ResourceActionUpdate),
				}},
				ConfigStateChecks: cloudFingerprint(),
				Check:             pings(t, dataDir),
			},
			{
				Config:      config(`["k3s"]`, `groups = ["cloud"]`),
				ExpectError: wrapped(`"cloud" is no group of CA "lab"`),
			},
		},
	})
}

// A node of a lighthouse that does not answer, or is none, is not up, and the
// error says which of the two.
func TestAccNebulaLighthouseThatIsNone(t *testing.T) {
	preCheck(t)
	dataDir := filepath.Join(t.TempDir(), "d")
	cloud := func(overlay, underlay, timeout string) string {
		return providerConfig(dataDir) + machines + ca(`["k3s"]`) + lighthouse + node("edge", "198.19.0.11", "") + fmt.Sprintf(`
resource "testbed_nebula_node" "cloud" {
  host        = testbed_local_host.cloud.url
  ca          = testbed_nebula_ca.lab.id
  network     = "198.19.0.12/24"
  lighthouses = [{ overlay = %q, underlay = %q }]
  timeouts    = { create = %q }
  depends_on  = [testbed_nebula_node.edge]
}
`, overlay, underlay, timeout)
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dataDir) },
		Steps: []resource.TestStep{
			{
				Config:      cloud("198.19.0.1", "198.18.0.99:4242", "5s"),
				ExpectError: wrapped(`lighthouse 198.19.0.1 does not answer: there is no tunnel to it: .*the daemon's last lines:`),
			},
			{
				Config:      cloud("198.19.0.11", "198.18.0.11:4242", "1m"),
				ExpectError: wrapped(`198.19.0.11 has a tunnel but answers no question for an address: it is not a lighthouse; reference a testbed_nebula_lighthouse instead`),
			},
			{
				Config: cloud("198.19.0.1", "198.18.0.2:4242", "1m"),
				Check:  pings(t, dataDir),
			},
		},
	})
}

// A provider that is killed at any moment of a creation leaves what the next
// apply goes on from.
func TestAccNebulaKilled(t *testing.T) {
	preCheck(t)
	dataDir := filepath.Join(t.TempDir(), "d")
	config := providerConfig(dataDir) + machines + ca(`["k3s"]`) + lighthouse
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             func(*terraform.State) error { return gone(dataDir) },
		Steps: []resource.TestStep{
			{Config: config},
			{
				PreConfig: func() {
					edge := on(t, dataDir, "edge")
					overlay := nebula.NewOverlay(time.Now)
					life, killed := 15*time.Millisecond, true
					for ; killed; life += 10 * time.Millisecond {
						if err := overlay.Remove(t.Context(), edge); err != nil {
							t.Fatal(err)
						}
						killed = killedAfter(t, dataDir, life)
						if err := applyEdge(t, dataDir); err != nil {
							t.Fatalf("after a kill at %s: %v", life, err)
						}
					}
					t.Logf("an apply that was not killed took up to %s", life)
					if err := overlay.Remove(t.Context(), edge); err != nil {
						t.Fatal(err)
					}
					killedAfter(t, dataDir, life*3/4)
				},
				Config: config + node("edge", "198.19.0.11", "") + node("cloud", "198.19.0.12", ""),
				Check:  pings(t, dataDir),
			},
			{
				Config:           config + node("edge", "198.19.0.11", "") + node("cloud", "198.19.0.12", ""),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
		},
	})
}

// killedAfter runs applyEdge in a process of its own and reports whether it
// had to be killed after that time.
func killedAfter(t *testing.T, dataDir string, life time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	helper := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperNebulaApply$")
	helper.Env = append(os.Environ(), "TESTBED_HELPER_DATA_DIR="+dataDir)
	out, err := helper.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return err != nil
}

// TestHelperNebulaApply is the process that killedAfter kills.
func TestHelperNebulaApply(t *testing.T) {
	dataDir := os.Getenv("TESTBED_HELPER_DATA_DIR")
	if dataDir == "" {
		t.Skip("for TestAccNebulaKilled only")
	}
	if err := applyEdge(t, dataDir); err != nil {
		t.Fatal(err)
	}
}

// applyEdge makes the host edge the node that the configurations have there.
func applyEdge(t *testing.T, dataDir string) error {
	authority, err := nebula.LoadCA(nebula.KeyFile(dataDir, "lab"))
	if err != nil {
		return err
	}
	return nebula.NewOverlay(time.Now).Apply(t.Context(), on(t, dataDir, "edge"), authority, nebula.Spec{
		Identity:    nebula.Identity{Name: "edge", Network: netip.MustParsePrefix("198.19.0.11/24")},
		Lighthouses: []nebula.Lighthouse{{Overlay: netip.MustParseAddr("198.19.0.1"), Underlay: "198.18.0.2:4242"}},
		Port:        4242, Device: "nebula1", MTU: 1300,
	})
}
