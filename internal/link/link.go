// Package link puts netem profiles on the path between two local hosts, reads
// them back and measures, on the hosts, whether packets meet them.
package link

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Link is the path between two hosts of a network. Forward is from A to B.
type Link struct {
	Network, A, B string
}

// Parse reads what String prints.
func Parse(id string) (Link, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Link{}, fmt.Errorf("%q is not a link; write NETWORK/HOST/HOST, for example \"wan/edge/cloud\"", id)
	}
	return Link{Network: parts[0], A: parts[1], B: parts[2]}, nil
}

// String names the link, "network/a/b".
func (l Link) String() string { return l.Network + "/" + l.A + "/" + l.B }

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
func Create(ctx context.Context, data datadir.Dir, l Link, profile netem.Profile) error {
	unlock, err := data.Lock(ctx, data.Network(l.Network))
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrNotExist) { // of which Apply tells
		return fmt.Errorf("create link %s: %w", l, err)
	}
	forward, reverse, err := observe(ctx, data, l)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if forward != nil && !forward.Equal(profile.Forward) || reverse != nil && !reverse.Equal(profile.Reverse) {
		return &OtherProfileError{l, join(forward, reverse)}
	}
	return Apply(ctx, data, l, profile)
}

// Apply makes packets between both hosts meet the profile from now on, in place
// of the one before. Both hosts have to be attached.
func Apply(ctx context.Context, data datadir.Dir, l Link, profile netem.Profile) error {
	client, err := underlay.Open(data, l.Network)
	if err != nil {
		return fmt.Errorf("apply link %s: %w", l, err)
	}
	if _, _, err := ends(ctx, client, l); err != nil {
		return fmt.Errorf("apply link %s: %w", l, err)
	}
	if err := client.SetLink(ctx, l.A, l.B, &profile.Forward); err != nil {
		return fmt.Errorf("apply link %s: %w", l, err)
	}
	if err := client.SetLink(ctx, l.B, l.A, &profile.Reverse); err != nil {
		return fmt.Errorf("apply link %s: %w", l, err)
	}
	return nil
}

// Observe returns the profile that packets meet. The error wraps
// fs.ErrNotExist when the link has none in either direction, or the network is
// not there.
func Observe(ctx context.Context, data datadir.Dir, l Link) (netem.Profile, error) {
	forward, reverse, err := observe(ctx, data, l)
	if err != nil {
		return netem.Profile{}, err
	}
	if forward == nil && reverse == nil {
		return netem.Profile{}, fmt.Errorf("observe link %s: %w", l, fs.ErrNotExist)
	}
	return join(forward, reverse), nil
}

// observe returns what packets meet in each direction, nil where nothing is
// set.
func observe(ctx context.Context, data datadir.Dir, l Link) (forward, reverse *netem.Direction, err error) {
	client, err := underlay.Open(data, l.Network)
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

// Remove lets packets pass untouched again. An absent link or network is no
// error.
func Remove(ctx context.Context, data datadir.Dir, l Link) error {
	client, err := underlay.Open(data, l.Network)
	if err == nil {
		err = client.SetLink(ctx, l.A, l.B, nil)
	}
	if err == nil {
		err = client.SetLink(ctx, l.B, l.A, nil)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove link %s: %w", l, err)
	}
	return nil
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
