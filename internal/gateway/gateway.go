// Package gateway joins two clusters with a pair of plain TCP gateways: one
// haproxy on each, with mutual TLS between them. Pods at the client's side call
// a Service of their own cluster; the gateway behind it takes the connection to
// the other gateway, which takes it to the service by the name in the TLS
// handshake.
//
// A pair passes the same points as ClusterLink and encrypts in the same way,
// but asks nobody whether a connection is allowed. Everything of a pair lies in
// one namespace of each cluster, which is its record; its keys are in Secrets
// there and nowhere else.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// DefaultImage is a long-term release of haproxy by its makers.
const DefaultImage = "docker.io/library/haproxy:3.0"

// Spec describes a pair.
type Spec struct {
	Name         string             // a DNS label of up to 40 characters
	Services     map[string]Service // by the name that pods at the client's side call
	Image        string             // of haproxy, for both gateways
	Address      string             // of the server's gateway; that of a node of its cluster when empty
	NodePort     int                // of the server's gateway; chosen by the cluster when 0
	KeyAlgorithm string             // one of KeyAlgorithms

	// CertificateVersion is any text; certificates are made anew when it
	// differs from that of the certificates in the clusters.
	CertificateVersion string
}

// Service is a service of the server's cluster that the pair makes available.
type Service struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Port       int    `json:"port"`
	ListenPort int    `json:"listen_port"` // that pods at the client's side call
}

func (s Service) host() string { return s.Name + "." + s.Namespace + ".svc.cluster.local" }

// Status is a pair as it is in its clusters.
type Status struct {
	Spec Spec
	Host string // of the server's gateway
}

// URL is where pods at the client's side call a service over HTTP.
func (s Spec) URL(service string) string {
	host := service + "." + s.namespace() + ".svc.cluster.local"
	return "http://" + net.JoinHostPort(host, strconv.Itoa(s.Services[service].ListenPort))
}

// namespace is that of everything of the pair, in both clusters.
func (s Spec) namespace() string { return "testbed-gateway-" + s.Name }

// Pair is where a pair of gateways lives. A cluster that does not exist is nil.
type Pair struct {
	Client, Server *kube.Client
}

// ServiceError reports a service that the server's cluster does not have.
type ServiceError struct {
	Name string // as pods at the client's side would call it
	Err  error
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("take %s to its service: %v", e.Name, e.Err)
}

func (e *ServiceError) Unwrap() error { return e.Err }

// Apply makes the pair run and waits until each service is reached through it.
// Archives are image tarballs on this machine, which are loaded into nodes that
// lack the image.
func (p Pair) Apply(ctx context.Context, spec Spec, archives []string, now time.Time) error {
	if err := p.checkServices(ctx, spec); err != nil {
		return err
	}
	var keys certificates
	// RSA keys take the processor for seconds, so they are made meanwhile.
	group, together := errgroup.WithContext(ctx)
	for _, cluster := range []*kube.Client{p.Client, p.Server} {
		group.Go(func() error { return k3s.LoadArchives(together, cluster, []string{spec.Image}, archives) })
	}
	group.Go(func() (err error) {
		keys, err = p.certificates(together, spec, now)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	gateway, err := p.applyServer(ctx, spec, keys)
	if err != nil {
		return err
	}
	if err := p.applyClient(ctx, spec, keys, gateway); err != nil {
		return err
	}
	for _, side := range []struct {
		cluster *kube.Client
		name    string
	}{{p.Server, serverName}, {p.Client, clientName}} {
		if err := workload.AwaitAvailable(ctx, side.cluster, spec.namespace(), side.name, nil); err != nil {
			return err
		}
	}
	return p.awaitServices(ctx, spec, keys, gateway)
}

// checkServices says at once what a connection through the pair would fail on.
func (p Pair) checkServices(ctx context.Context, spec Spec) error {
	for _, name := range slices.Sorted(maps.Keys(spec.Services)) {
		wanted := spec.Services[name]
		ref := kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: wanted.Namespace, Name: wanted.Name}
		found, err := p.Server.Get(ctx, ref)
		if errors.Is(err, fs.ErrNotExist) {
			return &ServiceError{Name: name, Err: fmt.Errorf("%s has no %s", p.Server.URL(), ref)}
		}
		if err != nil {
			return err
		}
		if ports := servicePorts(found); !slices.Contains(ports, int64(wanted.Port)) {
			return &ServiceError{Name: name, Err: fmt.Errorf("%s of %s has no port %d; it has %v", ref, p.Server.URL(), wanted.Port, ports)}
		}
	}
	return nil
}

func servicePorts(service *unstructured.Unstructured) []int64 {
	var numbers []int64
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, port := range ports {
		p, _ := port.(map[string]any)
		if number, ok := p["port"].(int64); ok {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// applyServer applies the gateway at the server's side and returns where it is
// reached.
func (p Pair) applyServer(ctx context.Context, spec Spec, keys certificates) (gateway string, err error) {
	side := serverSide(spec, keys)
	if err := p.Server.Apply(ctx, append(side.objects(spec), spec.gatewayService())...); err != nil {
		return "", err
	}
	host, port, err := p.gateway(ctx, spec)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// gateway returns where the server's gateway is reached; the port is 0 when its
// Service is gone.
func (p Pair) gateway(ctx context.Context, spec Spec) (host string, port int, err error) {
	service, err := p.Server.Get(ctx, spec.gatewayRef())
	if err == nil {
		ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
		if len(ports) > 0 {
			first, _ := ports[0].(map[string]any)
			number, _ := first["nodePort"].(int64)
			port = int(number)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", 0, err
	}
	if spec.Address != "" {
		return spec.Address, port, nil
	}
	host, err = workload.NodeAddress(ctx, p.Server)
	return host, port, err
}

// applyClient applies the gateway at the client's side, with a Service for each
// service and for no other.
func (p Pair) applyClient(ctx context.Context, spec Spec, keys certificates, gateway string) error {
	side := clientSide(spec, keys, gateway)
	if err := p.Client.Apply(ctx, append(side.objects(spec), spec.clientServices()...)...); err != nil {
		return err
	}
	found, err := p.Client.List(ctx, "v1", "Service", spec.namespace(), workload.Selector(map[string]string{serviceLabel: spec.Name}))
	if err != nil {
		return fmt.Errorf("find the services of gateway pair %s: %w", spec.Name, err)
	}
	var surplus []kube.Ref
	for i := range found {
		if _, ok := spec.Services[found[i].GetName()]; !ok {
			surplus = append(surplus, kube.RefOf(&found[i]))
		}
	}
	return p.Client.Delete(ctx, surplus...)
}

// Observe returns the pair of that name, or an error that wraps fs.ErrNotExist
// when neither cluster has anything of it. What was changed or removed by hand
// is missing from what it returns. Address cannot be read back and is taken as
// given.
func (p Pair) Observe(ctx context.Context, name, address string) (Status, error) {
	spec := Spec{Name: name, Address: address}
	there := 0
	for _, cluster := range []*kube.Client{p.Client, p.Server} {
		if cluster == nil {
			continue
		}
		_, err := cluster.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: spec.namespace()})
		if err == nil {
			there++
		} else if !errors.Is(err, fs.ErrNotExist) {
			return Status{}, err
		}
	}
	switch {
	case there == 0:
		return Status{}, fmt.Errorf("gateway pair %s: %w", name, fs.ErrNotExist)
	case p.Client == nil || p.Server == nil:
		return Status{Spec: spec}, nil
	}
	var status Status
	var err error
	if status.Host, spec.NodePort, err = p.gateway(ctx, spec); err != nil {
		return Status{}, err
	}
	keys, version, err := p.readCertificates(ctx, spec)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Status{}, err
	}
	spec.CertificateVersion, spec.KeyAlgorithm = version, keys.algorithm()
	if spec.Image, err = p.observeImage(ctx, spec); err != nil {
		return Status{}, err
	}
	spec.Services, err = p.observeServices(ctx, spec, keys, net.JoinHostPort(status.Host, strconv.Itoa(spec.NodePort)))
	status.Spec = spec
	return status, err
}

// observeImage returns the image that both gateways run, or none when they
// differ or one of them is gone.
func (p Pair) observeImage(ctx context.Context, spec Spec) (string, error) {
	var images []string
	for _, side := range []struct {
		cluster *kube.Client
		name    string
	}{{p.Client, clientName}, {p.Server, serverName}} {
		deployment, err := side.cluster.Get(ctx, workload.Ref(spec.namespace(), side.name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		if len(containers) == 0 {
			return "", nil
		}
		container, _ := containers[0].(map[string]any)
		image, _ := container["image"].(string)
		images = append(images, image)
	}
	if images[0] != images[1] {
		return "", nil
	}
	return images[0], nil
}

// observeServices returns the services that both gateways are configured for.
// They are none when a configuration is not what is rendered for them, and lack
// those whose Service at the client's side is gone.
func (p Pair) observeServices(ctx context.Context, spec Spec, keys certificates, gateway string) (map[string]Service, error) {
	client, clientText, err := readConfig(ctx, p.Client, spec, clientName)
	if err != nil {
		return nil, err
	}
	server, serverText, err := readConfig(ctx, p.Server, spec, serverName)
	if err != nil {
		return nil, err
	}
	spec.Services = server
	if !reflect.DeepEqual(client, server) ||
		clientText != clientSide(spec, keys, gateway).config || serverText != serverSide(spec, keys).config {
		return nil, nil
	}
	for name, wanted := range server {
		service, err := p.Client.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: spec.namespace(), Name: name})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !slices.Contains(servicePorts(service), int64(wanted.ListenPort)) {
			delete(server, name)
		}
	}
	return server, nil
}

// Remove removes the pair from those of its clusters that exist.
func (p Pair) Remove(ctx context.Context, name string) error {
	spec := Spec{Name: name}
	group, ctx := errgroup.WithContext(ctx)
	for _, cluster := range []*kube.Client{p.Client, p.Server} {
		if cluster == nil {
			continue
		}
		group.Go(func() error {
			// A namespace that is empty goes at once, one with pods some time
			// after them.
			err := cluster.Delete(ctx, workload.Ref(spec.namespace(), clientName), workload.Ref(spec.namespace(), serverName))
			if err != nil {
				return err
			}
			return cluster.Delete(ctx, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: spec.namespace()})
		})
	}
	return group.Wait()
}
