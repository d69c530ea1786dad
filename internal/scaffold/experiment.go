// Package scaffold writes an experiment for hosts that are reached by SSH: HCL
// that is ready to apply, from a list of hosts and a few choices.
//
// What it writes is complete: the modules that the experiment uses lie beside
// it. Its one invariant: no file that is there already is touched.
package scaffold

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/ssh"
)

// Experiment is response times measured from calling sites to a serving one.
type Experiment struct {
	Lighthouse Host   // of the overlay, and nothing else
	Sites      []Site // the last one serves, the others call

	Scenarios []Scenario
	Functions []Function
}

// lighthouse is the name of the host that is no site.
const lighthouse = "lighthouse"

// Host is a machine of the experiment.
type Host struct {
	URL      string     // ssh://[USER@]ADDRESS[:PORT]
	Underlay netip.Addr // by which the other hosts reach it
}

// parts returns what the URL says, with port 0 and user "" where it does not.
func (h Host) parts() (address, user string, port int64) {
	target, err := ssh.Parse(h.URL)
	if err != nil {
		return h.URL, "", 0 // Validate has refused it
	}
	return target.Address, target.User, int64(target.Port)
}

// Site is a host with a cluster.
type Site struct {
	Name string // a DNS label, also of the cluster and its node
	Host
}

// Scenario is what every link between a calling site and the serving one does.
type Scenario struct {
	Name   string
	RTT    time.Duration
	Jitter time.Duration
	Loss   float64 // percent
}

// Function is a built-in function that is called.
type Function struct {
	Name    string // a key of the run
	Builtin string
	Payload int64 // bytes, sent and sent back; 0 for none
}

var label = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// maxSites keeps clear of networks that hosts use: each site has two of
// 10.0.0.0/8 from 10.44.0.0/16 on.
const maxSites = 40

// Validate says what of the experiment cannot be.
func (e Experiment) Validate() error {
	if len(e.Sites) < 2 || len(e.Sites) > maxSites {
		return fmt.Errorf("%d sites: an experiment has 2 to %d, of which the last one serves the others", len(e.Sites), maxSites)
	}
	if len(e.Scenarios) == 0 || len(e.Functions) == 0 {
		return fmt.Errorf("%d scenarios and %d functions: name at least one of each", len(e.Scenarios), len(e.Functions))
	}
	if _, err := ssh.Parse(e.Lighthouse.URL); err != nil {
		return err
	}
	hosts := map[string]string{e.Lighthouse.URL: lighthouse}
	addresses := map[netip.Addr]string{e.Lighthouse.Underlay: lighthouse}
	names := map[string]bool{lighthouse: true}
	for _, site := range e.Sites {
		if !label.MatchString(site.Name) || len(site.Name) > 40 {
			return fmt.Errorf("site %q: its name must be at most 40 small letters, digits and single hyphens, and begin with a letter", site.Name)
		}
		if names[site.Name] {
			return fmt.Errorf("site %q: there are two of that name, or the lighthouse has it", site.Name)
		}
		names[site.Name] = true
		if _, err := ssh.Parse(site.URL); err != nil {
			return err
		}
		if other, ok := hosts[site.URL]; ok {
			return fmt.Errorf("host %s: it is %s and %s; each needs a host of its own", site.URL, other, site.Name)
		}
		hosts[site.URL] = site.Name
		if other, ok := addresses[site.Underlay]; ok {
			return fmt.Errorf("host %s: its address %s is that of %s; write the address at which the other hosts reach it after the host, with a comma between", site.URL, site.Underlay, other)
		}
		addresses[site.Underlay] = site.Name
	}
	seen := map[string]bool{}
	for _, scenario := range e.Scenarios {
		if !label.MatchString(scenario.Name) || seen[scenario.Name] {
			return fmt.Errorf("scenario %q: names are different ones of small letters, digits and single hyphens", scenario.Name)
		}
		seen[scenario.Name] = true
	}
	seen = map[string]bool{}
	for _, function := range e.Functions {
		if seen[function.Name] {
			return fmt.Errorf("function %q: it is there twice", function.Name)
		}
		seen[function.Name] = true
	}
	return nil
}

// builtins are the functions that can be chosen, and whether they send back
// what they get.
func builtins() map[string]bool { return map[string]bool{"hello-world": false, "payload-echo": true} }

// ParseFunction reads BUILTIN or BUILTIN=BYTES, for example
// "payload-echo=102400".
func ParseFunction(text string) (Function, error) {
	name, size, sized := strings.Cut(text, "=")
	echoes, ok := builtins()[name]
	if !ok {
		return Function{}, fmt.Errorf("function %q: there are hello-world and payload-echo=BYTES; add others to what is written", name)
	}
	function := Function{Name: name, Builtin: name}
	switch {
	case sized && !echoes:
		return Function{}, fmt.Errorf("function %q: %s takes no payload", text, name)
	case !sized && echoes:
		size = "102400"
	case !sized:
		return function, nil
	}
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil || bytes <= 0 || bytes > 64<<20 {
		return Function{}, fmt.Errorf("function %q: the payload must be 1 to %d bytes", text, 64<<20)
	}
	function.Payload = bytes
	return function, nil
}

// ParseScenario reads NAME or NAME=RTT[/JITTER[/LOSS]], for example
// "edge=10ms/1ms/0.08", the loss in percent. Without a time, local, edge and
// cloud have those of the published testbed. Jitter and loss follow its rule
// where they are left out: 20 % of the one-way delay, and 0.016 % for each
// millisecond of it.
func ParseScenario(text string) (Scenario, error) {
	name, values, given := strings.Cut(text, "=")
	if !given {
		usual := map[string]string{"local": "0ms", "edge": "10ms", "cloud": "40ms"}
		var ok bool
		if values, ok = usual[name]; !ok {
			return Scenario{}, fmt.Errorf("scenario %q: only local, edge and cloud have a usual round-trip time; write for example %s=25ms", text, name)
		}
	}
	parts := strings.Split(values, "/")
	if len(parts) > 3 {
		return Scenario{}, fmt.Errorf("scenario %q: write NAME=RTT/JITTER/LOSS", text)
	}
	rtt, err := time.ParseDuration(parts[0])
	if err != nil || rtt < 0 || rtt > time.Minute {
		return Scenario{}, fmt.Errorf("scenario %q: %q is no round-trip time; write for example %s=25ms", text, parts[0], name)
	}
	scenario := Scenario{Name: name, RTT: rtt, Jitter: rtt / 10, Loss: 0.016 * float64(rtt) / 2 / float64(time.Millisecond)}
	if len(parts) > 1 {
		if scenario.Jitter, err = time.ParseDuration(parts[1]); err != nil || scenario.Jitter < 0 {
			return Scenario{}, fmt.Errorf("scenario %q: %q is no jitter, for example 1ms", text, parts[1])
		}
	}
	if len(parts) > 2 {
		if scenario.Loss, err = strconv.ParseFloat(parts[2], 64); err != nil || scenario.Loss < 0 || scenario.Loss > 100 {
			return Scenario{}, fmt.Errorf("scenario %q: %q is no loss in percent, for example 0.08", text, parts[2])
		}
	}
	return scenario, nil
}

// siteNames are the names of sites that are not given.
func siteNames(count int) []string {
	if count == 2 {
		return []string{"edge", "cloud"}
	}
	var names []string
	for i := range count - 1 {
		names = append(names, "edge-"+strconv.Itoa(i+1))
	}
	return slices.Concat(names, []string{"cloud"})
}
