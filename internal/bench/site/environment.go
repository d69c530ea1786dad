package site

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// environment is what a run takes place on.
type environment struct {
	Provider string                 `json:"provider"` // version
	Nebula   string                 `json:"nebula"`   // version
	Emulator string                 `json:"emulator"`
	Client   client                 `json:"client"`
	Clusters map[string]clusterInfo `json:"clusters"` // by URL
}

type client struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Pod       string   `json:"pod"`   // the first one
	Node      string   `json:"node"`  // of the first one
	Pods      []member `json:"pods"`  // all
	Image     string   `json:"image"` // its tag starts the digest of the agent
}

type clusterInfo struct {
	Host   *host.Facts `json:"host,omitempty"`
	CPU    string      `json:"cpu,omitempty"` // model
	Nodes  []nodeInfo  `json:"nodes"`
	Images []string    `json:"images"` // of all pods
}

type nodeInfo struct {
	Name       string `json:"name"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel"`
	Kubernetes string `json:"kubernetes"`
	Runtime    string `json:"runtime"`
	CPU        string `json:"cpu"` // Kubernetes quantities
	Memory     string `json:"memory"`
}

func (s Site) environment(ctx context.Context, calling *kube.Client, p *pods, options Options) (environment, error) {
	e := environment{
		Provider: options.Provider,
		Nebula:   moduleVersion("github.com/slackhq/nebula"),
		Emulator: "testbed-agent underlay",
		Client:   client{Cluster: calling.URL(), Namespace: p.ref.Namespace, Pod: p.members[0].Name, Node: p.members[0].Node, Pods: p.members, Image: p.image},
		Clusters: map[string]clusterInfo{},
	}
	var err error
	if e.Clusters[calling.URL()], err = describe(ctx, calling); err != nil {
		return e, err
	}
	for _, url := range options.Others {
		other, err := s.Clusters.Open(ctx, url)
		if err != nil {
			return e, err
		}
		e.Clusters[url], err = describe(ctx, other)
		other.Close()
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// moduleVersion returns the version of a module that this program is built
// from.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return ""
}

func describe(ctx context.Context, cluster *kube.Client) (clusterInfo, error) {
	var info clusterInfo
	nodes, err := cluster.List(ctx, "v1", "Node", "", "")
	if err != nil {
		return info, fmt.Errorf("describe cluster %s: %w", cluster.URL(), err)
	}
	for i := range nodes {
		info.Nodes = append(info.Nodes, describeNode(&nodes[i]))
	}
	pods, err := cluster.List(ctx, "v1", "Pod", "", "")
	if err != nil {
		return info, fmt.Errorf("describe cluster %s: %w", cluster.URL(), err)
	}
	for i := range pods {
		containers, _, _ := unstructured.NestedSlice(pods[i].Object, "spec", "containers")
		for _, container := range containers {
			if c, ok := container.(map[string]any); ok {
				info.Images = append(info.Images, fmt.Sprint(c["image"]))
			}
		}
	}
	slices.Sort(info.Images)
	info.Images = slices.Compact(info.Images)
	if server := cluster.Host(); server != nil {
		facts, err := server.Facts(ctx)
		if err != nil {
			return info, fmt.Errorf("describe cluster %s: %w", cluster.URL(), err)
		}
		info.Host = &facts
		// Not every architecture names its model there.
		if text, err := server.Read(ctx, "/proc/cpuinfo"); err == nil {
			info.CPU = cpuModel(text)
		}
	}
	return info, nil
}

func describeNode(node *unstructured.Unstructured) nodeInfo {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(node.Object, append([]string{"status"}, path...)...)
		return value
	}
	return nodeInfo{
		Name:       node.GetName(),
		OS:         text("nodeInfo", "osImage"),
		Arch:       text("nodeInfo", "architecture"),
		Kernel:     text("nodeInfo", "kernelVersion"),
		Kubernetes: text("nodeInfo", "kubeletVersion"),
		Runtime:    text("nodeInfo", "containerRuntimeVersion"),
		CPU:        text("capacity", "cpu"),
		Memory:     text("capacity", "memory"),
	}
}

// cpuModel returns the model in the text of /proc/cpuinfo, "" without one. That
// of a board, such as a Raspberry Pi, says more than that of its processor.
func cpuModel(text []byte) string {
	model := ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "Model":
			return strings.TrimSpace(value)
		case "model name":
			model = strings.TrimSpace(value)
		}
	}
	return model
}
