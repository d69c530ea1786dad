package provider

import (
	"fmt"

	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh/sshtest"
)

// sshConfig is the provider block of a test that logs in with the key alone.
func sshConfig(dataDir string, key sshtest.Key, more string) string {
	return fmt.Sprintf(`
provider "testbed" {
  data_dir = %q
  ssh = {
    private_key       = %q
    agent             = false
    config_file       = ""
    known_hosts_files = []
    timeout           = "60s"
    %s
  }
}
`, dataDir, key.PEM, more)
}

func TestAccSSHHost(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	server.AddUser(t, "pi", key, "USER ALL=(ALL) NOPASSWD: ALL")
	factories := factoriesDialling(sshtest.Dialer(server))
	const name = "testbed_ssh_host.edge"
	config := func(lines ...string) string {
		return sshConfig(dir, key, "") + "resource \"testbed_ssh_host\" \"edge\" {\n  address = \"edge\"\n  user = \"pi\"\n" + strings.Join(lines, "\n") + "\n}\n"
	}
	pin := fmt.Sprintf("host_key = %q", server.Key.Line())
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories,
		Steps: []resource.TestStep{
			{
				Config:      config(),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`(?s)host\s+key\s+of\s+edge:22\s+is\s+not\s+known.*SHA256:`),
			},
			{
				Config:      config(fmt.Sprintf("host_key = %q", key.Line())),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(`(?s)has\s+changed.*SHA256:.*SHA256:`),
			},
			{
				// The machine's kernel has no sch_netem here, or the host no
				// controllers; whatever is missing is in one error.
				Config: config(pin),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(name, tfjsonpath.New("url"), knownvalue.StringExact("ssh://pi@edge")),
					statecheck.ExpectKnownValue(name, tfjsonpath.New("hostname"), knownvalue.StringExact("edge")),
				},
			},
			{
				// What others open by the URL is reached as the resource says.
				Config: config(pin) + "data \"testbed_host\" \"edge\" {\n  url = testbed_ssh_host.edge.url\n}\n",
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("data.testbed_host.edge", tfjsonpath.New("init"), knownvalue.StringExact("testbed-agent")),
					statecheck.ExpectKnownValue("data.testbed_host.edge", tfjsonpath.New("tcp_ports"), knownvalue.ListExact([]knownvalue.Check{knownvalue.Int64Exact(22)})),
				},
			},
			{
				Config: config(pin, `on_destroy_unreachable = "abandon"`, `requires = ["overlay"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(name, plancheck.ResourceActionUpdate),
				}},
			},
			{
				Config:           config(pin, `on_destroy_unreachable = "abandon"`, `requires = ["overlay"]`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				ResourceName: name, ImportState: true, ImportStateId: "pi@edge", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"requires"},
			},
		},
		CheckDestroy: func(*terraform.State) error {
			if left := server.Run(t, "sh", "-c", "ls -d /var/lib/testbed-agent /run/testbed-agent.lock /home/pi/.testbed* 2>/dev/null || true"); left != "" {
				return fmt.Errorf("left on the host: %s", left)
			}
			if _, err := os.Stat(filepath.Join(dir, "ssh")); err == nil {
				return fmt.Errorf("%s/ssh is still there", dir)
			}
			return nil
		},
	})
}

// TestSSHHostValues wants an error at each wrong value, before anything is
// connected to.
func TestSSHHostValues(t *testing.T) {
	key := sshtest.NewKey(t)
	for attributes, want := range map[string]string{
		`address = "pi@edge"`:                      `no\s+address\s+of\s+a\s+host`,
		`address = "ssh://edge"`:                   `no\s+address\s+of\s+a\s+host`,
		"address = \"edge\"\nport = 70000":         `between 1 and 65535`,
		"address = \"edge\"\nhost_key = \"abc\"":   `neither\s+a\s+public\s+key`,
		"address = \"edge\"\nbastion = \"a b\"":    `invalid character`,
		"address = \"edge\"\nrequires = [\"gpu\"]": `"overlay"\s+"link"\s+"cluster"`,
	} {
		t.Run(attributes, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factoriesDialling(refuse),
				Steps: []resource.TestStep{{
					Config:      sshConfig(t.TempDir(), key, "") + "resource \"testbed_ssh_host\" \"edge\" {\n" + attributes + "\n}\n",
					PlanOnly:    true,
					ExpectError: regexp.MustCompile(want),
				}},
			})
		})
	}
}

// TestSSHHostAway plans a host that does not answer yet, and fails to make it.
func TestSSHHostAway(t *testing.T) {
	config := sshConfig(t.TempDir(), sshtest.NewKey(t), "") + "resource \"testbed_ssh_host\" \"edge\" {\n  address = \"edge\"\n}\n"
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factoriesDialling(refuse),
		Steps: []resource.TestStep{
			{Config: config, PlanOnly: true, ExpectNonEmptyPlan: true},
			{Config: config, ExpectError: regexp.MustCompile(`(?s)Unable\s+to\s+Create\s+Host.*reach\s+edge:22.*refused.*See\s+that\s+the\s+host\s+is\s+running`)},
		},
	})
}

// TestAccSSHHostGone destroys hosts that do not answer any more.
func TestAccSSHHostGone(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	key := sshtest.NewKey(t)
	server := sshtest.Start(t, local.NewOpener(t.TempDir()), "edge", key)
	config := func(policy string) string {
		return sshConfig(dir, key, "check_host_keys = false") + fmt.Sprintf(`
resource "testbed_ssh_host" "edge" {
  address                = "edge"
  user                   = "root"
  on_destroy_unreachable = %q
}
`, policy)
	}
	stop := func() {
		if err := server.Host.StopService(t.Context(), "sshd"); err != nil {
			t.Error(err)
		}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factoriesDialling(sshtest.Dialer(server)),
		Steps: []resource.TestStep{
			{Config: config("fail")},
			{
				PreConfig: stop, Config: config("fail"), Destroy: true,
				ExpectError: regexp.MustCompile(`(?s)reach\s+edge:22.*on_destroy_unreachable\s+=\s+"abandon"`),
			},
			{PreConfig: func() { server.Configure(t) }, Config: config("abandon")},
			{PreConfig: stop, Config: config("abandon"), Destroy: true},
		},
	})
	if _, err := os.Stat(filepath.Join(dir, "ssh")); err == nil {
		t.Errorf("%s/ssh is still there", dir)
	}
}
