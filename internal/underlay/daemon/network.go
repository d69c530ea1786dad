package daemon

import (
	"cmp"
	"fmt"
	"log"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/process"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// network is the control side: it attaches hosts and sets links. What it knows
// is in the network's folder before an operation returns.
type network struct {
	dir   string
	start time.Time

	mu    sync.Mutex
	spec  underlay.Spec
	ports map[string]*port
	links map[[2]string]netem.Direction // by sending and receiving host
}

// restore returns the network of a folder, with the hosts of an earlier daemon
// that are still there.
func restore(dir string) (*network, error) {
	state, err := underlay.ReadState(dir)
	if err != nil {
		return nil, err
	}
	n := &network{dir: dir, start: time.Now(), spec: state.Spec, ports: map[string]*port{}, links: map[[2]string]netem.Direction{}}
	for _, link := range state.Links {
		n.links[[2]string{link.From, link.To}] = link.Direction
	}
	for _, held := range state.Ports {
		if !held.Process.Alive() {
			continue
		}
		if err := n.add(held); err != nil {
			log.Printf("take over host %q: %v", held.Host, err)
		}
	}
	return n, n.save()
}

// clock is the time that the ports share.
func (n *network) clock() time.Duration { return time.Since(n.start) }

// configure changes what a running network can change.
func (n *network) configure(spec underlay.Spec) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if spec.CIDR != n.spec.CIDR {
		return fmt.Errorf("it runs with cidr %s; remove it before it can have %s", n.spec.CIDR, spec.CIDR)
	}
	if spec == n.spec {
		return nil
	}
	for _, p := range n.ports {
		if err := setMTU(p.Port, spec.MTU); err != nil && p.Process.Alive() {
			return fmt.Errorf("set the mtu of host %q: %w", p.Host, err)
		}
	}
	n.spec = spec
	for from, p := range n.ports {
		for _, pair := range *p.pairs.Load() {
			pair.next.Store(n.impairment(from, pair.to.Host))
		}
	}
	return n.save()
}

// attach gives a host its port, unless it has the same one already.
func (n *network) attach(wanted underlay.Port) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var pid int
	if _, err := fmt.Sscanf(wanted.Namespace, "/proc/%d/ns/net", &pid); err != nil {
		return fmt.Errorf("host %q: namespace %q is not of the form /proc/PID/ns/net", wanted.Host, wanted.Namespace)
	}
	id, err := process.Of(pid)
	if err != nil {
		return fmt.Errorf("host %q: %w", wanted.Host, err)
	}
	held := underlay.HeldPort{Port: wanted, Process: id}
	for _, p := range n.ports {
		if !p.Process.Alive() { // its thread is about to notice
			n.drop(p)
		}
	}
	if p, ok := n.ports[wanted.Host]; ok {
		if p.HeldPort == held {
			return nil
		}
		return fmt.Errorf("host %q is attached already, at %s as device %q; detach it before it can get %s as device %q", wanted.Host, p.Address, p.Device, wanted.Address, wanted.Device)
	}
	if err := n.check(wanted); err != nil {
		return err
	}
	if err := n.add(held); err != nil {
		return fmt.Errorf("attach host %q: %w", wanted.Host, err)
	}
	return n.save()
}

// check reports an address that a new host cannot have.
func (n *network) check(wanted underlay.Port) error {
	address := wanted.Address.Addr()
	if wanted.Host == "" {
		return fmt.Errorf("a port needs the name of its host")
	}
	if err := n.spec.CheckAddress(address); err != nil {
		return fmt.Errorf("host %q: %w", wanted.Host, err)
	}
	if wanted.Address.Bits() != n.spec.CIDR.Bits() {
		return fmt.Errorf("host %q: address %s needs the prefix length of the network %s", wanted.Host, wanted.Address, n.spec.CIDR)
	}
	for _, p := range n.ports {
		if p.Address.Addr() == address {
			return fmt.Errorf("host %q: address %s is taken by host %q; choose another", wanted.Host, address, p.Host)
		}
	}
	return nil
}

// add opens a port, joins it with all others and starts its thread.
func (n *network) add(held underlay.HeldPort) error {
	p, err := open(held, n.spec.MTU, n.clock)
	if err != nil {
		return err
	}
	pairs := map[netip.Addr]*pair{}
	for _, other := range n.ports {
		pairs[other.Address.Addr()] = &pair{to: other, impairment: n.impairment(p.Host, other.Host)}
		back := maps.Clone(*other.pairs.Load())
		back[p.Address.Addr()] = &pair{to: p, impairment: n.impairment(other.Host, p.Host)}
		other.pairs.Store(&back)
	}
	p.pairs.Store(&pairs)
	n.ports[p.Host] = p
	// A port's thread has to run at once when the kernel wakes it, so the
	// kernel, not the Go scheduler, shares the processors out among them.
	runtime.GOMAXPROCS(runtime.NumCPU() + len(n.ports))
	go p.run(func() { n.gone(p) })
	return nil
}

// gone takes a port off the network whose thread has ended by itself.
func (n *network) gone(p *port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[p.Host] != p {
		return
	}
	log.Printf("host %q has gone", p.Host)
	n.drop(p)
	if err := n.save(); err != nil {
		log.Printf("record that host %q has gone: %v", p.Host, err)
	}
}

// detach takes a host off the network.
func (n *network) detach(host string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.ports[host]
	if !ok {
		return nil
	}
	n.drop(p)
	return n.save()
}

// drop removes a port. What is on its way to it is lost.
func (n *network) drop(p *port) {
	delete(n.ports, p.Host)
	for _, other := range n.ports {
		pairs := maps.Clone(*other.pairs.Load())
		delete(pairs, p.Address.Addr())
		other.pairs.Store(&pairs)
	}
	p.stop()
}

// setLink says what happens to packets from one host to another; nil is
// nothing.
func (n *network) setLink(from, to string, direction *netem.Direction) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if from == to || from == "" || to == "" {
		return fmt.Errorf("a link needs two hosts, not %q and %q", from, to)
	}
	key := [2]string{from, to}
	old, ok := n.links[key]
	switch {
	case direction == nil && !ok, direction != nil && ok && old.Equal(*direction):
		return nil
	case direction == nil:
		delete(n.links, key)
	default:
		n.links[key] = *direction
	}
	if p, q := n.ports[from], n.ports[to]; p != nil && q != nil {
		(*p.pairs.Load())[q.Address.Addr()].next.Store(n.impairment(from, to))
		p.poke()
	}
	return n.save()
}

// impairment starts the fates of an ordered pair of hosts.
func (n *network) impairment(from, to string) *netem.Impairment {
	return netem.NewImpairment(n.links[[2]string{from, to}], n.spec.Seed, from, to, n.spec.MTU)
}

// status returns everything the network knows, in a stable order.
func (n *network) status() underlay.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := underlay.Status{Spec: n.spec, PID: os.Getpid(), Links: n.sortedLinks()}
	for _, host := range slices.Sorted(maps.Keys(n.ports)) {
		p := n.ports[host]
		s.Ports = append(s.Ports, p.Port)
		for _, pair := range *p.pairs.Load() {
			counters := pair.report()
			counters.From, counters.To = host, pair.to.Host
			s.Counters = append(s.Counters, counters)
		}
	}
	slices.SortFunc(s.Counters, func(a, b underlay.Counters) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	return s
}

func (n *network) sortedLinks() []underlay.Link {
	var links []underlay.Link
	for key, direction := range n.links {
		links = append(links, underlay.Link{From: key[0], To: key[1], Direction: direction})
	}
	slices.SortFunc(links, func(a, b underlay.Link) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	return links
}

// save remembers the network for the next daemon.
func (n *network) save() error {
	state := underlay.State{Spec: n.spec, Links: n.sortedLinks()}
	for _, host := range slices.Sorted(maps.Keys(n.ports)) {
		state.Ports = append(state.Ports, n.ports[host].HeldPort)
	}
	return underlay.WriteState(n.dir, state)
}

// close detaches every host, without forgetting them.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.ports {
		p.stop()
	}
	clear(n.ports)
}
