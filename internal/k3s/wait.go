package k3s

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const (
	pollInterval     = 300 * time.Millisecond
	checkTimeout     = 10 * time.Second // of one look
	progressInterval = 10 * time.Second
	logLines         = 15

	// hopeless is how often the server may end by itself before it is given
	// up. A few ends are normal while its network comes up.
	hopeless = 10
)

// waiter follows a starting node.
type waiter struct {
	host     host.Host // of the node
	server   host.Host
	service  string
	name     string             // of the node
	first    host.ServiceStatus // when the wait began
	status   host.ServiceStatus
	progress func(string)
}

// step is something to wait for. Check says why it is not so yet.
type step struct {
	what  string
	check func(ctx context.Context) error
}

// awaitServer returns when the cluster works, in the order in which k3s comes
// up.
func awaitServer(ctx context.Context, h host.Host, spec Spec, progress func(string)) error {
	w := &waiter{host: h, server: h, service: serverService, name: spec.Name, progress: progress}
	steps := []step{
		{"service k3s to run", w.running},
		{"the API server to answer", w.ping},
		{"the API server to be ready", w.ready},
		{"node " + spec.Name + " to be Ready", w.node},
	}
	if !slices.Contains(spec.Disable, "coredns") {
		steps = append(steps, step{"coredns to be available", w.coredns})
	}
	return w.await(ctx, steps)
}

// awaitAgent returns when the node of an agent is one of the cluster.
func awaitAgent(ctx context.Context, server, h host.Host, agent Agent, progress func(string)) error {
	w := &waiter{host: h, server: server, service: agentService, name: agent.Name, progress: progress}
	return w.await(ctx, []step{
		{"service k3s-agent to run", w.running},
		{"node " + agent.Name + " to be Ready", w.node},
	})
}

func (w *waiter) await(ctx context.Context, steps []step) error {
	first, err := w.host.Service(ctx, w.service)
	if err != nil {
		return fmt.Errorf("look for k3s on %s: %w", w.host.URL(), err)
	}
	w.first, w.status = first, first
	for _, step := range steps {
		if err := w.follow(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (w *waiter) follow(ctx context.Context, step step) error {
	began := time.Now()
	told := began
	w.progress("waiting for " + step.what)
	var why error
	for {
		last := w.look(ctx, step)
		if last == nil {
			return nil
		}
		// The look that ctx cuts off says less than the one before.
		if why == nil || ctx.Err() == nil {
			why = last
		}
		if restarts := w.status.Restarts - w.first.Restarts; restarts >= hopeless {
			return w.failure(ctx, step, fmt.Errorf("it ended %d times, last with %s", restarts, w.status.Exit))
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return w.failure(ctx, step, fmt.Errorf("%w after %s: %v", context.Cause(ctx), time.Since(began).Round(time.Second), why))
		}
		if time.Since(told) >= progressInterval {
			told = time.Now()
			w.progress(fmt.Sprintf("waiting for %s (%s): %v", step.what, time.Since(began).Round(time.Second), why))
		}
	}
}

func (w *waiter) look(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	status, err := w.host.Service(ctx, w.service)
	if err != nil {
		return err
	}
	w.status = status
	return step.check(ctx)
}

// failure tells what was waited for, why in vain, and what k3s said last.
func (w *waiter) failure(ctx context.Context, step step, why error) error {
	err := fmt.Errorf("wait for %s on %s: %w", step.what, w.host.URL(), why)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	log, logErr := w.host.ServiceLog(ctx, w.service, logLines)
	switch text := strings.TrimSpace(string(log)); {
	case logErr != nil:
		return errors.Join(err, fmt.Errorf("read the log of k3s: %w", logErr))
	case text == "":
		return fmt.Errorf("%w; k3s has logged nothing", err)
	default:
		return fmt.Errorf("%w; the last lines of its log are:\n%s", err, text)
	}
}

func (w *waiter) running(context.Context) error {
	if !w.status.Running {
		return fmt.Errorf("it is not running: %s", w.status.Exit)
	}
	return nil
}

// ping asks whether an API server is there at all. Nothing secret is sent, and
// its certificate is not known yet.
func (w *waiter) ping(ctx context.Context) error {
	transport := &http.Transport{
		DialContext:       w.server.Dial,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/ping", APIPort), nil)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 100))
	if err == nil && strings.TrimSpace(string(body)) != "pong" {
		err = fmt.Errorf("GET /ping answers %s: %q", response.Status, body)
	}
	return err
}

func (w *waiter) open(ctx context.Context, use func(*kube.Client) error) error {
	client, err := kube.OpenServer(ctx, w.server)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

func (w *waiter) ready(ctx context.Context) error {
	return w.open(ctx, func(client *kube.Client) error {
		_, err := client.Raw(ctx, "/readyz")
		return err
	})
}

func (w *waiter) node(ctx context.Context) error {
	return w.open(ctx, func(client *kube.Client) error {
		node, err := client.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "Node", Name: w.name})
		if err != nil {
			return err
		}
		ready := condition(node, "Ready")
		// What the kubelet said before the last start says nothing.
		heartbeat, err := time.Parse(time.RFC3339, ready["lastHeartbeatTime"])
		if err != nil || heartbeat.Before(w.status.Started.Truncate(time.Second)) {
			return errors.New("it has not reported since k3s started")
		}
		if ready["status"] != "True" {
			return fmt.Errorf("it is not: %s %s", ready["reason"], ready["message"])
		}
		return nil
	})
}

func (w *waiter) coredns(ctx context.Context) error {
	return w.open(ctx, func(client *kube.Client) error {
		deployment, err := client.Get(ctx, kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "kube-system", Name: "coredns"})
		if err != nil {
			return err
		}
		// The condition Available holds without any pod, since k3s allows one
		// to be missing.
		wanted, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
		available, _, _ := unstructured.NestedInt64(deployment.Object, "status", "availableReplicas")
		if available < max(wanted, 1) {
			return fmt.Errorf("%d of %d pods are available", available, max(wanted, 1))
		}
		return nil
	})
}

// condition returns the fields of a status condition of an object.
func condition(object *unstructured.Unstructured, name string) map[string]string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		fields, ok := item.(map[string]any)
		if !ok || fields["type"] != name {
			continue
		}
		texts := map[string]string{}
		for key, value := range fields {
			texts[key] = fmt.Sprint(value)
		}
		return texts
	}
	return nil
}
