package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// LackError says what keeps the hosts of a link from carrying it out.
type LackError struct {
	Link  Link
	Lacks []HostLack
}

// HostLack is what one host lacks.
type HostLack struct {
	URL string
	Lack
}

func (e *LackError) Error() string {
	lines := make([]string, len(e.Lacks))
	for i, l := range e.Lacks {
		lines[i] = fmt.Sprintf("on %s, %s", l.URL, l.What)
		if l.Fix != "" {
			lines[i] += "; to mend it: " + l.Fix
		}
	}
	return fmt.Sprintf("link %s cannot be carried out:\n%s", e.Link, strings.Join(lines, "\n"))
}

// shaperHost is one host of a link by kernels.
type shaperHost struct {
	host.Host
	agent string
}

func (s Links) openShaper(ctx context.Context, url string) (shaperHost, error) {
	h, err := s.Hosts.Open(ctx, url)
	if err != nil {
		return shaperHost{}, err
	}
	agent, err := h.Agent(ctx)
	return shaperHost{h, agent}, err
}

// ask runs the agent's role "shape" and reads what it prints. Input, when there
// is one, is written to it as JSON.
func (h shaperHost) ask(ctx context.Context, input, answer any, args ...string) error {
	command := host.Command{Argv: append([]string{h.agent, "shape"}, args...)}
	if input != nil {
		text, err := json.Marshal(input)
		if err != nil {
			return err
		}
		command.Stdin = strings.NewReader(string(text) + "\n")
	}
	output, err := h.Run(ctx, command)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(output.Stdout, answer); err != nil {
		return fmt.Errorf("read what shape %s printed on %s: %w", args[0], h.URL(), err)
	}
	return nil
}

// change makes a change that the host takes back unless it hears from here
// after it.
func (h shaperHost) change(ctx context.Context, input []byte, args ...string) error {
	reader, writer := io.Pipe()
	done := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer writer.Close()
		if len(input) > 0 {
			if _, err := writer.Write(append(input, '\n')); err != nil {
				return
			}
		}
		select {
		case <-done:
			_, _ = io.WriteString(writer, Keep+"\n")
		case <-ended:
		}
	}()
	_, err := h.Run(ctx, host.Command{
		Argv:   append([]string{h.agent, "shape"}, args...),
		Stdin:  reader,
		Stdout: &firstLine{line: done},
	})
	close(ended)
	reader.Close()
	return err
}

// applyKernel makes the hosts' kernels carry the link out.
func (s Links) applyKernel(ctx context.Context, spec Spec) error {
	if err := spec.checkShaping(); err != nil {
		return err
	}
	parts, err := s.parts(ctx, spec)
	if err != nil {
		return err
	}
	if err := s.addBase(ctx, spec, parts); err != nil {
		return err
	}
	var group errgroup.Group // of which none is interrupted when another fails
	for url, part := range parts {
		group.Go(func() error {
			h, err := s.openShaper(ctx, url)
			if err != nil {
				return err
			}
			if part == nil { // the other host does it all, or did not before
				return h.change(ctx, nil, "remove", spec.String(), KeepWithin.String())
			}
			text, err := json.Marshal(part)
			if err != nil {
				return err
			}
			return h.change(ctx, text, "set", KeepWithin.String())
		})
	}
	if err := group.Wait(); err != nil {
		// What a kernel says of what it lacks helps nobody.
		if lacks := (*LackError)(nil); errors.As(s.Lacks(ctx, spec), &lacks) {
			return lacks
		}
		return err
	}
	return nil
}

// checkShaping says what is wrong with how a link shall be carried out.
func (s Spec) checkShaping() error {
	for i, url := range []string{s.A, s.B} {
		if len(s.Shaping.Addresses[i]) == 0 {
			return fmt.Errorf("no address of %s is known; name those by which the other host reaches it", url)
		}
	}
	if on := s.Shaping.On; on != "" && on != s.A && on != s.B {
		return fmt.Errorf("%s is to shape both directions, but is not one of the hosts", on)
	}
	for name, d := range map[string]netem.Direction{"forward": s.Profile.Forward, "reverse": s.Profile.Reverse} {
		if d.KeepOrder && d.Jitter > 0 {
			return fmt.Errorf("the kernel's netem cannot keep the order of packets that have a jitter (%s); remove keep_order, or set a rate, which keeps most of them in order", name)
		}
	}
	return nil
}

// parts are what each host has to do, by URL; nil is nothing.
func (s Links) parts(ctx context.Context, spec Spec) (map[string]*Part, error) {
	addresses := spec.Shaping.Addresses
	forward, reverse := &spec.Profile.Forward, &spec.Profile.Reverse
	parts := map[string]*Part{
		spec.A: {Peers: addresses[1], Own: addresses[0], Egress: forward},
		spec.B: {Peers: addresses[0], Own: addresses[1], Egress: reverse},
	}
	switch spec.Shaping.On {
	case spec.A:
		parts[spec.A].Ingress, parts[spec.B] = reverse, nil
	case spec.B:
		parts[spec.B].Ingress, parts[spec.A] = forward, nil
	}
	var ports []uint16
	for url, peer := range map[string]netip.Addr{spec.A: addresses[1][0], spec.B: addresses[0][0]} {
		h, err := s.openShaper(ctx, url)
		if err != nil {
			return nil, err
		}
		var path Path
		if err := h.ask(ctx, nil, &path, "path", peer.String()); err != nil {
			return nil, err
		}
		if path.SSHPort == 0 {
			path.SSHPort = 22
		}
		ports = append(ports, path.SSHPort)
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	for _, part := range parts {
		if part == nil {
			continue
		}
		part.Link, part.Place, part.SSHPorts = spec.String(), spec.Place, ports
		part.KeepOffloads, part.ReplaceExisting = spec.Shaping.KeepOffloads, spec.Shaping.ReplaceExisting
	}
	return parts, nil
}

// Of the measurement of the base.
const (
	basePackets  = "20"
	baseInterval = "10ms"
	baseWait     = "1s"
)

// addBase adds to the parts the round-trip time without the link: what was
// measured when it was made, or what is measured now.
func (s Links) addBase(ctx context.Context, spec Spec, parts map[string]*Part) error {
	status, _, _, err := s.observeKernel(ctx, spec.Link)
	if err != nil {
		return err
	}
	base := status.baseRTT()
	if base == 0 {
		a, err := s.openShaper(ctx, spec.A)
		if err != nil {
			return err
		}
		to := spec.Shaping.Addresses[1][0].String()
		var echoes Echoes
		if err := (&end{host: a, agent: a.agent}).probe(ctx, &echoes, "echo", to, basePackets, baseInterval, baseWait); err != nil {
			return fmt.Errorf("measure the path without the link: %w", err)
		}
		if len(echoes.RTT) == 0 {
			return fmt.Errorf("measure the path without the link: %s does not answer echo requests of %s at %s; see that the address is right and that no firewall drops ICMP", spec.B, spec.A, to)
		}
		slices.Sort(echoes.RTT)
		base = echoes.RTT[len(echoes.RTT)/2]
	}
	for _, part := range parts {
		if part != nil {
			part.BaseRTT = base
		}
	}
	return nil
}

// baseRTT is what was measured before the link was made; 0 when it was not.
func (s Status) baseRTT() time.Duration {
	for _, h := range s.Hosts {
		if h.BaseRTT > 0 {
			return h.BaseRTT
		}
	}
	return 0
}

// observeKernel returns what both hosts do for a link.
func (s Links) observeKernel(ctx context.Context, l Link) (status Status, forward, reverse *netem.Direction, err error) {
	var shaped [2]*Shaped
	group, groupCtx := errgroup.WithContext(ctx)
	for i, url := range []string{l.A, l.B} {
		group.Go(func() error {
			h, err := s.openShaper(groupCtx, url)
			if err != nil {
				return err
			}
			return h.ask(groupCtx, nil, &shaped[i], "show", l.String())
		})
	}
	if err := group.Wait(); err != nil {
		return Status{}, nil, nil, err
	}
	for i, url := range []string{l.A, l.B} {
		part := shaped[i]
		if part == nil {
			continue
		}
		status.Hosts = append(status.Hosts, HostStatus{url, *part})
		status.Shaping.Addresses[i], status.Shaping.Addresses[1-i] = part.Own, part.Peers
		status.Shaping.KeepOffloads = part.KeepOffloads
		status.Shaping.ReplaceExisting = part.ReplaceExisting
		there, back := &forward, &reverse
		if i == 1 {
			there, back = back, there
		}
		if part.Egress != nil {
			*there = part.Egress
		}
		if part.Ingress != nil {
			*back = part.Ingress
			status.Shaping.On = url
		}
	}
	status.Profile = join(forward, reverse)
	return status, forward, reverse, nil
}

// removeKernel makes both hosts' devices what they were. A local host that is
// gone has taken its devices along.
func (s Links) removeKernel(ctx context.Context, l Link) error {
	urls := []string{l.A, l.B}
	errs := make([]error, len(urls))
	var both sync.WaitGroup
	for i, url := range urls {
		// What fails on one host does not keep the other as it is.
		both.Go(func() { errs[i] = s.removeAt(ctx, l, url) })
	}
	both.Wait()
	var failed SideErrors
	for i, err := range errs {
		if err != nil {
			failed = append(failed, SideError{urls[i], err})
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return failed
}

func (s Links) removeAt(ctx context.Context, l Link, url string) error {
	h, err := s.openShaper(ctx, url)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, host.ErrUnreachable) {
		return nil
	}
	if err != nil {
		return err
	}
	return h.change(ctx, nil, "remove", l.String(), KeepWithin.String())
}

// SideErrors are what went wrong on the hosts of a link.
type SideErrors []SideError

// SideError is what went wrong on one of them.
type SideError struct {
	URL string
	Err error
}

func (e SideErrors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the errors of the hosts.
func (e SideErrors) Unwrap() []error {
	var errs []error
	for _, side := range e {
		errs = append(errs, side.Err)
	}
	return errs
}

// Lacks tells whether the hosts could carry the link out, by rehearsing it in
// network namespaces of their own. What they lack is a *LackError. It is nil
// for a link of a network, which needs nothing of kernels.
func (s Links) Lacks(ctx context.Context, spec Spec) error {
	if !spec.ByKernel() {
		return nil
	}
	if err := spec.checkShaping(); err != nil {
		return fmt.Errorf("link %s: %w", spec.Link, err)
	}
	parts, err := s.parts(ctx, spec)
	if err != nil {
		return fmt.Errorf("look at the hosts of link %s: %w", spec.Link, err)
	}
	found := &LackError{Link: spec.Link}
	for _, url := range []string{spec.A, spec.B} {
		if parts[url] == nil {
			continue
		}
		h, err := s.openShaper(ctx, url)
		var lacks []Lack
		if err == nil {
			err = h.ask(ctx, parts[url], &lacks, "lacks")
		}
		if err != nil {
			return fmt.Errorf("look at the hosts of link %s: %w", spec.Link, err)
		}
		for _, l := range lacks {
			found.Lacks = append(found.Lacks, HostLack{url, l})
		}
	}
	if len(found.Lacks) > 0 {
		return found
	}
	return nil
}
