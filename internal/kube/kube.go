// Package kube is the client of Kubernetes clusters.
//
// A cluster is named by a URL: "k3s+HOST-URL", for example
// "k3s+local://edge", is the k3s cluster whose server runs on that host, and
// "kubeconfig:///path?context=NAME" is any cluster that a kubeconfig file on
// this machine describes. Objects are unstructured; what the provider puts
// into a cluster it applies server-side under one field manager.
//
// Errors tell three things apart. An object that is not there, also because
// its kind or its cluster is not, is an fs.ErrNotExist. A cluster that cannot
// be asked is a host.ErrUnreachable, never the former. What the API server
// refuses is neither.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
)

// K3sKubeconfig is the file on a k3s server that holds the administrator's
// credentials.
const K3sKubeconfig = "/etc/rancher/k3s/k3s.yaml"

// requestTimeout bounds one request whose connection hangs; what waits for a
// state polls, but for watches, which are not bounded.
const requestTimeout = 30 * time.Second

// Opener turns cluster URLs into clients.
type Opener struct {
	hosts host.Opener
}

// NewOpener returns an opener that reaches k3s clusters through hosts.
func NewOpener(hosts host.Opener) *Opener {
	return &Opener{hosts: hosts}
}

// Open returns a client of the cluster, which the caller closes. The API
// server is not asked yet. A host, or a k3s on it, that does not exist is an
// fs.ErrNotExist.
func (o *Opener) Open(ctx context.Context, clusterURL string) (*Client, error) {
	config, server, err := o.Kubeconfig(ctx, clusterURL)
	if err != nil {
		return nil, err
	}
	client, err := open(clusterURL, config, server)
	if err != nil {
		return nil, err
	}
	client.hosts = o.hosts
	return client, nil
}

// Kubeconfig returns the one context that a cluster URL names, with all its
// credentials inside, and the host from within which its addresses are to be
// dialled, or nil for this machine.
func (o *Opener) Kubeconfig(ctx context.Context, clusterURL string) (*clientcmdapi.Config, host.Host, error) {
	if hostURL, ok := strings.CutPrefix(clusterURL, "k3s+"); ok {
		server, err := o.hosts.Open(ctx, hostURL)
		if err != nil {
			return nil, nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
		}
		config, err := serverKubeconfig(ctx, server)
		return config, server, err
	}
	parsed, err := url.Parse(clusterURL)
	if err != nil {
		return nil, nil, fmt.Errorf("open cluster: %w", err)
	}
	if parsed.Scheme != "kubeconfig" || parsed.Host != "" || !filepath.IsAbs(parsed.Path) {
		return nil, nil, fmt.Errorf("open cluster %q: a cluster is named \"k3s+HOST-URL\", for example \"k3s+local://edge\", or \"kubeconfig:///absolute/path?context=NAME\"", clusterURL)
	}
	config, err := clientcmd.LoadFromFile(parsed.Path)
	if err == nil {
		if name := parsed.Query().Get("context"); name != "" {
			config.CurrentContext = name
		}
		err = errors.Join(clientcmdapi.MinifyConfig(config), clientcmdapi.FlattenConfig(config))
	}
	if err != nil {
		// A file missing here says nothing about the cluster's objects, so
		// the chain ends.
		return nil, nil, fmt.Errorf("open cluster %s: %v", clusterURL, err)
	}
	return config, nil, nil
}

// OpenServer returns a client of the k3s cluster whose server runs on the host.
func OpenServer(ctx context.Context, server host.Host) (*Client, error) {
	config, err := serverKubeconfig(ctx, server)
	if err != nil {
		return nil, err
	}
	return open("k3s+"+server.URL(), config, server)
}

func serverKubeconfig(ctx context.Context, server host.Host) (*clientcmdapi.Config, error) {
	content, err := server.Read(ctx, K3sKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("open cluster k3s+%s: read its kubeconfig: %w", server.URL(), err)
	}
	config, err := clientcmd.Load(content)
	if err == nil {
		err = clientcmdapi.MinifyConfig(config)
	}
	if err != nil {
		return nil, fmt.Errorf("open cluster k3s+%s: parse %s: %w", server.URL(), K3sKubeconfig, err)
	}
	return config, nil
}

func open(clusterURL string, config *clientcmdapi.Config, server host.Host) (*Client, error) {
	rest, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	return newClient(clusterURL, rest, server)
}

// Client talks to one cluster. It is safe for concurrent use.
type Client struct {
	url    string
	server host.Host
	hosts  host.Opener // nil when the agents' hosts cannot be opened
	base   *url.URL    // of the API server

	transport *http.Transport
	end       func()       // of what is being dialled
	http      *http.Client // with credentials
	rest      rest.Interface
	dynamic   dynamic.Interface
	watching  dynamic.Interface // without a time limit

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]kind
}

func newClient(clusterURL string, config *rest.Config, server host.Host) (*Client, error) {
	config = dynamic.ConfigFor(config)
	config.UserAgent = "terraform-provider-testbed"
	config.WarningHandler = rest.NoWarnings{}
	// The server has its own fairness; these only stop a runaway loop.
	config.QPS, config.Burst = 200, 400

	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	transport, err := newTransport(config, server)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	limited, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: wrapped, Timeout: requestTimeout})
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	unlimited, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: wrapped})
	if err != nil {
		return nil, fmt.Errorf("open cluster %s: %w", clusterURL, err)
	}
	life, end := context.WithCancel(context.Background())
	transport.DialContext = persistent(life, dialer(server))
	return &Client{
		url:       clusterURL,
		server:    server,
		base:      base,
		transport: transport,
		end:       end,
		http:      &http.Client{Transport: wrapped},
		rest:      limited,
		dynamic:   dynamic.New(limited),
		watching:  dynamic.New(unlimited),
		kinds:     map[schema.GroupVersionKind]kind{},
	}, nil
}

// URL returns the name the cluster was opened by.
func (c *Client) URL() string { return c.url }

// Host returns the host of the cluster's first server, and nil for a cluster
// that was opened by its kubeconfig.
func (c *Client) Host() host.Host { return c.server }

// HostAnnotation is on the node of a k3s agent and holds the URL of its host.
const HostAnnotation = "testbed.local/host"

// Hosts returns the hosts of all nodes of a k3s cluster, that of the server
// first, and none for a cluster that was opened by its kubeconfig. Nodes that
// the provider did not make are passed over.
func (c *Client) Hosts(ctx context.Context) ([]host.Host, error) {
	if c.server == nil {
		return nil, nil
	}
	all := []host.Host{c.server}
	if c.hosts == nil {
		return all, nil
	}
	nodes, err := c.List(ctx, "v1", "Node", "", "")
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		url := node.GetAnnotations()[HostAnnotation]
		if url == "" || url == c.server.URL() {
			continue
		}
		h, err := c.hosts.Open(ctx, url)
		if err != nil {
			return nil, fmt.Errorf("open the host of node %s of %s: %w", node.GetName(), c.url, err)
		}
		all = append(all, h)
	}
	return all, nil
}

// Close ends the client's idle connections, and those that are being opened.
func (c *Client) Close() {
	c.end()
	c.transport.CloseIdleConnections()
}

// Raw returns what the API server answers to a GET of a path, for example
// "/readyz".
func (c *Client) Raw(ctx context.Context, path string) ([]byte, error) {
	body, err := c.rest.Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return body, fmt.Errorf("get %s of %s: %w", path, c.url, classify(err))
	}
	return body, nil
}

// kind says how the objects of one kind are addressed.
type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// kind asks the API server for one group and version only, unlike a full
// discovery, which fails as a whole when one aggregated API does. Only what
// was found is remembered, so a kind whose definition comes later is seen.
func (c *Client) kind(ctx context.Context, gvk schema.GroupVersionKind) (kind, error) {
	c.mu.Lock()
	known, ok := c.kinds[gvk]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	found, err := discover(ctx, c.rest, gvk)
	if err != nil {
		return kind{}, err
	}
	c.mu.Lock()
	c.kinds[gvk] = found
	c.mu.Unlock()
	return found, nil
}

func (c *Client) resource(ctx context.Context, ref Ref) (dynamic.ResourceInterface, error) {
	if ref.Name == "" {
		return nil, errors.New("it has no name")
	}
	group, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	found, err := c.kind(ctx, group.WithKind(ref.Kind))
	if err != nil {
		return nil, err
	}
	all := c.dynamic.Resource(found.resource)
	if !found.namespaced {
		return all, nil
	}
	return all.Namespace(ref.namespace()), nil
}

// absent reports whether an error of the API means that the object is not
// there.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
