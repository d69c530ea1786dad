package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/agent"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/datadir"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local/control"
)

var _ host.Host = (*client)(nil)

// client talks to the init of one host.
type client struct {
	dir    datadir.Dir
	record record
	http   *http.Client
}

func newClient(dir datadir.Dir, found record) *client {
	c := &client{dir: dir, record: found}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.connect(ctx) },
		DisableKeepAlives: true, // a connection is cheap, and none outlives its use
	}}
	return c
}

// connect connects to the control socket, which is reached through the root of
// the init: so it is this init's, and there whatever the path of the testbed's
// folder is.
func (c *client) connect(ctx context.Context) (net.Conn, error) {
	socket := fmt.Sprintf("/proc/%d/root%s", c.record.Init.PID, control.Socket)
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

// do sends a request and returns the body of a successful answer.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (io.ReadCloser, error) {
	request, err := newRequest(ctx, method, path, query, body)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	return nil, refusal(response)
}

func newRequest(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	address := url.URL{Scheme: "http", Host: "init", Path: path, RawQuery: query.Encode()}
	return http.NewRequestWithContext(ctx, method, address.String(), body)
}

// cause strips what the HTTP client says about its own address. A connection
// that broke says nothing about the host's content.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrUnreachable) {
		return err
	}
	return fmt.Errorf("%w: %w", host.ErrUnreachable, err)
}

// refusal is the error that an answer tells.
func refusal(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("%w: %w", host.ErrUnreachable, err)
	}
	return told(strings.TrimSpace(string(text)), response.StatusCode == http.StatusNotFound)
}

// told returns an error with a text from the host.
func told(text string, absent bool) error {
	if absent {
		return notExist(text)
	}
	return errors.New(text)
}

// notExist is an fs.ErrNotExist in the words of the host.
type notExist string

func (e notExist) Error() string        { return string(e) }
func (e notExist) Is(target error) bool { return target == fs.ErrNotExist }

// fail says what was tried on which host.
func (c *client) fail(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s on %s: %w", fmt.Sprintf(format, args...), c.URL(), err)
}

// act sends a request whose answer has no content.
func (c *client) act(ctx context.Context, method, path string, query url.Values, body io.Reader) error {
	answer, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	return answer.Close()
}

// ask sends a request whose answer is JSON.
func (c *client) ask(ctx context.Context, path string, value any) error {
	answer, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	return json.NewDecoder(answer).Decode(value)
}

func (c *client) URL() string { return URL(c.record.Name) }

func (c *client) Facts(ctx context.Context) (host.Facts, error) {
	var facts host.Facts
	err := c.ask(ctx, "/facts", &facts)
	return facts, c.fail(err, "find facts")
}

func (c *client) Agent(context.Context) (string, error) {
	installed, err := agent.Install(c.dir)
	if err != nil {
		return "", c.fail(err, "find the agent")
	}
	relative, err := filepath.Rel(c.dir.Agents(), installed)
	if err != nil {
		return "", c.fail(err, "find the agent")
	}
	return path.Join(control.Agents, filepath.ToSlash(relative)), nil
}

func (c *client) Read(ctx context.Context, path string) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, "/file", url.Values{"path": {path}}, nil)
	if err != nil {
		return nil, c.fail(err, "read %s", path)
	}
	defer answer.Close()
	content, err := io.ReadAll(answer)
	if err != nil {
		return nil, c.fail(cause(ctx, err), "read %s", path)
	}
	return content, nil
}

func (c *client) Write(ctx context.Context, path string, mode fs.FileMode, content io.Reader) error {
	query := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}
	return c.fail(c.act(ctx, http.MethodPut, "/file", query, content), "write %s", path)
}

func (c *client) Remove(ctx context.Context, path string) error {
	return c.fail(c.act(ctx, http.MethodDelete, "/file", url.Values{"path": {path}}, nil), "remove %s", path)
}

func servicePath(name string) string { return "/services/" + name }

func (c *client) StartService(ctx context.Context, service host.Service) error {
	body, err := json.Marshal(service)
	if err == nil {
		err = c.act(ctx, http.MethodPut, servicePath(service.Name), nil, bytes.NewReader(body))
	}
	return c.fail(err, "start service %s", service.Name)
}

func (c *client) Service(ctx context.Context, name string) (host.ServiceStatus, error) {
	var status host.ServiceStatus
	err := c.ask(ctx, servicePath(name), &status)
	return status, c.fail(err, "find service %s", name)
}

func (c *client) RestartService(ctx context.Context, name string) error {
	return c.fail(c.act(ctx, http.MethodPost, servicePath(name)+"/restart", nil, nil), "restart service %s", name)
}

func (c *client) SignalService(ctx context.Context, name string, signal syscall.Signal) error {
	query := url.Values{"number": {strconv.Itoa(int(signal))}}
	return c.fail(c.act(ctx, http.MethodPost, servicePath(name)+"/signal", query, nil), "signal service %s", name)
}

func (c *client) ServiceLog(ctx context.Context, name string, lines int) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, servicePath(name)+"/log", url.Values{"lines": {strconv.Itoa(lines)}}, nil)
	if err != nil {
		return nil, c.fail(err, "read the log of service %s", name)
	}
	defer answer.Close()
	content, err := io.ReadAll(answer)
	return content, c.fail(err, "read the log of service %s", name)
}

func (c *client) StopService(ctx context.Context, name string) error {
	return c.fail(c.act(ctx, http.MethodDelete, servicePath(name), nil, nil), "stop service %s", name)
}
