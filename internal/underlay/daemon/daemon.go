// Package daemon is the process behind one network. It owns a TUN device in
// each attached host and carries IP packets from one to the other, with the
// impairment of their ordered pair of hosts.
//
// Super-packets, which the kernel hands over in place of many packets of one
// flow, count as the packets they stand for: each has a fate of its own. Only
// neighbours that share a fate and a time stay together.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/underlay"
)

// Run is the daemon of the network in a folder. It calls ready once it answers
// and returns when ctx ends.
func Run(ctx context.Context, dir string, ready func()) error {
	n, err := restore(dir)
	if err != nil {
		return fmt.Errorf("restore the network in %s: %w", dir, err)
	}
	defer n.close()
	listener, err := underlay.Listen(dir)
	if err != nil {
		return fmt.Errorf("open the control socket in %s: %w", dir, err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	ready()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a call: %w", err)
		}
		calls.Go(func() { n.serve(conn) })
	}
}

// serve answers one request.
func (n *network) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var request underlay.Request
	if err := json.NewDecoder(conn).Decode(&request); err != nil {
		log.Printf("read a request: %v", err)
		return
	}
	var response underlay.Response
	if err := n.do(request, &response); err != nil {
		response.Error = err.Error()
	}
	if err := json.NewEncoder(conn).Encode(response); err != nil {
		log.Printf("answer %s: %v", request.Op, err)
	}
}

func (n *network) do(request underlay.Request, response *underlay.Response) error {
	switch request.Op {
	case underlay.OpStatus:
		status := n.status()
		response.Status = &status
		return nil
	case underlay.OpConfigure:
		if request.Spec == nil {
			return errors.New("a specification is missing")
		}
		return n.configure(*request.Spec)
	case underlay.OpAttach:
		if request.Port == nil {
			return errors.New("a port is missing")
		}
		return n.attach(*request.Port)
	case underlay.OpDetach:
		return n.detach(request.Host)
	case underlay.OpLink:
		return n.setLink(request.From, request.To, request.Direction)
	}
	return fmt.Errorf("unknown operation %q", request.Op)
}
