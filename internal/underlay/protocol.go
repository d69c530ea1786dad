package underlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/netem"
)

// The operations of a daemon. Each connection carries one Request and one
// Response, both JSON.
const (
	OpStatus    = "status"    // everything the daemon knows
	OpConfigure = "configure" // Spec; all but the range may differ
	OpAttach    = "attach"    // Port
	OpDetach    = "detach"    // Host
	OpLink      = "link"      // From, To, Direction; nil removes the link
)

// Request asks a daemon for one operation.
type Request struct {
	Op        string           `json:"op"`
	Spec      *Spec            `json:"spec,omitempty"`
	Port      *Port            `json:"port,omitempty"`
	Host      string           `json:"host,omitempty"`
	From      string           `json:"from,omitempty"`
	To        string           `json:"to,omitempty"`
	Direction *netem.Direction `json:"direction,omitempty"`
}

// Response is what came of it. Status is set for OpStatus.
type Response struct {
	Error  string  `json:"error,omitempty"`
	Status *Status `json:"status,omitempty"`
}

// Status is everything a daemon knows.
type Status struct {
	Spec     Spec       `json:"spec"`
	PID      int        `json:"pid"`
	Ports    []Port     `json:"ports"`
	Links    []Link     `json:"links"`
	Counters []Counters `json:"counters"`
}

// Listen opens the control socket in a network's folder, in place of one that
// an ended daemon left.
func Listen(dir string) (net.Listener, error) {
	if err := os.Remove(filepath.Join(dir, socketFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var listener net.Listener
	err := throughDescriptor(dir, func(short string) (err error) {
		listener, err = net.Listen("unix", short+"/"+socketFile)
		return err
	})
	if err == nil {
		// The name goes through a descriptor that is closed now.
		if unix, ok := listener.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false)
		}
	}
	return listener, err
}

// call sends one request to the daemon of a folder.
func call(ctx context.Context, dir string, request Request) (Response, error) {
	var conn net.Conn
	err := throughDescriptor(dir, func(short string) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", short+"/"+socketFile)
		return err
	})
	if err != nil {
		return Response{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return Response{}, errors.Join(ctx.Err(), err)
	}
	var response Response
	if err := json.NewDecoder(conn).Decode(&response); err != nil {
		return Response{}, errors.Join(ctx.Err(), err)
	}
	if response.Error != "" {
		return response, errors.New(response.Error)
	}
	return response, nil
}

// throughDescriptor lends a short name for a folder, since the path of a unix
// socket has at most 107 bytes.
func throughDescriptor(dir string, use func(short string) error) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()))
}
