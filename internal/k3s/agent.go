package k3s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Join makes an agent run on a host as specified, and returns when the cluster
// of the server has it as a node that is Ready. The server has to work. Joining
// again mends what was changed. An input that cannot work is an *InputError,
// and nothing was touched.
func Join(ctx context.Context, server, h host.Host, agent Agent, progress func(message string)) error {
	n, err := agent.node()
	if err != nil {
		return err
	}
	placed, err := n.place(ctx, h, func(ctx context.Context) error { return copyToken(ctx, server, h) }, progress)
	if err != nil {
		return err
	}
	cluster, err := kube.OpenServer(ctx, server)
	if err != nil {
		return fmt.Errorf("join %s to the cluster: %w", h.URL(), err)
	}
	defer cluster.Close()
	known, err := registered(ctx, cluster, h, agent.Name)
	if err != nil {
		return fmt.Errorf("join %s to the cluster: %w", h.URL(), err)
	}
	if err := placed.start(ctx); err != nil {
		return err
	}
	// A kubelet makes its node when it starts, and never again.
	if !known && placed.before != nil {
		if err := placed.restart(ctx); err != nil {
			return err
		}
	}
	if err := awaitAgent(ctx, server, h, agent, progress); err != nil {
		return err
	}
	return cluster.Apply(ctx, annotated(agent.Name, h.URL()))
}

// registered reports whether the cluster has the agent's node. One that a lost
// host of the same name left is removed first, with the password that the
// server would hold against the new one. One that lives on another host is an
// *InputError.
func registered(ctx context.Context, cluster *kube.Client, h host.Host, name string) (bool, error) {
	node, err := cluster.Get(ctx, nodeRef(name))
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	_, err = h.Read(ctx, nodePasswordPath)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return exists, err
	}
	if exists {
		at := node.GetAnnotations()[kube.HostAnnotation]
		if at != h.URL() && condition(node, "Ready")["status"] == "True" {
			return false, &InputError{"name", fmt.Errorf("the cluster has a node %q already, on %s; give this one another name", name, cmp.Or(at, "a host that is not of this testbed"))}
		}
	}
	return false, cluster.Delete(ctx, nodeRef(name), passwordRef(name))
}

// annotated is what the provider adds to a node: where it runs.
func annotated(name, hostURL string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{kube.HostAnnotation: hostURL}},
	}}
}

// copyToken gives an agent the secret that it joins with. The full form names
// the server's CA too, so that the agent talks to no other server.
func copyToken(ctx context.Context, server, h host.Host) error {
	token, err := server.Read(ctx, nodeTokenPath)
	if err != nil {
		return fmt.Errorf("read the token of the server %s: %w", server.URL(), err)
	}
	current, err := h.Read(ctx, tokenPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(current) == string(token) {
		return nil
	}
	return h.Write(ctx, tokenPath, 0o600, strings.NewReader(string(token)))
}

// drainTime bounds the wait for the pods of a node that leaves to end in peace.
const drainTime = time.Minute

// Leave takes a node out of the cluster of the server: its pods move to other
// nodes, k3s is removed from the agent's host, unless that is nil because it is
// gone, and the cluster forgets the node and its password.
func Leave(ctx context.Context, server, h host.Host, cluster, name string, progress func(message string)) error {
	client, err := kube.OpenServer(ctx, server)
	if err != nil {
		return fmt.Errorf("take node %s out of the cluster: %w", name, err)
	}
	defer client.Close()
	if h != nil {
		progress("moving the pods of node " + name)
		if err := drain(ctx, client, name); err != nil && ctx.Err() == nil {
			progress(fmt.Sprintf("removing node %s although not all of its pods ended: %v", name, err))
		}
		if err := RemoveAgent(ctx, h, cluster); err != nil {
			return err
		}
	}
	if err := client.Delete(ctx, nodeRef(name), passwordRef(name)); err != nil {
		return fmt.Errorf("take node %s out of the cluster: %w", name, err)
	}
	return nil
}

// drain ends the pods of a node while it can still end them, and lets no new
// ones come. Those of a DaemonSet would.
func drain(ctx context.Context, cluster *kube.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if _, err := cluster.Get(ctx, nodeRef(name)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	closed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name}, "spec": map[string]any{"unschedulable": true},
	}}
	if err := cluster.Apply(ctx, closed); err != nil {
		return err
	}
	pods, err := cluster.List(ctx, "v1", "Pod", "", "")
	if err != nil {
		return err
	}
	var leaving []kube.Ref
	for i := range pods {
		if node, _, _ := unstructured.NestedString(pods[i].Object, "spec", "nodeName"); node == name && !daemon(&pods[i]) {
			leaving = append(leaving, kube.RefOf(&pods[i]))
		}
	}
	return cluster.Delete(ctx, leaving...)
}

func daemon(pod *unstructured.Unstructured) bool {
	return slices.ContainsFunc(pod.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "DaemonSet" })
}

func nodeRef(name string) kube.Ref { return kube.Ref{APIVersion: "v1", Kind: "Node", Name: name} }

// passwordRef names what the server keeps of a node's password. While it is
// there, only a host that has the password can be the node.
func passwordRef(name string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Secret", Namespace: "kube-system", Name: name + ".node-password.k3s"}
}
