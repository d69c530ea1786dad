package local

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"path"
	"path/filepath"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/layout"
)

var _ host.Host = (*client)(nil)

// client talks to the init of one host.
type client struct {
	*control.Client
	dir    datadir.Dir
	record record
}

func newClient(dir datadir.Dir, found record) *client {
	c := &client{dir: dir, record: found}
	c.Client = control.NewClient(URL(found.Name), c.connect)
	return c
}

// connect connects to the control socket, which is reached through the root of
// the init: so it is this init's, and there whatever the path of the testbed's
// folder is.
func (c *client) connect(ctx context.Context) (net.Conn, error) {
	socket := fmt.Sprintf("/proc/%d/root%s", c.record.Init.PID, layout.Socket)
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case err == nil && c.record.Init.Alive():
		return conn, nil
	case err == nil:
		conn.Close() // of another process that has got the number
		return nil, fmt.Errorf("the host's init has ended: %w", fs.ErrNotExist)
	case !c.record.Init.Alive():
		return nil, fmt.Errorf("the host's init has ended: %w", fs.ErrNotExist)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %v", host.ErrUnreachable, err) // not wrapped, for the socket's absence is not the host's
}

// Agent installs the agent in the testbed's folder, which the host sees.
func (c *client) Agent(context.Context) (string, error) {
	installed, err := agent.Install(c.dir)
	if err != nil {
		return "", c.Fail(err, "find the agent")
	}
	relative, err := filepath.Rel(c.dir.Agents(), installed)
	if err != nil {
		return "", c.Fail(err, "find the agent")
	}
	return path.Join(layout.Agents, filepath.ToSlash(relative)), nil
}
