package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const (
	// settle is how long a connection has to stay open to count as carried: a
	// gateway takes every connection and ends it when it leads nowhere.
	settle = 2 * time.Second
	// tryTime bounds one try, tryPause is between two.
	tryTime  = 5 * time.Second
	tryPause = 300 * time.Millisecond
)

// awaitServices waits until the host of the client's cluster reaches each
// service: first through the server's gateway with the certificate of the
// client's, then through both. A cluster without a known host is not asked.
func (p Pair) awaitServices(ctx context.Context, spec Spec, keys certificates, gateway string) error {
	if p.Client.Host() == nil {
		return nil
	}
	identity, err := tls.X509KeyPair(keys.client, keys.client)
	if err != nil {
		return fmt.Errorf("read the certificate of the client's gateway: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for name, service := range spec.Services {
		group.Go(func() error {
			config := &tls.Config{
				ServerName: spec.host(name), RootCAs: keys.roots(), Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS13,
			}
			if err := awaitOpen(ctx, p.Client, gateway, config); err != nil {
				return fmt.Errorf("wait for the gateway of %s at %s to carry %s: %w", p.Server.URL(), gateway, name, err)
			}
			object, err := p.Client.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: spec.namespace(), Name: name})
			if err != nil {
				return err
			}
			address, _, _ := unstructured.NestedString(object.Object, "spec", "clusterIP")
			if err := awaitOpen(ctx, p.Client, net.JoinHostPort(address, strconv.Itoa(service.ListenPort)), nil); err != nil {
				return fmt.Errorf("wait for the gateway of %s to carry %s: %w", p.Client.URL(), name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// awaitOpen waits until a connection from the cluster's host to an address
// stays open.
func awaitOpen(ctx context.Context, cluster *kube.Client, address string, config *tls.Config) error {
	for {
		err := open(ctx, cluster, address, config)
		if err == nil {
			return nil
		}
		again := time.NewTimer(tryPause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// open makes one connection and reports why it does not stay open.
func open(ctx context.Context, cluster *kube.Client, address string, config *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	conn, err := cluster.Host().Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if config != nil {
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secure
	}
	if err := conn.SetReadDeadline(time.Now().Add(settle)); err != nil {
		return err
	}
	// A server that speaks first is as good as one that waits for a request.
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the connection to %s is ended: %w", address, err)
	}
	return nil
}
