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

// newTransport connects to the API server from within the host, or from this
// machine when there is none. client-go's own transports are shared for the
// life of the process; this one ends with its client.
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
	if server != nil {
		transport.DialContext = persistent(server.Dial)
		return transport, nil
	}
	transport.DialContext = persistent((&net.Dialer{Timeout: 10 * time.Second}).DialContext)
	transport.Proxy = http.ProxyFromEnvironment
	if config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	return transport, nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// persistent dials again what is refused. Nothing was sent by then, so this
// is safe for every request. A host that cannot be asked is not asked again.
func persistent(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
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
