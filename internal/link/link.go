// Package link puts netem profiles on the path between two hosts, reads them
// back and measures, on the hosts, whether packets meet them.
//
// There are two kinds of links. The hosts of a network have their packets
// forwarded, and emulated, by the network's own process. Any other two hosts
// have their kernels do it, each for what it sends.
package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"regexp"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Link is the path between two hosts. Forward is from A to B.
type Link struct {
	// Network is the hosts' network, whose process carries the link out. A and
	// B are names of local hosts then. Without it they are URLs of hosts, whose
	// kernels carry the link out, at Place.
	Network string
	Place   Place
	A, B    string
}

// kernelLink is the id of a link by the hosts' kernels.
var kernelLink = regexp.MustCompile(`^(underlay|overlay)/([a-z]+://[^/]+)/([a-z]+://[^/]+)$`)

// Parse reads what String prints.
func Parse(id string) (Link, error) {
	if parts := kernelLink.FindStringSubmatch(id); parts != nil {
		return Link{Place: Place(parts[1]), A: parts[2], B: parts[3]}, nil
	}
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Link{}, fmt.Errorf("%q is not a link; write NETWORK/HOST/HOST, for example \"wan/edge/cloud\", or PLACE/URL/URL, for example \"underlay/ssh://pi@192.0.2.1/ssh://vm@192.0.2.2\"", id)
	}
	return Link{Network: parts[0], A: parts[1], B: parts[2]}, nil
}

// String names the link, "network/a/b" or "place/url/url".
func (l Link) String() string {
	if l.ByKernel() {
		return string(l.Place) + "/" + l.A + "/" + l.B
	}
	return l.Network + "/" + l.A + "/" + l.B
}

// ByKernel tells whether the hosts' kernels carry the link out.
func (l Link) ByKernel() bool { return l.Network == "" }

// Hosts returns the URLs of both hosts.
func (l Link) Hosts() (a, b string) {
	if l.ByKernel() {
		return l.A, l.B
	}
	return localURL + l.A, localURL + l.B
}

// localURL begins the URL of each local host.
const localURL = "local://"

// Spec is what a link shall be.
type Spec struct {
	Link
	Profile netem.Profile
	Shaping Shaping // of links by the hosts' kernels
}

// Shaping is how hosts' kernels carry a link out.
type Shaping struct {
	// Addresses are those of A and of B, IPv4 or IPv6, by which the other one
	// reaches them. At least one each.
	Addresses [2][]netip.Addr

	// On is the URL of the one host that shapes both directions, what comes in
	// by way of an ifb device. When it is empty each host shapes what it sends.
	On string

	// KeepOffloads leaves segmentation offloads on, with which losses and
	// places in queues are those of up to 64 KiB.
	KeepOffloads bool

	// ReplaceExisting takes the place of a queueing discipline of somebody
	// else, which comes back when the link is removed.
	ReplaceExisting bool
}

// Status is what a link is.
type Status struct {
	Profile netem.Profile
	Shaping Shaping
	Hosts   []HostStatus // that shape; none on a network
}

// HostStatus is what a host does for a link.
type HostStatus struct {
	URL string
	Shaped
}

// Links are the links of one testbed.
type Links struct {
	Data  datadir.Dir
	Hosts host.Opener
}

// OtherProfileError says that a pair of hosts has a profile of somebody else.
type OtherProfileError struct {
	Link    Link
	Profile netem.Profile
}

func (e *OtherProfileError) Error() string {
	return fmt.Sprintf("link %s has the profile %s already", e.Link, e.Profile.JSON())
}

// Create is Apply for a pair of hosts that nobody has given a profile. One that
// has another profile, in either direction, is an *OtherProfileError; one that
// has got this profile, or half of it, is what a killed Create leaves.
func (s Links) Create(ctx context.Context, spec Spec) error {
	if !spec.ByKernel() {
		unlock, err := s.Data.Lock(ctx, s.Data.Network(spec.Network))
		if err == nil {
			defer unlock()
		} else if !errors.Is(err, fs.ErrNotExist) { // of which Apply tells
			return fmt.Errorf("create link %s: %w", spec.Link, err)
		}
	}
	forward, reverse, err := s.observe(ctx, spec.Link)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if forward != nil && !forward.Equal(spec.Profile.Forward) || reverse != nil && !reverse.Equal(spec.Profile.Reverse) {
		return &OtherProfileError{spec.Link, join(forward, reverse)}
	}
	err = s.Apply(ctx, spec)
	if err != nil && spec.ByKernel() && forward == nil && reverse == nil {
		// Nobody would know of the half that may be there.
		err = errors.Join(err, s.Remove(context.WithoutCancel(ctx), spec.Link))
	}
	return err
}

// Apply makes packets between both hosts meet the profile from now on, in place
// of the one before. Hosts of a network have to be attached.
func (s Links) Apply(ctx context.Context, spec Spec) error {
	err := s.apply(ctx, spec)
	if err != nil {
		return fmt.Errorf("apply link %s: %w", spec.Link, err)
	}
	return nil
}

func (s Links) apply(ctx context.Context, spec Spec) error {
	if spec.ByKernel() {
		return s.applyKernel(ctx, spec)
	}
	client, err := underlay.Open(s.Data, spec.Network)
	if err != nil {
		return err
	}
	if _, _, err := ends(ctx, client, spec.Link); err != nil {
		return err
	}
	if err := client.SetLink(ctx, spec.A, spec.B, &spec.Profile.Forward); err != nil {
		return err
	}
	return client.SetLink(ctx, spec.B, spec.A, &spec.Profile.Reverse)
}

// Change is Apply for a link that is there, which keeps how it is carried out.
func (s Links) Change(ctx context.Context, l Link, profile netem.Profile) error {
	spec := Spec{Link: l, Profile: profile}
	if l.ByKernel() {
		status, err := s.Observe(ctx, l)
		if err != nil {
			return fmt.Errorf("change link %s: %w", l, err)
		}
		spec.Shaping = status.Shaping
	}
	return s.Apply(ctx, spec)
}

// Observe returns what packets meet, and who sees to it. The error wraps
// fs.ErrNotExist when the link has no profile in either direction, or a
// network is not there.
func (s Links) Observe(ctx context.Context, l Link) (Status, error) {
	if l.ByKernel() {
		status, forward, reverse, err := s.observeKernel(ctx, l)
		if err == nil && forward == nil && reverse == nil {
			err = fs.ErrNotExist
		}
		if err != nil {
			return Status{}, fmt.Errorf("observe link %s: %w", l, err)
		}
		return status, nil
	}
	forward, reverse, err := s.observe(ctx, l)
	if err != nil {
		return Status{}, err
	}
	if forward == nil && reverse == nil {
		return Status{}, fmt.Errorf("observe link %s: %w", l, fs.ErrNotExist)
	}
	return Status{Profile: join(forward, reverse)}, nil
}

// observe returns what packets meet in each direction, nil where nothing is
// set.
func (s Links) observe(ctx context.Context, l Link) (forward, reverse *netem.Direction, err error) {
	if l.ByKernel() {
		_, forward, reverse, err := s.observeKernel(ctx, l)
		if err != nil {
			return nil, nil, fmt.Errorf("observe link %s: %w", l, err)
		}
		return forward, reverse, nil
	}
	client, err := underlay.Open(s.Data, l.Network)
	var links []underlay.Link
	if err == nil {
		links, err = client.Links(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("observe link %s: %w", l, err)
	}
	for _, link := range links {
		switch [2]string{link.From, link.To} {
		case [2]string{l.A, l.B}:
			forward = &link.Direction
		case [2]string{l.B, l.A}:
			reverse = &link.Direction
		}
	}
	return forward, reverse, nil
}

// join makes a profile of both directions, of which nil does nothing.
func join(forward, reverse *netem.Direction) (profile netem.Profile) {
	if forward != nil {
		profile.Forward = *forward
	}
	if reverse != nil {
		profile.Reverse = *reverse
	}
	return profile
}

// Remove lets packets pass untouched again. An absent link, network or local
// host is no error.
func (s Links) Remove(ctx context.Context, l Link) error {
	err := s.remove(ctx, l)
	if err != nil {
		return fmt.Errorf("remove link %s: %w", l, err)
	}
	return nil
}

func (s Links) remove(ctx context.Context, l Link) error {
	if l.ByKernel() {
		return s.removeKernel(ctx, l)
	}
	client, err := underlay.Open(s.Data, l.Network)
	if err == nil {
		err = client.SetLink(ctx, l.A, l.B, nil)
	}
	if err == nil {
		err = client.SetLink(ctx, l.B, l.A, nil)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ends returns the ports of both hosts.
func ends(ctx context.Context, client *underlay.Client, l Link) (a, b underlay.Port, err error) {
	ports, err := client.Ports(ctx)
	if err != nil {
		return a, b, err
	}
	for _, port := range ports {
		switch port.Host {
		case l.A:
			a = port
		case l.B:
			b = port
		}
	}
	for name, port := range map[string]underlay.Port{l.A: a, l.B: b} {
		if port.Host == "" {
			return a, b, fmt.Errorf("host %q is not attached to network %q; attach it by the networks of its testbed_local_host", name, l.Network)
		}
	}
	return a, b, nil
}
