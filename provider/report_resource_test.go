package provider

import (
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

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report/reporttest"
)

// reportOf is the configuration of a report; more are attributes beside it.
func reportOf(out, runs string, more ...string) string {
	return `
resource "testbed_report" "this" {
  runs       = [` + runs + `]
  output_dir = "` + out + `"
  ` + strings.Join(more, "\n  ") + `
}
`
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	made := reporttest.NewRun(t)
	delete(made.Plan.Functions, "payload-echo")
	delete(made.Plan.Scenarios, "cloud")
	first := made.Write(t, filepath.Join(dir, "first"))
	made.Plan.Seed, made.Factor = 2, 1.1
	second := made.Write(t, filepath.Join(dir, "second"))
	out := filepath.Join(dir, "out")
	page := filepath.Join(out, "report.html")
	own := filepath.Join(out, "own.txt")

	action := func(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction("testbed_report.this", action)}}
	}
	contains := func(words string) resource.TestCheckFunc {
		return func(*terraform.State) error { return pageContains(t, page, words) }
	}
	one, two := reportOf(out, `"`+first+`"`), reportOf(out, `"`+first+`", "`+second+`"`, `title = "Two runs"`, `formats = ["html", "csv"]`)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config:           providerConfig(dir) + one,
				ConfigPlanChecks: action(plancheck.ResourceActionCreate),
				Check:            contains("<h1>response-time</h1>"),
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("testbed_report.this", tfjsonpath.New("html"), knownvalue.StringExact(page)),
					statecheck.ExpectKnownValue("testbed_report.this", tfjsonpath.New("files").AtMapKey("figures/response-time-hello-world.svg"),
						knownvalue.StringExact(filepath.Join(out, "figures", "response-time-hello-world.svg"))),
					statecheck.ExpectKnownValue("testbed_report.this", tfjsonpath.New("sha256").AtMapKey("results.csv"),
						knownvalue.StringRegexp(regexp.MustCompile(`^[0-9a-f]{64}$`))),
				},
			},
			{
				Config:           providerConfig(dir) + one,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{ // A file was changed.
				PreConfig: func() {
					if err := os.WriteFile(page, []byte("nothing"), 0o600); err != nil {
						t.Fatal(err)
					}
				},
				Config:           providerConfig(dir) + one,
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
				Check:            contains("<h1>response-time</h1>"),
			},
			{ // Another run and fewer formats: files that are no more part of it go, those of others stay.
				PreConfig: func() {
					if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
						t.Fatal(err)
					}
				},
				Config:           providerConfig(dir) + two,
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
				Check: resource.ComposeTestCheckFunc(contains("second against first"), func(*terraform.State) error {
					if _, err := os.Stat(filepath.Join(out, "figures")); err == nil {
						t.Error("the figures are still there")
					}
					return nil
				}),
			},
			{ // A folder holds another run than before.
				PreConfig:        func() { made.Plan.Seed = 3; made.Write(t, second) },
				Config:           providerConfig(dir) + two,
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
			},
			{ // A report outlives its runs.
				PreConfig: func() {
					if err := os.RemoveAll(second); err != nil {
						t.Fatal(err)
					}
				},
				Config:           providerConfig(dir) + two,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{ // Everything is gone.
				PreConfig: func() {
					made.Write(t, second)
					if err := os.Remove(page); err != nil {
						t.Fatal(err)
					}
				},
				Config:           providerConfig(dir) + two,
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
				Check:            contains("Two runs"),
			},
		},
		CheckDestroy: func(*terraform.State) error {
			left, err := os.ReadDir(out)
			if err != nil || len(left) != 1 || left[0].Name() != "own.txt" {
				t.Errorf("after destroy the folder holds %v (%v), want own.txt alone", left, err)
			}
			return nil
		},
	})
}

func pageContains(t *testing.T, page, words string) error {
	t.Helper()
	text, err := os.ReadFile(page)
	if err == nil && !strings.Contains(string(text), words) {
		t.Errorf("the page lacks %q", words)
	}
	return err
}

func TestReportRefuses(t *testing.T) {
	dir := t.TempDir()
	made := reporttest.NewRun(t)
	run := made.Write(t, filepath.Join(dir, "run"))
	made.Emulator = "sch_netem"
	other := made.Write(t, filepath.Join(dir, "other"))
	out := filepath.Join(dir, "out")
	for name, test := range map[string]struct{ config, want string }{
		"no run":          {reportOf(out, ``), `at least 1`},
		"twice":           {reportOf(out, `"`+run+`", "`+run+`"`), `duplicate`},
		"relative":        {reportOf("out", `"`+run+`"`), `it must be an absolute path, for example`},
		"format":          {reportOf(out, `"`+run+`"`, `formats = ["pdf"]`), `must be one of: \["html"`},
		"no folder":       {reportOf(out, `"`+dir+`/none"`), `Use the results_folder of a testbed_benchmark_run`},
		"other emulators": {reportOf(out, `"`+run+`", "`+other+`"`), `make a report for each`},
	} {
		t.Run(name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps:                    []resource.TestStep{{Config: providerConfig(dir) + test.config, ExpectError: wrapped(test.want)}},
			})
		})
	}
}
