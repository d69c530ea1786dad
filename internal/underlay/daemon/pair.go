package daemon

import (
	"sync/atomic"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// pair is the way from one attached host to another. The thread of the sending
// port owns it; the control side only puts a new impairment in next and reads
// the counters.
type pair struct {
	to         *port
	impairment *netem.Impairment
	next       atomic.Pointer[netem.Impairment]
	counters   counters
}

type counters struct {
	received, delivered, bytes, lost, dropped, duplicated, corrupted, reordered, unreachable atomic.Uint64

	waiting atomic.Int64
}

// current returns the impairment for the next packet. What waits in the one
// before still counts against the new one's limit.
func (p *pair) current() *netem.Impairment {
	if p.next.Load() != nil {
		next := p.next.Swap(nil)
		next.Leave(-p.impairment.Waiting())
		p.impairment = next
	}
	return p.impairment
}

// report returns the counters, without the names.
func (p *pair) report() underlay.Counters {
	c := &p.counters
	return underlay.Counters{
		Received:    c.received.Load(),
		Delivered:   c.delivered.Load(),
		Bytes:       c.bytes.Load(),
		Lost:        c.lost.Load(),
		Dropped:     c.dropped.Load(),
		Duplicated:  c.duplicated.Load(),
		Corrupted:   c.corrupted.Load(),
		Reordered:   c.reordered.Load(),
		Unreachable: c.unreachable.Load(),
		Waiting:     c.waiting.Load(),
	}
}
