package k3s

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// NodeStatus is what is found of a node on its host.
type NodeStatus struct {
	ConfigYAML   string
	Registries   string // content of registries.yaml
	BinarySHA256 string
	Images       []string // digests of the image archives, sorted

	// Stale is set when the interface between nodes was made anew after k3s
	// started, which has lost its routes since. Apply starts k3s again.
	Stale bool
}

// Status is what is found of a cluster.
type Status struct {
	NodeStatus // of the server

	CASHA256 string // of the API server's CA certificate, in DER

	// Of the API server.
	KubernetesVersion string
	Nodes             []string // sorted
}

// Observe returns what is there of the cluster on a host. A host without k3s
// is an fs.ErrNotExist. When the API server does not answer, the error is a
// host.ErrUnreachable and what was found on the host is returned with it.
func Observe(ctx context.Context, h host.Host) (Status, error) {
	var status Status
	var err error
	status.NodeStatus, err = observeNode(ctx, h, serverService)
	if errors.Is(err, fs.ErrNotExist) {
		return Status{}, err
	}
	if err == nil {
		err = status.ask(ctx, h)
	}
	if errors.Is(err, fs.ErrNotExist) {
		// The service is there, so the cluster is, whatever lacks.
		err = fmt.Errorf("%w: %v", host.ErrUnreachable, err)
	}
	return status, err
}

// ObserveAgent returns what is there of an agent on its host. A host without
// one is an fs.ErrNotExist. Whether the cluster has the node is in its Status.
func ObserveAgent(ctx context.Context, h host.Host) (NodeStatus, error) {
	return observeNode(ctx, h, agentService)
}

func observeNode(ctx context.Context, h host.Host, service string) (NodeStatus, error) {
	running, err := h.Service(ctx, service)
	if errors.Is(err, host.ErrForeign) {
		// Somebody's own k3s has taken the place of the testbed's.
		return NodeStatus{}, fmt.Errorf("look for k3s on %s: %w: %v", h.URL(), host.ErrNotExist, err)
	}
	if err != nil {
		return NodeStatus{}, fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
	}
	var status NodeStatus
	if err := status.look(ctx, h, running); err != nil {
		// The service is there, so the node is, whatever lacks.
		return status, fmt.Errorf("%w: %v", host.ErrUnreachable, err)
	}
	return status, nil
}

// look completes the status by what lies on the host.
func (s *NodeStatus) look(ctx context.Context, h host.Host, service host.ServiceStatus) error {
	for path, content := range map[string]*string{configPath: &s.ConfigYAML, registriesPath: &s.Registries} {
		found, err := h.Read(ctx, path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read %s on %s: %w", path, h.URL(), err)
		}
		*content = string(found)
	}
	var err error
	if s.BinarySHA256, err = digest(ctx, h, binaryPath); err != nil {
		return fmt.Errorf("look for the k3s program on %s: %w", h.URL(), err)
	}
	images, err := listImages(ctx, h)
	if err != nil {
		return fmt.Errorf("look for the image archives on %s: %w", h.URL(), err)
	}
	for _, name := range images {
		s.Images = append(s.Images, name[:2*sha256.Size])
	}
	slices.Sort(s.Images)
	s.Stale, err = stale(ctx, h, service)
	return err
}

// stale reports whether the interface between nodes is another one than when
// the service started. When the overlay's service started since, k3s has to
// have started after it, as the host's init sees to.
func stale(ctx context.Context, h host.Host, service host.ServiceStatus) (bool, error) {
	for _, entry := range service.Service.Env {
		recorded, ok := strings.CutPrefix(entry, deviceKey+"=")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(recorded, ":")
		found, err := listDevices(ctx, h)
		if err != nil || fmt.Sprintf("%s:%d", name, found.index(name)) == recorded {
			return false, err
		}
		overlay, err := h.Service(ctx, overlayService)
		if errors.Is(err, host.ErrNotExist) || errors.Is(err, host.ErrForeign) {
			return true, nil
		}
		return !service.Started.After(overlay.Started), err
	}
	return false, nil
}

// ask completes the status by what the API server says.
func (s *Status) ask(ctx context.Context, h host.Host) error {
	client, err := kube.OpenServer(ctx, h)
	if err != nil {
		return err
	}
	defer client.Close()
	if s.CASHA256, err = caDigest(ctx, h); err != nil {
		return err
	}
	nodes, err := client.List(ctx, "v1", "Node", "", "")
	if err != nil {
		return err
	}
	for _, node := range nodes {
		s.Nodes = append(s.Nodes, node.GetName())
		if version, _, _ := unstructured.NestedString(node.Object, "status", "nodeInfo", "kubeletVersion"); version != "" {
			s.KubernetesVersion = version
		}
	}
	slices.Sort(s.Nodes)
	return nil
}

// caDigest returns the fingerprint of the CA that clients trust.
func caDigest(ctx context.Context, h host.Host) (string, error) {
	content, err := h.Read(ctx, kube.K3sKubeconfig)
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig on %s: %w", h.URL(), err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return "", fmt.Errorf("parse the kubeconfig on %s: %w", h.URL(), err)
	}
	block, _ := pem.Decode(config.CAData)
	if block == nil {
		return "", fmt.Errorf("parse the kubeconfig on %s: it holds no CA certificate", h.URL())
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:]), nil
}
