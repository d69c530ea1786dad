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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Status is what is found of a cluster.
type Status struct {
	// On the host.
	ConfigYAML   string
	BinarySHA256 string
	Images       []string // digests of the image archives, sorted
	CASHA256     string   // of the API server's CA certificate, in DER

	// Of the API server.
	KubernetesVersion string
	Nodes             []string // sorted
}

// Observe returns what is there of the cluster on a host. A host without k3s
// is an fs.ErrNotExist. When the API server does not answer, the error is a
// host.ErrUnreachable and what was found on the host is returned with it.
func Observe(ctx context.Context, h host.Host) (Status, error) {
	if _, err := h.Service(ctx, serviceName); err != nil {
		return Status{}, fmt.Errorf("look for k3s on %s: %w", h.URL(), err)
	}
	var status Status
	err := status.look(ctx, h)
	if err == nil {
		err = status.ask(ctx, h)
	}
	if errors.Is(err, fs.ErrNotExist) {
		// The service is there, so the cluster is, whatever lacks.
		err = fmt.Errorf("%w: %v", host.ErrUnreachable, err)
	}
	return status, err
}

// look completes the status by what lies on the host.
func (s *Status) look(ctx context.Context, h host.Host) error {
	config, err := h.Read(ctx, configPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the configuration of k3s on %s: %w", h.URL(), err)
	}
	s.ConfigYAML = string(config)
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
	return nil
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
