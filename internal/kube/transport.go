package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// patience is how long a connection that is refused is tried again, which
// covers the restart of an API server. What takes longer is the business of
// those who wait for it.
const patience = 20 * time.Second

// newTransport returns a transport that has yet to be told how to dial.
// client-go's own transports are shared for the life of the process; this one
// ends with its client.
func newTransport(config *rest.Config, server host.Host) (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	switch {
	case server != nil: // reached from within the host
	case config.Proxy != nil:
		transport.Proxy = config.Proxy
	default:
		transport.Proxy = http.ProxyFromEnvironment
	}
	return transport, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer connects to the API server from within the host, or from this machine
// when there is none.
func dialer(server host.Host) dialFunc {
	if server != nil {
		return server.Dial
	}
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext
}

// persistent dials again what is refused. Nothing was sent by then, so this is
// safe for every request. A host that cannot be asked is not asked again. The
// transport goes on dialling when the request that wanted it has ended, but not
// beyond the client's life.
func persistent(life context.Context, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		limit := time.NewTimer(patience)
		defer limit.Stop()
		for {
			conn, err := dial(ctx, network, address)
			if err == nil {
				return conn, nil
			}
			if errors.Is(err, host.ErrUnreachable) || errors.Is(err, host.ErrNotExist) {
				return nil, fmt.Errorf("connect to the API server at %s: %w", address, err)
			}
			again := time.NewTimer(250 * time.Millisecond)
			select {
			case <-again.C:
				continue
			case <-limit.C:
			case <-ctx.Done():
			}
			again.Stop()
			return nil, fmt.Errorf("connect to the API server at %s: %w", address, err)
		}
	}
}
