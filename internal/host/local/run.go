package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/control"
)

// stderrTail is how much of a failed command's last words an error carries, in
// bytes.
const stderrTail = 2 << 10

func (c *client) Run(ctx context.Context, command host.Command) (host.Output, error) {
	if len(command.Argv) == 0 {
		return host.Output{}, c.fail(errors.New("there is no program"), "run a command")
	}
	output, err := c.run(ctx, command)
	return output, c.fail(err, "run %s", host.Quote(command.Argv[:1]))
}

func (c *client) run(ctx context.Context, command host.Command) (host.Output, error) {
	body, err := json.Marshal(control.Run{Argv: command.Argv, Env: command.Env, Dir: command.Dir, Stdin: command.Stdin != nil})
	if err != nil {
		return host.Output{}, err
	}
	conn, response, err := c.upgrade(ctx, "/run", nil, body)
	if err != nil {
		return host.Output{}, err
	}
	if response != nil {
		defer response.Body.Close()
		return host.Output{}, refusal(response)
	}
	defer conn.Close()
	// Init ends the command when the connection ends.
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	var stdout, stderr bytes.Buffer
	last := &tail{}
	receiver := receiver{stdout: io.Writer(&stdout), stderr: io.MultiWriter(&stderr, last)}
	if command.Stdout != nil {
		receiver.stdout = command.Stdout
	}
	if command.Stderr != nil {
		receiver.stderr = io.MultiWriter(command.Stderr, last)
	}
	taken := make(chan struct{}, 1)
	if command.Stdin != nil {
		done := make(chan struct{})
		defer close(done)
		// It may stay in a Read of Stdin, which nothing can interrupt, but
		// sends nothing more then.
		go send(conn, command.Stdin, taken, done)
	}
	exit, err := receiver.receive(conn, taken)
	output := host.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	switch {
	case ctx.Err() != nil:
		return output, context.Cause(ctx)
	case err != nil:
		return output, err
	case exit.Error != "":
		return output, told(exit.Error, exit.Absent)
	case exit.Code != 0:
		return output, &host.ExitError{Argv: command.Argv, Code: exit.Code, Stderr: string(last.bytes)}
	}
	return output, nil
}

// upgrade sends a request that switches the connection to another protocol. It
// returns the connection, or the answer of an init that refuses.
func (c *client) upgrade(ctx context.Context, path string, query url.Values, body []byte) (*control.Conn, *http.Response, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	request, err := newRequest(ctx, http.MethodPost, path, query, bytes.NewReader(body))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	reader := bufio.NewReader(conn)
	err = request.Write(conn)
	var response *http.Response
	if err == nil {
		response, err = http.ReadResponse(reader, request)
	}
	if err != nil {
		conn.Close()
		return nil, nil, cause(ctx, err)
	}
	stream, ok := conn.(control.HalfCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !ok {
		response.Body = struct {
			io.Reader
			io.Closer
		}{response.Body, conn}
		return nil, response, nil
	}
	return control.NewConn(stream, reader), nil, nil
}

// send sends input piece by piece, each when the one before was taken.
func send(conn io.Writer, input io.Reader, taken, done <-chan struct{}) {
	buffer := make([]byte, control.MaxFrame)
	for {
		n, err := input.Read(buffer)
		select {
		case <-done:
			return
		default:
		}
		if n > 0 {
			if control.WriteFrame(conn, control.Stdin, buffer[:n]) != nil {
				return
			}
			select {
			case <-taken:
			case <-done:
				return
			}
		}
		if err != nil {
			_ = control.WriteFrame(conn, control.Stdin, nil)
			return
		}
	}
}

// receiver takes what a running command sends.
type receiver struct {
	stdout, stderr io.Writer
}

func (r receiver) receive(conn io.Reader, taken chan<- struct{}) (control.Exit, error) {
	for {
		kind, payload, err := control.ReadFrame(conn)
		if err != nil {
			return control.Exit{}, fmt.Errorf("%w: the connection ended before the command did: %w", host.ErrUnreachable, err)
		}
		switch kind {
		case control.Stdout:
			_, err = r.stdout.Write(payload)
		case control.Stderr:
			_, err = r.stderr.Write(payload)
		case control.StdinTaken:
			taken <- struct{}{}
		case control.Exited:
			var exit control.Exit
			err := json.Unmarshal(payload, &exit)
			return exit, err
		}
		if err != nil {
			return control.Exit{}, fmt.Errorf("pass on the output: %w", err)
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct{ bytes []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if extra := len(t.bytes) - stderrTail; extra > 0 {
		t.bytes = t.bytes[extra:]
	}
	return len(p), nil
}

func (c *client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	query := url.Values{"network": {network}, "address": {address}}
	conn, response, err := c.upgrade(ctx, "/dial", query, nil)
	if err != nil {
		return nil, c.fail(err, "dial %s", address)
	}
	if response != nil {
		defer response.Body.Close()
		return nil, c.fail(dialError(response), "dial %s", address)
	}
	return conn, nil
}

// dialError rebuilds the kind of error that a dial ended with on the host.
func dialError(response *http.Response) error {
	err := refusal(response)
	if number, parseErr := strconv.Atoi(response.Header.Get(control.ErrnoHeader)); parseErr == nil {
		return fmt.Errorf("%w (%w)", err, syscall.Errno(number))
	}
	if response.Header.Get(control.TimeoutHeader) != "" {
		return dialTimeout{err}
	}
	return err
}

// dialTimeout is a net.Error.
type dialTimeout struct{ error }

func (dialTimeout) Timeout() bool   { return true }
func (dialTimeout) Temporary() bool { return true }

var _ net.Error = dialTimeout{}
