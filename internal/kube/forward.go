package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Forward makes an address within a host reachable on this machine's loopback,
// for programs that cannot dial through hosts.
type Forward struct {
	listener net.Listener
	server   host.Host
	target   string // host:port, as seen from within the host

	ctx    context.Context
	cancel context.CancelFunc
	conns  sync.WaitGroup
}

// StartForward listens on a free port of the loopback until Close.
func StartForward(server host.Host, target string) (*Forward, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("forward to %s on %s: %w", target, server.URL(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Forward{listener: listener, server: server, target: target, ctx: ctx, cancel: cancel}
	f.conns.Go(f.accept)
	return f, nil
}

// Address returns host:port on this machine.
func (f *Forward) Address() string { return f.listener.Addr().String() }

// Close ends the listener and all connections and waits for them.
func (f *Forward) Close() error {
	f.cancel()
	err := f.listener.Close()
	f.conns.Wait()
	return err
}

func (f *Forward) accept() {
	for {
		conn, err := f.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// Out of descriptors, for example; a busy loop would not help.
			select {
			case <-f.ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		default:
			f.conns.Go(func() { f.serve(conn) })
		}
	}
}

// serve copies both directions until each has ended or the forward is closed.
func (f *Forward) serve(local net.Conn) {
	defer local.Close()
	remote, err := f.server.Dial(f.ctx, "tcp", f.target)
	if err != nil {
		return // the client sees its connection end
	}
	defer remote.Close()
	stop := context.AfterFunc(f.ctx, func() {
		local.Close()
		remote.Close()
	})
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{local, remote}, {remote, local}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			} else {
				way[0].Close()
			}
		})
	}
	both.Wait()
}
