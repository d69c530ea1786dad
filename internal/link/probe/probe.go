// Package probe measures a link on its hosts: round-trip times by ICMP echo,
// the loss of each direction by numbered datagrams, the rate by more datagrams
// than it lets pass. The results are printed as JSON.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

const usage = `usage:
  testbed-agent probe echo ADDRESS COUNT INTERVAL WAIT        measure round-trip times
  testbed-agent probe answer ADDRESS                          answer flows and floods, after printing ADDRESS:PORT
  testbed-agent probe flow ADDRESS:PORT COUNT INTERVAL WAIT   count what arrives, and what comes back
  testbed-agent probe flood ADDRESS:PORT RATE                 send above RATE for a second`

// Command is the agent's role "probe".
func Command(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	var result any
	var err error
	switch {
	case args[0] == "answer" && len(args) == 2:
		return answer(ctx, args[1])
	case args[0] == "echo" && len(args) == 5:
		result, err = paced(args[1:], netip.ParseAddr, echo)
	case args[0] == "flow" && len(args) == 5:
		result, err = paced(args[1:], netip.ParseAddrPort, flow)
	case args[0] == "flood" && len(args) == 3:
		result, err = parseFlood(ctx, args[1], args[2])
	default:
		return errors.New(usage)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// pace is how packets are sent, and how long to wait for the last of them.
type pace struct {
	count          int
	interval, wait time.Duration
}

// paced reads ADDRESS COUNT INTERVAL WAIT and probes by them.
func paced[A, R any](args []string, parse func(string) (A, error), probe func(A, pace) (R, error)) (any, error) {
	address, err := parse(args[0])
	if err != nil {
		return nil, err
	}
	var p pace
	if p.count, err = strconv.Atoi(args[1]); err != nil || p.count < 1 || p.count > 1_000_000 {
		return nil, fmt.Errorf("%q is not a number of packets from 1 to 1000000", args[1])
	}
	if p.interval, err = time.ParseDuration(args[2]); err != nil {
		return nil, err
	}
	if p.wait, err = time.ParseDuration(args[3]); err != nil {
		return nil, err
	}
	return probe(address, p)
}

// send calls send for each packet at its time, and returns at the first error.
func (p pace) send(send func(i int) error) error {
	start := time.Now()
	for i := range p.count {
		time.Sleep(time.Until(start.Add(time.Duration(i) * p.interval)))
		if err := send(i); err != nil {
			return fmt.Errorf("send packet %d: %w", i, err)
		}
	}
	return nil
}

func parseFlood(ctx context.Context, address, rate string) (any, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	r, err := netem.ParseRate(rate)
	if err != nil {
		return nil, err
	}
	return flood(ctx, to, r)
}
