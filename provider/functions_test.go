package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
)

const testbedProvided = `
terraform {
  required_providers {
    testbed = { source = "hashicorp/testbed" }
  }
}
`

func TestFunctions(t *testing.T) {
	for call, want := range map[string]knownvalue.Check{
		`bytes("100KiB")`: knownvalue.Int64Exact(102400),
		`bytes("1.5MB")`:  knownvalue.Int64Exact(1500000),
		`bandwidth_delay_product("100mbit", "40ms")`: knownvalue.Int64Exact(500000),
		`bandwidth_delay_product("1gbit", "0ms")`:    knownvalue.Int64Exact(0),
		`percentile([3, 1, 2], 50)`:                  knownvalue.Float64Exact(2),
		`percentile([1, 2, 3, 4, 5], 90)`:            knownvalue.Float64Exact(4.6),
	} {
		t.Run(call, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:            testbedProvided + "output \"this\" {\n  value = provider::testbed::" + call + "\n}\n",
					ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("this", want)},
				}},
			})
		})
	}
}

func TestFunctionsRefuse(t *testing.T) {
	for call, want := range map[string]string{
		`bytes("100")`:                           `"100" has no unit; write a number with B`,
		`bandwidth_delay_product("100", "40ms")`: `"100" has no unit; write for example`,
		`bandwidth_delay_product("1mbit", "40")`: `"40" has no unit`,
		`percentile([], 50)`:                     `there are no numbers`,
		`percentile([1], 101)`:                   `write a number from 0 to 100`,
	} {
		t.Run(call, func(t *testing.T) {
			resource.UnitTest(t, resource.TestCase{
				ProtoV6ProviderFactories: factories(),
				Steps: []resource.TestStep{{
					Config:      testbedProvided + "output \"this\" {\n  value = provider::testbed::" + call + "\n}\n",
					ExpectError: wrapped(want),
				}},
			})
		})
	}
}
