package control

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
)

// stderrTail is how much of a failed command's last words an error carries, in
// bytes.
const stderrTail = 2 << 10

// Run runs one program to its end. Cancelling ctx, or losing the connection,
// ends the program.
func (c *Client) Run(ctx context.Context, command host.Command) (host.Output, error) {
	if len(command.Argv) == 0 {
		return host.Output{}, c.Fail(errors.New("there is no program"), "run a command")
	}
	output, err := c.run(ctx, command)
	return output, c.Fail(err, "run %s", host.Quote(command.Argv[:1]))
}

func (c *Client) run(ctx context.Context, command host.Command) (host.Output, error) {
	body, err := json.Marshal(Run{Argv: command.Argv, Env: command.Env, Dir: command.Dir, Stdin: command.Stdin != nil})
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
	// The agent ends the command when the connection ends.
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
// returns the connection, or the answer of an agent that refuses.
func (c *Client) upgrade(ctx context.Context, path string, query url.Values, body []byte) (*Stream, *http.Response, error) {
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
	if response.StatusCode != http.StatusSwitchingProtocols {
		response.Body = struct {
			io.Reader
			io.Closer
		}{response.Body, conn}
		return nil, response, nil
	}
	return NewStream(conn, reader), nil, nil
}

// send sends input piece by piece, each when the one before was taken.
func send(conn io.Writer, input io.Reader, taken, done <-chan struct{}) {
	buffer := make([]byte, MaxFrame)
	for {
		n, err := input.Read(buffer)
		select {
		case <-done:
			return
		default:
		}
		if n > 0 {
			if WriteFrame(conn, Stdin, buffer[:n]) != nil {
				return
			}
			select {
			case <-taken:
			case <-done:
				return
			}
		}
		if err != nil {
			_ = WriteFrame(conn, Stdin, nil)
			return
		}
	}
}

// receiver takes what a running command sends.
type receiver struct {
	stdout, stderr io.Writer
}

func (r receiver) receive(conn io.Reader, taken chan<- struct{}) (Exit, error) {
	for {
		kind, payload, err := ReadFrame(conn)
		if err != nil {
			return Exit{}, fmt.Errorf("%w: the connection ended before the command did: %w", host.ErrUnreachable, err)
		}
		switch kind {
		case Stdout:
			_, err = r.stdout.Write(payload)
		case Stderr:
			_, err = r.stderr.Write(payload)
		case StdinTaken:
			taken <- struct{}{}
		case Exited:
			var exit Exit
			err := json.Unmarshal(payload, &exit)
			return exit, err
		}
		if err != nil {
			return Exit{}, fmt.Errorf("pass on the output: %w", err)
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

// Dial opens a connection from within the host.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	query := url.Values{"network": {network}, "address": {address}}
	stream, response, err := c.upgrade(ctx, "/dial", query, nil)
	if err != nil {
		return nil, c.Fail(err, "dial %s", address)
	}
	if response != nil {
		defer response.Body.Close()
		return nil, c.Fail(dialError(response), "dial %s", address)
	}
	return NewConn(stream), nil
}

// dialError rebuilds the kind of error that a dial ended with on the host.
func dialError(response *http.Response) error {
	err := refusal(response)
	if number, parseErr := strconv.Atoi(response.Header.Get(ErrnoHeader)); parseErr == nil {
		return fmt.Errorf("%w (%w)", err, syscall.Errno(number))
	}
	if response.Header.Get(TimeoutHeader) != "" {
		return dialTimeout{err}
	}
	return err
}

// dialTimeout is a net.Error.
type dialTimeout struct{ error }

func (dialTimeout) Timeout() bool   { return true }
func (dialTimeout) Temporary() bool { return true }

var _ net.Error = dialTimeout{}
