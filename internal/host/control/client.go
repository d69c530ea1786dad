package control

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
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// Client asks the agent of one host for everything that a host.Host does, but
// for the agent's own path.
type Client struct {
	url     string
	connect func(ctx context.Context) (net.Conn, error)
	http    *http.Client
	now     func() time.Time
}

// NewClient returns the client for the host of that URL. Each request gets a
// stream of its own from connect, whose errors tell an absent host
// (fs.ErrNotExist) from one that cannot be asked (host.ErrUnreachable).
func NewClient(url string, connect func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{url: url, connect: connect, now: time.Now, http: &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
		DisableKeepAlives: true, // a stream is cheap, and none outlives its use
	}}}
}

// do sends a request and returns the body of a successful answer.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body io.Reader) (io.ReadCloser, error) {
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
	address := url.URL{Scheme: "http", Host: "host", Path: path, RawQuery: query.Encode()}
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
	if response.StatusCode == http.StatusConflict {
		return foreign(strings.TrimSpace(string(text)))
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

// foreign is a host.ErrForeign in the words of the host.
type foreign string

func (e foreign) Error() string        { return string(e) }
func (e foreign) Is(target error) bool { return target == host.ErrForeign }

// URL returns the name the host was opened by.
func (c *Client) URL() string { return c.url }

// Fail says what was tried on which host. It is nil for nil.
func (c *Client) Fail(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s on %s: %w", fmt.Sprintf(format, args...), c.url, err)
}

// act sends a request whose answer has no content.
func (c *Client) act(ctx context.Context, method, path string, query url.Values, body io.Reader) error {
	answer, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	return answer.Close()
}

// ask sends a request whose answer is JSON.
func (c *Client) ask(ctx context.Context, path string, value any) error {
	answer, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	return json.NewDecoder(answer).Decode(value)
}

// Facts returns what the host is.
func (c *Client) Facts(ctx context.Context) (host.Facts, error) {
	var facts host.Facts
	// The host reads its clock between these two, and after the connection is
	// there, which may take long.
	before := c.now()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { before = c.now() }})
	err := c.ask(traced, "/facts", &facts)
	facts.ClockError = c.now().Sub(before) / 2
	facts.ClockOffset = facts.Clock.Sub(before.Add(facts.ClockError))
	return facts, c.Fail(err, "find facts")
}

// Read returns the content of a file.
func (c *Client) Read(ctx context.Context, path string) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, "/file", url.Values{"path": {path}}, nil)
	if err != nil {
		return nil, c.Fail(err, "read %s", path)
	}
	defer answer.Close()
	content, err := io.ReadAll(answer)
	if err != nil {
		return nil, c.Fail(cause(ctx, err), "read %s", path)
	}
	return content, nil
}

// Write replaces a file at once and makes its parent folders.
func (c *Client) Write(ctx context.Context, path string, mode fs.FileMode, content io.Reader) error {
	query := url.Values{"path": {path}, "mode": {strconv.FormatUint(uint64(mode.Perm()), 8)}}
	return c.Fail(c.act(ctx, http.MethodPut, "/file", query, content), "write %s", path)
}

// Remove removes a file or a whole folder.
func (c *Client) Remove(ctx context.Context, path string) error {
	return c.Fail(c.act(ctx, http.MethodDelete, "/file", url.Values{"path": {path}}, nil), "remove %s", path)
}

func servicePath(name string) string { return "/services/" + name }

// StartService makes the service run as specified.
func (c *Client) StartService(ctx context.Context, service host.Service) error {
	body, err := json.Marshal(service)
	if err == nil {
		err = c.act(ctx, http.MethodPut, servicePath(service.Name), nil, bytes.NewReader(body))
	}
	return c.Fail(err, "start service %s", service.Name)
}

// Service returns the state of a service.
func (c *Client) Service(ctx context.Context, name string) (host.ServiceStatus, error) {
	var status host.ServiceStatus
	err := c.ask(ctx, servicePath(name), &status)
	return status, c.Fail(err, "find service %s", name)
}

// RestartService ends the service's processes and starts it again.
func (c *Client) RestartService(ctx context.Context, name string) error {
	return c.Fail(c.act(ctx, http.MethodPost, servicePath(name)+"/restart", nil, nil), "restart service %s", name)
}

// SignalService sends a signal to the service's main process.
func (c *Client) SignalService(ctx context.Context, name string, signal syscall.Signal) error {
	query := url.Values{"number": {strconv.Itoa(int(signal))}}
	return c.Fail(c.act(ctx, http.MethodPost, servicePath(name)+"/signal", query, nil), "signal service %s", name)
}

// ServiceLog returns the last lines that the service wrote.
func (c *Client) ServiceLog(ctx context.Context, name string, lines int) ([]byte, error) {
	answer, err := c.do(ctx, http.MethodGet, servicePath(name)+"/log", url.Values{"lines": {strconv.Itoa(lines)}}, nil)
	if err != nil {
		return nil, c.Fail(err, "read the log of service %s", name)
	}
	defer answer.Close()
	content, err := io.ReadAll(answer)
	return content, c.Fail(err, "read the log of service %s", name)
}

// StopService ends the service with all its processes and forgets it.
func (c *Client) StopService(ctx context.Context, name string) error {
	return c.Fail(c.act(ctx, http.MethodDelete, servicePath(name), nil, nil), "stop service %s", name)
}
