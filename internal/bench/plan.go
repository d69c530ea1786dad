// Package bench measures response times: it runs a plan of cells against a
// testbed, records every request and summarises what it recorded.
//
// A cell is one function, called over one arm in one scenario with one
// connection mode. A plan spreads the requests of each cell over blocks. A
// block visits every scenario once: the visit sets the scenario's links,
// verifies them, measures all cells of the scenario with the arms side by
// side, and verifies the links again. A visit whose links were off is kept in
// the raw data, marked, and done again once.
package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Cell is what one summary is about.
type Cell struct {
	Function   string          `json:"function"`
	Scenario   string          `json:"scenario"`
	Connection load.Connection `json:"connection"`
	Arm        string          `json:"arm"`
}

func (c Cell) String() string {
	return fmt.Sprintf("arm %q, function %q, scenario %q, connection %q", c.Arm, c.Function, c.Scenario, c.Connection)
}

// Function is how one function is called.
type Function struct {
	Protocol      load.Protocol `json:"protocol,omitempty"`       // load.HTTP1 when empty
	Method        string        `json:"method,omitempty"`         // when empty, POST with a payload and GET without
	PayloadBytes  int           `json:"payload_bytes"`            // of the request's body
	ResponseBytes int           `json:"response_bytes,omitempty"` // asked and wanted of the answer's body; 0 leaves it to the function
	Echo          bool          `json:"echo"`                     // the answer has to be the payload

	Service *Service `json:"service,omitempty"` // where it runs; nil when the run need not know
}

// protocol returns what the function is called with.
func (f Function) protocol() load.Protocol {
	if f.Protocol == "" {
		return load.HTTP1
	}
	return f.Protocol
}

// Validate reports the first thing that makes calling the function impossible.
func (f Function) Validate() error {
	return f.job("http://198.18.0.1", load.New).Validate()
}

// job returns one request to the function.
func (f Function) job(url string, connection load.Connection) load.Job {
	return load.Job{
		URL: url, Protocol: f.Protocol, Method: f.Method, PayloadBytes: f.PayloadBytes, ResponseBytes: f.ResponseBytes, Echo: f.Echo,
		Connection: connection, Requests: 1, Timeout: time.Second, ConnectTimeout: time.Second,
	}
}

// Arm is one path to the functions.
type Arm struct {
	URLs  map[string]string `json:"urls"`            // by function
	Hosts map[string]string `json:"hosts,omitempty"` // by function, where requests ask for another host than that of the URL
	Path  string            `json:"path,omitempty"`  // what the path is, for the record
	Hops  []Hop             `json:"hops,omitempty"`  // from the client to the function, for the record
}

// Scenario gives links, by their id, the profiles they have during a visit. A
// link that it does not name keeps the profile it had before the run.
type Scenario map[string]netem.Profile

// Plan is everything that defines a run.
type Plan struct {
	Name        string              `json:"name"`
	Functions   map[string]Function `json:"functions"`
	Arms        map[string]Arm      `json:"arms"`
	Baseline    string              `json:"baseline"` // the arm that the others are compared with
	Scenarios   map[string]Scenario `json:"scenarios"`
	Connections []load.Connection   `json:"connections"`

	Requests int    `json:"requests"` // measured requests of each cell, over all blocks
	Warmup   int    `json:"warmup"`   // requests before the measured ones of each cell, in every block
	Blocks   int    `json:"blocks"`
	Seed     uint64 `json:"seed"` // of the order and of the bootstrap

	Load    load.Model `json:"load"`    // what decides when requests are sent
	Clients int        `json:"clients"` // pods that send them together, 0 for 1

	Timeout        time.Duration `json:"timeout"` // nanoseconds, like all durations
	ConnectTimeout time.Duration `json:"connect_timeout"`

	// MaxErrorRatio is the share of failed requests of a cell above which the
	// run fails, from 0 to 1.
	MaxErrorRatio float64 `json:"max_error_ratio"`
}

// Validate reports everything that makes the plan impossible.
func (p Plan) Validate() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if len(p.Functions) == 0 || len(p.Scenarios) == 0 || len(p.Connections) == 0 {
		complain("a run needs a function, a scenario and a connection mode at least")
	}
	if _, ok := p.Arms[p.Baseline]; !ok {
		complain("the baseline %q is not one of the arms %q", p.Baseline, sortedKeys(p.Arms))
	}
	for _, arm := range sortedKeys(p.Arms) {
		if err := ValidateHops(p.Arms[arm].Hops); err != nil {
			complain("arm %q: %w", arm, err)
		}
		for _, function := range sortedKeys(p.Functions) {
			if _, ok := p.Arms[arm].URLs[function]; !ok {
				complain("arm %q has no URL for function %q", arm, function)
			}
		}
		for _, function := range sortedKeys(p.Arms[arm].Hosts) {
			if _, ok := p.Functions[function]; !ok {
				complain("arm %q has a host for %q, which is not one of the functions %q", arm, function, sortedKeys(p.Functions))
			}
		}
	}
	if p.Blocks < 1 || p.Requests < p.Blocks {
		complain("%d requests cannot be spread over %d blocks; each block needs one at least", p.Requests, p.Blocks)
	}
	if clients := p.clients(); p.Blocks >= 1 && p.Requests/p.Blocks < clients {
		complain("%d requests in %d blocks cannot be shared by %d clients; each client needs one in every block at least", p.Requests, p.Blocks, clients)
	}
	if err := p.Load.Validate(); err != nil {
		problems = append(problems, err)
	}
	for _, connection := range p.Connections {
		if _, err := load.ParseConnection(string(connection)); err != nil {
			problems = append(problems, err)
		}
	}
	if p.Load.Cold() {
		if err := p.validateCold(); err != nil {
			problems = append(problems, err)
		}
	} else if p.Warmup < 1 {
		complain("a warm-up of %d requests is too short: the first request of a connection sets the session up and is no measured one", p.Warmup)
	}
	if !(p.MaxErrorRatio >= 0 && p.MaxErrorRatio <= 1) {
		complain("the greatest error ratio is %g; it must be from 0 to 1", p.MaxErrorRatio)
	}
	return errors.Join(problems...)
}

// Links returns the ids of all links that the scenarios set, in order.
func (p Plan) Links() []string {
	ids := map[string]bool{}
	for _, scenario := range p.Scenarios {
		for id := range scenario {
			ids[id] = true
		}
	}
	return sortedKeys(ids)
}

// Visit is one scenario within one block, with its cells in the order in which
// they are measured.
type Visit struct {
	Block    int    `json:"block"` // from 1
	Scenario string `json:"scenario"`
	Requests int    `json:"requests"` // measured ones of each cell
	Cells    []Cell `json:"cells"`
}

// Schedule returns the visits in order; the same plan gives the same schedule.
// Scenarios, functions and connection modes are shuffled in each block. The
// arms of one function follow each other directly, in random order in one
// block and in the reverse order in the next, so that a drift of the machine
// favours none.
func (p Plan) Schedule() []Visit {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	scenarios := sortedKeys(p.Scenarios)
	groups := p.groups()
	arms := map[Cell][]string{}
	var visits []Visit
	for block := range p.Blocks {
		random.Shuffle(len(scenarios), func(i, j int) { scenarios[i], scenarios[j] = scenarios[j], scenarios[i] })
		for _, scenario := range scenarios {
			visit := Visit{Block: block + 1, Scenario: scenario, Requests: p.Requests / p.Blocks}
			if block < p.Requests%p.Blocks {
				visit.Requests++
			}
			random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
			for _, cell := range groups {
				cell.Scenario = scenario
				order := p.armOrder(arms[cell], random)
				arms[cell] = order
				if block%2 == 1 {
					arms[cell] = nil
				}
				for _, arm := range order {
					cell.Arm = arm
					visit.Cells = append(visit.Cells, cell)
				}
			}
			visits = append(visits, visit)
		}
	}
	return visits
}

// groups returns the cells of one scenario without their arms.
func (p Plan) groups() []Cell {
	var groups []Cell
	for _, function := range sortedKeys(p.Functions) {
		for _, connection := range p.Connections {
			groups = append(groups, Cell{Function: function, Connection: connection})
		}
	}
	return groups
}

// armOrder returns the reverse of the last order, or a random one when there
// is none to balance.
func (p Plan) armOrder(last []string, random *rand.Rand) []string {
	if last != nil {
		order := slices.Clone(last)
		slices.Reverse(order)
		return order
	}
	order := sortedKeys(p.Arms)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// clients returns how many pods send requests.
func (p Plan) clients() int { return max(p.Clients, 1) }

// loadOf describes the load in words, for example "open loop, 100 requests/s,
// poisson arrivals, up to 32 in flight of each of 2 clients".
func (p Plan) loadOf() string {
	text := p.Load.String()
	if p.clients() > 1 {
		text += fmt.Sprintf(" of each of %d clients", p.clients())
	}
	return text
}

// job returns the requests of one cell in one visit.
func (p Plan) job(cell Cell, requests int) load.Job {
	job := p.Functions[cell.Function].job(p.Arms[cell.Arm].URLs[cell.Function], cell.Connection)
	job.Host = p.Arms[cell.Arm].Hosts[cell.Function]
	job.Warmup, job.Requests = p.Warmup, requests
	if !p.Load.Cold() { // which is nothing to the client, since each is a job of its own
		job.Model = p.Load
	}
	job.Timeout, job.ConnectTimeout = p.Timeout, p.ConnectTimeout
	return job
}

// firstJob returns one request of every client to one cell.
func (p Plan) firstJob(cell Cell) load.Job {
	cell.Connection = load.New
	job := p.job(cell, p.clients())
	job.Warmup, job.Model = 0, load.Model{}
	return job
}

// UnmarshalJSON reads a plan. Those of earlier folders have the think time of
// their closed loop beside the plan's other fields.
func (p *Plan) UnmarshalJSON(text []byte) error {
	type plain Plan
	read := struct {
		*plain
		ThinkTime time.Duration `json:"think_time"`
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.ThinkTime != 0 {
		p.Load.ThinkTime = read.ThinkTime
	}
	return nil
}
