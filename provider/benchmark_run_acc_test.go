package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

const runResource = "testbed_benchmark_run.this"

// runTestbed is a cluster on one of two hosts with a function, and a link.
func runTestbed(dataDir string) string {
	return providerConfig(dataDir) + fmt.Sprintf(`
resource "testbed_network" "wan" {
  name = "wan"
  cidr = "198.18.31.0/24"
}

resource "testbed_local_host" "edge" {
  name     = "edge"
  networks = [{ network = testbed_network.wan.name, address = "198.18.31.1" }]
}

resource "testbed_local_host" "cloud" {
  name     = "cloud"
  networks = [{ network = testbed_network.wan.name, address = "198.18.31.2" }]
}

resource "testbed_link" "this" {
  network = testbed_network.wan.name
  between = [testbed_local_host.edge.url, testbed_local_host.cloud.url]
  profile = jsonencode({ rtt = "4ms" })
}

resource "testbed_k3s_cluster" "edge" {
  name          = "edge"
  servers       = [{ host = testbed_local_host.edge.url, node_ip = "198.18.31.1", interface = "eth0" }]
  binary        = { source = %q }
  airgap_images = [%q]
}

resource "testbed_function" "hello" {
  cluster = testbed_k3s_cluster.edge.url
  name    = "hello-world"
  builtin = "hello-world"
}
`, os.Getenv("TESTBED_K3S_BINARY"), os.Getenv("TESTBED_K3S_AIRGAP_IMAGES"))
}

// run is a short run on that testbed, with further lines.
func run(lines ...string) string {
	return `
resource "testbed_benchmark_run" "this" {
  name      = "short"
  client    = { cluster = testbed_k3s_cluster.edge.url }
  functions = { hello = {} }
  arms = {
    direct = { urls = { hello = testbed_function.hello.node_port_url } }
    name   = { urls = { hello = testbed_function.hello.url } }
  }
  scenarios = {
    local = { profiles = { (testbed_link.this.id) = jsonencode({ rtt = "0ms" }) } }
    edge  = { profiles = { (testbed_link.this.id) = jsonencode({ rtt = "10ms" }) } }
  }
  requests = 6
  blocks   = 2
  # A test may run on a busy machine.
  verify = { packets = 20, rtt_tolerance = "50ms" }
  ` + strings.Join(lines, "\n  ") + `
}
`
}

func TestAccBenchmarkRun(t *testing.T) {
	preCheck(t)
	for _, name := range []string{"TESTBED_K3S_BINARY", "TESTBED_K3S_AIRGAP_IMAGES"} {
		if os.Getenv(name) == "" {
			t.Fatal(name + " is not set; make test sets it")
		}
	}
	dataDir, results := t.TempDir(), t.TempDir()
	base := runTestbed(dataDir)
	inResults := fmt.Sprintf("results_dir = %q", results)
	// runs counts the folders of runs.
	runs := func(want int) resource.TestCheckFunc {
		return func(*terraform.State) error {
			found, err := filepath.Glob(filepath.Join(results, "short-*", bench.SamplesFile))
			if err == nil && len(found) != want {
				err = fmt.Errorf("there are the samples of %d runs, want %d", len(found), want)
			}
			return err
		}
	}
	linkIsBack := func(*terraform.State) error {
		found, err := link.Links{Data: datadir.Dir(dataDir)}.Observe(t.Context(), link.Link{Network: "wan", A: "edge", B: "cloud"})
		if err == nil && found.Profile.JSON() != `{"delay":"2ms"}` {
			err = fmt.Errorf("after the run the link is %s", found.Profile.JSON())
		}
		return err
	}
	expect := func(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(runResource, action)}}
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		CheckDestroy:             runs(1), // of the first one, which is kept
		Steps: []resource.TestStep{
			{
				Config: base + run(inResults),
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PreApply:             []plancheck.PlanCheck{plancheck.ExpectResourceAction(runResource, plancheck.ResourceActionCreate)},
					PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
				},
				Check: resource.ComposeTestCheckFunc(linkIsBack, runs(1)),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(runResource, tfjsonpath.New("results"), knownvalue.ListSizeExact(8)),
					statecheck.ExpectKnownValue(runResource, tfjsonpath.New("comparisons"), knownvalue.ListSizeExact(4)),
					statecheck.ExpectKnownValue(runResource, tfjsonpath.New("results").AtSliceIndex(0), knownvalue.ObjectPartial(map[string]knownvalue.Check{
						"function": knownvalue.StringExact("hello"), "scenario": knownvalue.StringExact("edge"),
						"connection": knownvalue.StringExact("reuse"), "arm": knownvalue.StringExact("direct"),
						"count": knownvalue.Int64Exact(6), "errors": knownvalue.Int64Exact(0), "median_ms": knownvalue.NotNull(), "p90_ms": knownvalue.Null(),
					})),
				},
			},
			{ // nothing is measured again
				Config:           base + run(inResults, `timeouts = { create = "30m" }`),
				ConfigPlanChecks: expect(plancheck.ResourceActionUpdate),
				Check:            runs(1),
			},
			{ // a claim is held against what was measured
				Config:           base + run(inResults, `expect = { claim = { scenario = "edge", max_median_ms = 0.001 } }`),
				ConfigPlanChecks: expect(plancheck.ResourceActionUpdate),
				ExpectError:      wrapped(`Expectation Not Met.*does not meet the expectation "claim".*scenario "edge".*should be at most 0.001 ms: it is not.*The results are kept`),
			},
			{
				Config:           base + run(inResults, `expect = { claim = { scenario = "edge", max_median_ms = 60000 } }`),
				ConfigPlanChecks: expect(plancheck.ResourceActionUpdate),
				Check:            runs(1),
			},
			{ // a run that fails its claim is kept, and made again
				Config:           base + run(inResults, "keep_results = false", `triggers = { attempt = "2" }`, `expect = { claim = { arm = "name", max_overhead_percent = 5 } }`),
				ConfigPlanChecks: expect(plancheck.ResourceActionDestroyBeforeCreate),
				ExpectError:      wrapped(`Expectation Not Met.*the interval has no such end. More blocks, 5 at least`),
			},
			{
				PreConfig: func() {
					if err := runs(2)(nil); err != nil {
						t.Error(err)
					}
				},
				Config:           base + run(inResults, "keep_results = false", `triggers = { attempt = "2" }`),
				ConfigPlanChecks: expect(plancheck.ResourceActionDestroyBeforeCreate),
				Check:            resource.ComposeTestCheckFunc(linkIsBack, runs(2)),
			},
			{ // the record outlives its samples
				PreConfig: func() {
					second, err := filepath.Glob(filepath.Join(results, "short-*", bench.SamplesFile))
					if err == nil && len(second) == 2 {
						err = os.Remove(second[1])
					}
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Error(err)
					}
				},
				Config:           base + run(inResults, "keep_results = false", `triggers = { attempt = "2" }`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				Config:      base + strings.ReplaceAll(run(inResults, `triggers = { attempt = "3" }`), "testbed_function.hello.url", `"http://198.18.31.1:1"`),
				ExpectError: wrapped(`Unable to Run Benchmark.*arm "name" does not reach function "hello" at http://198.18.31.1:1`),
			},
			{Config: base, Check: linkIsBack},
			{Config: base + strings.ReplaceAll(run(inResults), "(testbed_link.this.id)", `"wan/edge/moon"`), ExpectError: wrapped(`wan/edge/moon`)},
		},
	})
}
