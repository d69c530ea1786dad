package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// LoginError reports a host that lets the user in with none of the keys.
type LoginError struct {
	User  string
	Tried string // which keys were tried, and why others were not
	Cause error
}

func (e *LoginError) Error() string {
	return fmt.Sprintf("log in as %s: %s; add a public key of yours to the authorized_keys of %s (ssh-copy-id), or name another user or key (%v)", e.User, e.Tried, e.User, e.Cause)
}

func (e *LoginError) Unwrap() error { return e.Cause }

// ReachError reports a host of which nothing answers at its address.
type ReachError struct {
	Address string // host:port
	Cause   error
}

func (e *ReachError) Error() string { return fmt.Sprintf("reach %s: %v", e.Address, e.Cause) }

func (e *ReachError) Unwrap() error { return e.Cause }

// unreachable marks an error that says nothing about the host's content.
func unreachable(err error) error {
	if err == nil || errors.Is(err, host.ErrUnreachable) || errors.Is(err, context.Canceled) {
		return err
	}
	return &unreachableError{err}
}

// unreachableError is a host.ErrUnreachable, and never an fs.ErrNotExist: the
// absence of a key's file, for example, is not that of a host.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string {
	return host.ErrUnreachable.Error() + ": " + e.cause.Error()
}

func (e *unreachableError) Is(target error) bool {
	return target == host.ErrUnreachable || target != fs.ErrNotExist && errors.Is(e.cause, target)
}

func (e *unreachableError) As(target any) bool { return errors.As(e.cause, target) }

// login is a logged-in SSH connection.
type login struct {
	*ssh.Client
	settings settings
	through  *login // the bastion
}

// Close ends the connection, and those to the bastions it goes through.
func (l *login) Close() error {
	err := l.Client.Close()
	if l.through != nil {
		err = errors.Join(err, l.through.Close())
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// login reaches a host and logs in to it.
func (o *Opener) login(ctx context.Context, target Target) (*login, error) {
	found, err := o.settings(target)
	if err != nil {
		return nil, err
	}
	var through *login
	for _, jump := range found.jumps {
		at, err := o.settings(jump)
		if err != nil {
			return nil, errors.Join(err, closeAll(through))
		}
		next, err := o.enter(ctx, at, through)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("log in to the bastion %s: %w", jump, err), closeAll(through))
		}
		through = next
	}
	entered, err := o.enter(ctx, found, through)
	if err != nil {
		return nil, errors.Join(err, closeAll(through))
	}
	return entered, nil
}

func closeAll(l *login) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

// enter logs in to one host, from this machine or from another host.
func (o *Opener) enter(ctx context.Context, found settings, through *login) (*login, error) {
	check, err := found.checker()
	if err != nil {
		return nil, err
	}
	ring, err := found.keys.open()
	if err != nil {
		return nil, err
	}
	defer ring.close()
	ctx, cancel := context.WithTimeoutCause(ctx, o.config.Timeout, fmt.Errorf("it does not answer within %s", o.config.Timeout))
	defer cancel()
	address := net.JoinHostPort(found.target.Address, strconv.Itoa(int(found.target.Port)))
	dial := o.config.Dial
	if through != nil {
		dial = through.DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, unreachable(&ReachError{address, err})
	}
	// The handshake knows no contexts.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	attempt := &attempt{check: check, ring: ring}
	client, channels, requests, err := ssh.NewClientConn(conn, address, attempt.config(found.target.User))
	if !stop() && err == nil {
		client.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, attempt.explain(ctx, address, found.target.User, err)
	}
	return &login{Client: ssh.NewClient(client, channels, requests), settings: found, through: through}, nil
}

// attempt is one login. It remembers how far it came, since the library's
// errors do not tell.
type attempt struct {
	check   checker
	ring    *ring
	refused error // about the host's key
	asked   bool  // for keys to log in with
}

func (a *attempt) config(user string) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User:              user,
		HostKeyAlgorithms: a.check.algorithms,
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			a.refused = a.check.callback(address, remote, key)
			return a.refused
		},
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			a.asked = true
			return a.ring.signers, nil
		})},
	}
}

func (a *attempt) explain(ctx context.Context, address, user string, err error) error {
	var trouble net.Error
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("log in to %s: %w", address, context.Cause(ctx))
	case a.refused != nil:
		err = a.refused
	case errors.Is(err, io.EOF) || errors.As(err, &trouble):
		err = fmt.Errorf("log in to %s: the connection broke: %w", address, err)
	case a.asked:
		err = &LoginError{User: user, Tried: a.ring.describe(), Cause: err}
	default:
		err = fmt.Errorf("log in to %s: %w", address, err)
	}
	return unreachable(err)
}
