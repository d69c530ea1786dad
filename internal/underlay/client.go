package underlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// Client talks to the daemon of one network.
type Client struct {
	dir, network string
}

// Open finds a network. The error wraps fs.ErrNotExist when there is none.
// Every method's error does so too when the network has no running daemon.
func Open(data datadir.Dir, network string) (*Client, error) {
	c := &Client{dir: data.Network(network), network: network}
	_, err := os.Stat(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no network %q in %s; use the name of a testbed_network: %w", network, data, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("open network %q: %w", network, err)
	}
	return c, nil
}

// Status returns everything the daemon knows.
func (c *Client) Status(ctx context.Context) (Status, error) {
	response, err := c.call(ctx, Request{Op: OpStatus})
	if err != nil {
		return Status{}, err
	}
	return *response.Status, nil
}

// Attach gives a host its place on the network. Attaching the same port again
// does nothing.
func (c *Client) Attach(ctx context.Context, port Port) error {
	_, err := c.call(ctx, Request{Op: OpAttach, Port: &port})
	return err
}

// Detach takes a host off the network. An absent host is no error.
func (c *Client) Detach(ctx context.Context, host string) error {
	_, err := c.call(ctx, Request{Op: OpDetach, Host: host})
	return err
}

// Ports returns the attached hosts, ordered by name.
func (c *Client) Ports(ctx context.Context) ([]Port, error) {
	status, err := c.Status(ctx)
	return status.Ports, err
}

// SetLink says what happens to packets from one host to another from now on;
// nil lets them pass untouched. Packets on their way keep the times they were
// given. Setting the same again changes nothing, not even the sequence of
// fates.
func (c *Client) SetLink(ctx context.Context, from, to string, direction *netem.Direction) error {
	_, err := c.call(ctx, Request{Op: OpLink, From: from, To: to, Direction: direction})
	return err
}

// Links returns the links that are set, ordered by names.
func (c *Client) Links(ctx context.Context) ([]Link, error) {
	status, err := c.Status(ctx)
	return status.Links, err
}

// Counters returns the counters of each ordered pair of attached hosts.
func (c *Client) Counters(ctx context.Context) ([]Counters, error) {
	status, err := c.Status(ctx)
	return status.Counters, err
}

func (c *Client) call(ctx context.Context, request Request) (Response, error) {
	response, err := call(ctx, c.dir, request)
	if absent(err) {
		return response, fmt.Errorf("network %q has no running daemon; apply it again: %w", c.network, fs.ErrNotExist)
	}
	if err != nil {
		return response, fmt.Errorf("network %q: %s: %w", c.network, request.Op, err)
	}
	return response, nil
}

// absent tells from a failed call that no daemon listens.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}
