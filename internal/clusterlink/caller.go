package clusterlink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// askTime bounds the questions to a peer.
const askTime = 10 * time.Second

// asking bounds ctx. A ctx whose time is over is replaced, so that the reason
// of a failure can still be found out.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, askTime)
}

// String is the gateway as an address.
func (g Gateway) String() string { return net.JoinHostPort(g.Host, strconv.Itoa(g.Port)) }

// caller asks another peer the questions that the cluster's own control plane
// asks it, from the cluster's host and with the cluster's certificate.
type caller struct {
	http *http.Client
}

func newCaller(ctx context.Context, cluster *kube.Client, peer string) (*caller, error) {
	ctx, cancel := asking(ctx)
	defer cancel()
	object, err := cluster.Get(ctx, secretRef(peerSecret))
	if err != nil {
		return nil, err
	}
	data, err := secretData(object)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(data["cert.pem"], data["key.pem"])
	if err != nil {
		return nil, fmt.Errorf("read the certificate of %s: %w", cluster.URL(), err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data["ca.pem"])
	return &caller{http: &http.Client{Transport: &http.Transport{
		DialContext:     cluster.Host().Dial,
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, ServerName: peer},
	}}}, nil
}

func (c *caller) close() { c.http.CloseIdleConnections() }

// heartbeat asks whether the peer is there, until it says so or time is up.
func (c *caller) heartbeat(ctx context.Context, gateway Gateway) error {
	return c.ask(ctx, http.MethodGet, gateway, "/healthz", nil, func(status int, body string) error {
		if status != http.StatusOK {
			return fmt.Errorf("it answers %d: %s", status, body)
		}
		return nil
	})
}

// exported asks whether the peer exports a service, until it does or time is
// up. Whether it would let anyone use the service is another question.
func (c *caller) exported(ctx context.Context, gateway Gateway, namespace, name string) error {
	question, err := json.Marshal(map[string]any{"ServiceName": name, "ServiceNamespace": namespace})
	if err != nil {
		return err
	}
	return c.ask(ctx, http.MethodPost, gateway, "/authz", question, func(status int, body string) error {
		// The two data planes give the same text with different codes.
		if strings.HasPrefix(body, "Exported service ") && strings.HasSuffix(body, " not found.") {
			return errNotExported
		}
		if status != http.StatusOK && status != http.StatusForbidden {
			return fmt.Errorf("it answers %d: %s", status, body)
		}
		return nil
	})
}

func (c *caller) ask(ctx context.Context, method string, gateway Gateway, path string, question []byte, judge func(status int, body string) error) error {
	ctx, cancel := asking(ctx)
	defer cancel()
	for {
		err := c.once(ctx, method, "https://"+gateway.String()+path, question, judge)
		if err == nil {
			return nil
		}
		again := time.NewTimer(500 * time.Millisecond)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

func (c *caller) once(ctx context.Context, method, url string, question []byte, judge func(status int, body string) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTime/2) // a hanging try leaves time for another
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(question))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return err
	}
	return judge(response.StatusCode, strings.TrimSpace(string(body)))
}
