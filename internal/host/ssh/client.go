package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/control"
)

// maxStreams is the most requests and dialled connections that a host has at
// one time; more wait.
const maxStreams = 200

// client is one host. Its connection is made when it is first needed, and made
// anew when it has ended.
type client struct {
	*control.Client
	opener *Opener
	target Target
	slots  chan struct{}

	turn    chan struct{} // held while current is looked at or made
	current *connection
}

func newClient(opener *Opener, target Target) *client {
	c := &client{opener: opener, target: target, slots: make(chan struct{}, maxStreams), turn: make(chan struct{}, 1)}
	c.Client = control.NewClient(target.URL(), c.stream)
	return c
}

// Agent returns the path of the agent on the host, which is there once the
// host is connected to.
func (c *client) Agent(ctx context.Context) (string, error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return "", c.Fail(err, "find the agent")
	}
	return conn.agent, nil
}

// stream opens a stream to the agent.
func (c *client) stream(ctx context.Context) (net.Conn, error) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	stream, err := c.openStream(ctx)
	if err != nil {
		<-c.slots
		return nil, err
	}
	return &slotted{Conn: stream, free: sync.OnceFunc(func() { <-c.slots })}, nil
}

// openStream opens a stream, over another connection if the one there was turns
// out to be broken. Nothing was said in it by then, so nothing is done twice.
func (c *client) openStream(ctx context.Context) (net.Conn, error) {
	for tried := false; ; tried = true {
		conn, err := c.connection(ctx)
		if err != nil {
			return nil, err
		}
		stream, err := conn.session.Open(ctx)
		if err == nil {
			return stream, nil
		}
		conn.close()
		if tried || ctx.Err() != nil {
			return nil, unreachable(fmt.Errorf("open a stream: %w", err))
		}
	}
}

// slotted is a stream that gives its slot back when it is closed.
type slotted struct {
	net.Conn
	free func()
}

func (s *slotted) Close() error {
	defer s.free()
	return s.Conn.Close()
}

// connection returns the living connection, or makes one.
func (c *client) connection(ctx context.Context) (*connection, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.current != nil && c.current.alive() {
		return c.current, nil
	}
	if c.current != nil {
		c.current.close()
		c.current = nil
	}
	made, err := c.opener.connect(ctx, c.target)
	if err != nil {
		return nil, unreachable(err)
	}
	c.current = made
	return made, nil
}

// close gives the connection up. It is made anew when it is needed.
func (c *client) close() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.current != nil {
		c.current.close()
		c.current = nil
	}
}

// connection is a session with the agent of a host.
type connection struct {
	session *control.Session
	agent   string // its path on the host
}

func (c *connection) alive() bool {
	select {
	case <-c.session.Done():
		return false
	default:
		return true
	}
}

func (c *connection) close() {
	_ = c.session.Close()
}

// connect logs in to a host, sees to its agent and starts a session with it.
func (o *Opener) connect(ctx context.Context, target Target) (_ *connection, err error) {
	login, err := o.login(ctx, target)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, login.Close())
		}
	}()
	found, err := login.probe(ctx)
	if err != nil {
		return nil, err
	}
	root := rootUser{user: login.settings.target.User, direct: found.root, password: o.config.SudoPassword}
	program, fresh, err := o.install(ctx, login, found, root)
	if err != nil {
		return nil, err
	}
	made, err := o.serve(ctx, login, root, program)
	var refused *RootError
	if err != nil && !fresh && !errors.As(err, &refused) && ctx.Err() == nil {
		// The agent that was there may be damaged.
		found.installed = nil
		if _, _, again := o.install(ctx, login, found, root); again != nil {
			return nil, errors.Join(err, again)
		}
		made, err = o.serve(ctx, login, root, program)
	}
	return made, err
}

// serve starts the agent on a host and a session with it.
func (o *Opener) serve(ctx context.Context, login *login, root rootUser, program string) (*connection, error) {
	process, err := login.startRoot(root, program+" serve")
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { login.Close() })
	begin := control.Begin{Owner: o.config.Owner, Keepalive: o.config.Keepalive, Patience: o.config.Patience}
	session, err := control.Connect(processConn{process}, begin)
	if !stop() && err == nil {
		session.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start the agent: %w", process.ended(ctx, err))
	}
	return &connection{session: session, agent: program}, nil
}

// endTime is for a program to say how it ended after its output has.
const endTime = 5 * time.Second

// ended explains an agent that does not answer, by how it ended.
func (p *rootProcess) ended(ctx context.Context, err error) error {
	defer time.AfterFunc(endTime, func() { p.login.Close() }).Stop()
	ended := p.session.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unknown *ssh.ExitMissingError
	if ended == nil || errors.As(ended, &unknown) {
		ended = err
	}
	return p.explain(ended)
}

// processConn is a program's input and output as one connection.
type processConn struct{ *rootProcess }

func (p processConn) Read(b []byte) (int, error)  { return p.output.Read(b) }
func (p processConn) Write(b []byte) (int, error) { return p.input.Write(b) }

// Close ends the whole SSH connection.
func (p processConn) Close() error { return p.login.Close() }
