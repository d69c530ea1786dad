package provider

import (
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
)

const netemProfile = "testbed_netem_profile.this"

func netemProfileConfig(body string) string {
	return "resource \"testbed_netem_profile\" \"this\" {\n" + body + "\n}\n"
}

func TestNetemProfile(t *testing.T) {
	edge := netemProfileConfig(`
  rtt          = "10ms"
  jitter       = "1ms"
  distribution = "normal"
  loss         = { random = { percent = 0.08 } }
`)
	json := func(text string) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(netemProfile, tfjsonpath.New("json"), knownvalue.StringExact(text))
	}
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{
			{
				Config: edge,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectKnownValue(netemProfile, tfjsonpath.New("json"), knownvalue.StringRegexp(regexp.MustCompile(`"delay":"5ms"`))),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					json(`{"delay":"5ms","jitter":"1ms","distribution":"normal","loss":{"random":{"percent":0.08}}}`),
					statecheck.ExpectKnownValue(netemProfile, tfjsonpath.New("tc").AtMapKey("forward"), knownvalue.StringExact(
						"tc qdisc replace dev eth0 root netem limit 7500 delay 5ms 1ms distribution normal loss random 0.08%")),
					statecheck.ExpectKnownValue(netemProfile, tfjsonpath.New("effective").AtMapKey("forward_delay_ms"), knownvalue.Float64Exact(5)),
				},
			},
			{
				Config:           edge,
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
			},
			{
				Config: netemProfileConfig(`
  delay   = "5ms"
  rate    = "100mbit"
  seed    = 7
  reverse = { delay = "1ms", rate = "10mbit", loss = { gemodel = { p = 1, r = 10 } } }
`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(netemProfile, plancheck.ResourceActionUpdate),
				}},
				ConfigStateChecks: []statecheck.StateCheck{
					json(`{"forward":{"delay":"5ms","rate":"100mbit","seed":7},"reverse":{"delay":"1ms","loss":{"gemodel":{"p":1,"r":10,"one_minus_h":100,"one_minus_k":0}},"rate":"10mbit","seed":7}}`),
				},
			},
			{
				// A value that only apply tells is checked then.
				Config: `
resource "terraform_data" "delay" {
  input = "3ms"
}
` + netemProfileConfig(`delay = terraform_data.delay.output`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectUnknownValue(netemProfile, tfjsonpath.New("json")),
				}},
				ConfigStateChecks: []statecheck.StateCheck{json(`{"delay":"3ms"}`)},
			},
		},
	})
}

func TestNetemProfileInvalid(t *testing.T) {
	for _, test := range []struct{ name, body, attribute, text string }{
		{"rtt and delay", `
  rtt   = "10ms"
  delay = "5ms"`, "rtt", `not both`},
		{"jitter above delay", `
  delay  = "1ms"
  jitter = "2ms"`, "jitter", `lower the jitter or raise`},
		{"negative", `
  delay = "-5ms"`, "delay", `is negative`},
		{"unitless", `
  delay = "5"`, "delay", `has no unit; write for example "5ms"`},
		{"unitless rate", `
  rate = "100"`, "rate", `has no unit; write for example "100mbit"`},
		{"loss over 100", `
  loss = { random = { percent = 101 } }`, "percent", `from 0 to 100`},
		{"two models", `
  loss = { random = { percent = 1 }, gemodel = { p = 1 } }`, "loss", `exactly one of`},
		{"no model", `
  loss = {}`, "loss", `exactly one of`},
		{"reorder without delay", `
  reorder = 10`, "reorder", `set delay or rtt`},
		{"gap without reorder", `
  delay = "1ms"
  gap   = 5`, "gap", `set reorder`},
		{"distribution without jitter", `
  delay        = "1ms"
  distribution = "normal"`, "distribution", `set jitter or remove it`},
		{"unknown distribution", `
  delay        = "1ms"
  jitter       = "1ms"
  distribution = "gauss"`, "distribution", `write one of`},
		{"override", `
  delay   = "5ms"
  jitter  = "2ms"
  reverse = { jitter = "6ms" }`, "reverse", `lower the jitter or raise`},
		{"limit", `
  limit = 0`, "limit", `at least 1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      netemProfileConfig(test.body),
					PlanOnly:    true,
					ExpectError: regexp.MustCompile(`(?s)` + test.attribute + `.*` + wrapped(test.text).String()),
				}},
			})
		})
	}
}
