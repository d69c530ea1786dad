package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gatewayHops() []Hop {
	return []Hop{
		{Name: "client pod", Kind: HopClient},
		{Name: "Service hello-world", Kind: HopService, Protocol: HopTCP, Network: HopCluster},
		{Name: "gateway on edge", Kind: HopProxy, Protocol: HopTCP, Network: HopCluster},
		{Name: "NodePort on cloud", Kind: HopService, Protocol: HopMTLS, Network: HopOverlay},
		{Name: "gateway on cloud", Kind: HopProxy, Protocol: HopMTLS, Network: HopCluster},
		{Name: "Service hello-world on cloud", Kind: HopService, Protocol: HopTCP, Network: HopCluster},
		{Name: "function pod", Kind: HopFunction, Protocol: HopTCP, Network: HopCluster},
	}
}

func TestChain(t *testing.T) {
	for name, test := range map[string]struct {
		hops []Hop
		want Chain
	}{
		"none": {nil, Chain{}},
		"direct": {[]Hop{
			{Name: "client pod", Kind: HopClient},
			{Name: "NodePort on cloud", Kind: HopService, Protocol: HopTCP, Network: HopUnderlay},
			{Name: "function pod", Kind: HopFunction, Protocol: HopTCP, Network: HopCluster},
		}, Chain{Connections: 1, Translations: 1}},
		"gateway": {gatewayHops(), Chain{Connections: 3, Encrypted: 1, Translations: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := ValidateHops(test.hops); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, Arm{Hops: test.hops}.Chain()); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateHops(t *testing.T) {
	for name, test := range map[string]struct {
		change func(hops []Hop) []Hop
		want   string
	}{
		"no name":     {func(h []Hop) []Hop { h[1].Name = ""; return h }, `hop 2 has no name`},
		"no client":   {func(h []Hop) []Hop { return h[1:] }, `hop 1 of 6, "Service hello-world", is a service; the first hop, and no other, is the client`},
		"no function": {func(h []Hop) []Hop { return h[:5] }, `hop 5 of 5, "gateway on cloud", is a proxy`},
		"client last": {func(h []Hop) []Hop { h[6].Kind = HopClient; return h }, `hop 7 of 7, "function pod", is a client`},
		"kind":        {func(h []Hop) []Hop { h[2].Kind = "router"; return h }, `"gateway on edge", is of kind "router"; the kinds are ["client" "service" "proxy" "function"]`},
		"protocol":    {func(h []Hop) []Hop { h[2].Protocol = ""; return h }, `"gateway on edge", is reached by protocol ""; the protocols are ["tcp" "tls" "mtls"]`},
		"network":     {func(h []Hop) []Hop { h[2].Network = "wan"; return h }, `"gateway on edge", is reached over network "wan"; the networks are ["cluster" "overlay" "underlay"]`},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateHops(test.change(gatewayHops()))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// The hosts and hops go into the environment file with the plan and come back.
func TestArmsAreRecorded(t *testing.T) {
	arm := Arm{URLs: map[string]string{"hello-world": "http://hello"}, Hosts: map[string]string{"hello-world": "hello-world.default.knative.test"}, Hops: gatewayHops()}
	text, err := json.Marshal(Record{Plan: Plan{Arms: map[string]Arm{"gateway": arm}}})
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(arm, record.Plan.Arms["gateway"]); diff != "" {
		t.Errorf("arm (-want +got):\n%s", diff)
	}
}
