package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

func TestParse(t *testing.T) {
	objects, err := kube.Parse([]byte(`# a comment only
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: a}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}}
---
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range objects {
		got = append(got, kube.RefOf(object).String())
	}
	if diff := cmp.Diff([]string{"Namespace a", "ConfigMap a/b", "Deployment c"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"a: b: c", "metadata: {name: a}", "- 1"} {
		if _, err := kube.Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), "document 1") {
			t.Errorf("Parse(%q) = %v, want an error of document 1", bad, err)
		}
	}
}

func TestOpen(t *testing.T) {
	s := newAPIServer(t)
	empty := s.host()
	empty.files = nil
	for name, test := range map[string]struct {
		opener *kube.Opener
		url    string
		absent bool
		text   string
	}{
		"no host":       {kube.NewOpener(s.host()), "k3s+local://cloud", true, "open cluster k3s+local://cloud"},
		"no k3s":        {kube.NewOpener(empty), "k3s+local://edge", true, "kubeconfig"},
		"no kubeconfig": {kube.NewOpener(nil), "kubeconfig:///nowhere", false, "/nowhere"},
		"no context":    {kube.NewOpener(nil), "kubeconfig://" + writeFile(t, s.kubeconfig()) + "?context=other", false, "other"},
		"other scheme":  {kube.NewOpener(nil), "https://example.net", false, "k3s+local://edge"},
		"relative path": {kube.NewOpener(nil), "kubeconfig://config", false, "absolute/path"},
	} {
		_, err := test.opener.Open(t.Context(), test.url)
		if err == nil || errors.Is(err, fs.ErrNotExist) != test.absent || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v, want one with %q that is absent: %t", name, err, test.text, test.absent)
		}
	}
	client, err := kube.NewOpener(nil).Open(t.Context(), "kubeconfig://"+writeFile(t, s.kubeconfig())+"?context=default")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if client.Host() != nil {
		t.Errorf("host of a kubeconfig cluster is %v, want none", client.Host())
	}
	if _, err := client.List(t.Context(), "v1", "Namespace", "", ""); err != nil {
		t.Error(err)
	}
}

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

const settings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: lab, labels: {app: x}}, data: {key: value}}`

func TestObjects(t *testing.T) {
	s := newAPIServer(t)
	client := s.open(t)
	ctx := t.Context()

	// The namespace comes last in the text and is applied first.
	objects := parse(t, settings+"\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: lab}}")
	if err := client.Apply(ctx, objects...); err != nil {
		t.Fatal(err)
	}
	ref := kube.RefOf(objects[0])
	got, err := client.Get(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects[0].Object, got.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	for selector, want := range map[string]int{"": 1, "app=x": 1, "app=y": 0} {
		items, err := client.List(ctx, "v1", "ConfigMap", "lab", selector)
		if err != nil || len(items) != want {
			t.Errorf("List(%q) = %d items, %v, want %d", selector, len(items), err, want)
		}
	}
	for range 2 { // the second time it is absent
		if err := client.Delete(ctx, ref); err != nil {
			t.Fatal(err)
		}
	}
	for _, absent := range []kube.Ref{ref, {APIVersion: "v1", Kind: "Widget", Name: "w"}, {APIVersion: "example.net/v1", Kind: "Widget", Name: "w"}} {
		if _, err := client.Get(ctx, absent); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, host.ErrUnreachable) {
			t.Errorf("Get(%v) = %v, want that it does not exist", absent, err)
		}
		if err := client.Delete(ctx, absent); err != nil {
			t.Errorf("Delete(%v) = %v", absent, err)
		}
	}
	if _, err := client.List(ctx, "example.net/v1", "Widget", "", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List of an unknown kind = %v, want that it does not exist", err)
	}
}

func TestApplyWaitsForWhatItNeeds(t *testing.T) {
	s := newAPIServer(t)
	client := s.open(t)
	var refused atomic.Int32
	s.refuse = func(r *http.Request) (int, string) {
		// A webhook that is not up yet.
		if r.Method == http.MethodPatch && refused.Add(1) < 3 {
			return 500, "InternalError"
		}
		return 0, ""
	}
	time.AfterFunc(500*time.Millisecond, func() {
		s.set(func() {
			s.kinds["/apis/example.net/v1"] = `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}`
			s.objects["/api/v1/namespaces/lab"] = map[string]any{}
		})
	})
	objects := parse(t, `{apiVersion: example.net/v1, kind: Widget, metadata: {name: w, namespace: lab}}`)
	if err := client.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(t.Context(), kube.RefOf(objects[0])); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	err := client.Apply(ctx, parse(t, `{apiVersion: example.net/v2, kind: Widget, metadata: {name: w}}`)...)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Widget w") || !strings.Contains(err.Error(), "example.net/v2") {
		t.Errorf("Apply of an unknown kind = %v, want the deadline, the object and its kind", err)
	}
	s.set(func() { s.refuse = func(*http.Request) (int, string) { return 422, "Invalid" } })
	if err := client.Apply(t.Context(), objects...); err == nil || !strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("Apply of an invalid object = %v, want the server's refusal at once", err)
	}
}

func TestDeleteNamesFinalizers(t *testing.T) {
	s := newAPIServer(t)
	s.objects["/api/v1/namespaces/lab"] = map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "lab", "finalizers": []any{"example.net/hold"}},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := s.open(t).Delete(ctx, kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: "lab"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "example.net/hold") {
		t.Errorf("error %v, want the deadline and the finalizer", err)
	}
}

func TestWait(t *testing.T) {
	s := newAPIServer(t)
	client := s.open(t)
	ref := kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "lab", Name: "settings"}
	ready := func(o *unstructured.Unstructured) (bool, string) {
		value, _, _ := unstructured.NestedString(o.Object, "data", "key")
		return value == "done", "key is " + value
	}
	put := func(value string) {
		s.set(func() {
			s.objects["/api/v1/namespaces/lab/configmaps/settings"] = map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"key": value},
			}
		})
	}
	fails := func(why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		_, err := client.Wait(ctx, ref, "Done", ready)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want the deadline only", err)
		}
		for _, text := range []string{"ConfigMap lab/settings", "k3s+local://edge", "Done", why} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %q lacks %q", err, text)
			}
		}
	}
	fails("it does not exist")
	put("begun")
	fails("key is begun")
	time.AfterFunc(400*time.Millisecond, func() { put("done") })
	if _, err := client.Wait(t.Context(), ref, "Done", ready); err != nil {
		t.Fatal(err)
	}
}

func TestPods(t *testing.T) {
	client := newAPIServer(t).open(t)
	log, err := client.Logs(t.Context(), "lab", "pod", "main", 3)
	if err != nil || string(log) != "container main, 3 lines\n" {
		t.Errorf("Logs = %q, %v", log, err)
	}
	base, proxied := client.PodProxy("lab", "pod", 8080)
	resp, err := proxied.Get(base + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if want := "proxied /api/v1/namespaces/lab/pods/pod:8080/proxy/healthz"; string(body) != want {
		t.Errorf("proxy answers %q, want %q", body, want)
	}
}

// An API server that restarts refuses connections for a while; a host that
// went away does not come back, and neither counts as an absent object.
func TestUnreachable(t *testing.T) {
	s := newAPIServer(t)
	machine := s.host()
	var refused atomic.Int32
	machine.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if refused.Add(1) < 3 {
			return nil, syscall.ECONNREFUSED
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	open := func() *kube.Client {
		client, err := kube.OpenServer(t.Context(), machine)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	if _, err := open().List(t.Context(), "v1", "Namespace", "", ""); err != nil {
		t.Errorf("after two refusals: %v", err)
	}

	machine.dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, fmt.Errorf("open the control socket: %w", fs.ErrNotExist)
	}
	client := open()
	namespace := kube.Ref{APIVersion: "v1", Kind: "Namespace", Name: "lab"}
	_, err := client.Get(t.Context(), namespace)
	if !errors.Is(err, host.ErrUnreachable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get = %v, want that it is unreachable", err)
	}
	if err := client.Delete(t.Context(), namespace); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("Delete = %v, want that it is unreachable", err)
	}

	machine.dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if _, err := open().Get(ctx, namespace); !errors.Is(err, host.ErrUnreachable) {
		t.Errorf("Get with nobody listening = %v, want that it is unreachable", err)
	}
}

func TestForward(t *testing.T) {
	s := newAPIServer(t)
	machine := s.host()
	forward, err := kube.StartForward(machine, s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	config, server, err := kube.NewOpener(machine).Kubeconfig(t.Context(), "k3s+local://edge")
	if err != nil || server != host.Host(machine) {
		t.Fatal(server, err)
	}
	config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server = "https://" + forward.Address()
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.NewOpener(nil).Open(t.Context(), "kubeconfig://"+writeFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.List(t.Context(), "v1", "Namespace", "", ""); err != nil {
		t.Error(err)
	}
	// It ends with a connection still open.
	if err := forward.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", forward.Address()); err == nil {
		t.Error("the forward still listens")
	}
}

func TestWatch(t *testing.T) {
	s := newAPIServer(t)
	s.events = make(chan string)
	client := s.open(t)
	if err := client.Apply(t.Context(), parse(t, strings.ReplaceAll(settings, "namespace: lab", "namespace: default"))...); err != nil {
		t.Fatal(err)
	}
	now, changes, err := client.Watch(t.Context(), "v1", "ConfigMap", "default", "app=x")
	if err != nil || len(now) != 1 {
		t.Fatalf("found %d objects (%v), want 1", len(now), err)
	}
	began := time.Now()
	for _, kind := range []string{"MODIFIED", "BOOKMARK", "DELETED"} {
		s.events <- fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}}`, kind, strings.ToLower(kind))
	}
	for _, want := range []string{"modified", "deleted"} {
		change := <-changes
		if change.Err != nil || change.Object.GetName() != want || change.Gone != (want == "deleted") || change.Seen.Before(began) {
			t.Errorf("got %+v, want %s", change, want)
		}
	}
	close(s.events)
	if change := <-changes; change.Err == nil || !strings.Contains(change.Err.Error(), "watch ConfigMap of k3s+local://edge") {
		t.Errorf("at the end of the watch: %+v", change)
	}
	if _, ok := <-changes; ok {
		t.Error("there is a change after the end of the watch")
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.set(func() { s.events = make(chan string) })
	_, changes, err = client.Watch(ctx, "v1", "ConfigMap", "default", "")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if change, ok := <-changes; ok {
		t.Errorf("a watch that nobody wants any more ends with %+v", change)
	}
	if _, _, err := client.Watch(t.Context(), "example.net/v1", "Widget", "", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("watch of an unknown kind: %v, want that it does not exist", err)
	}
}
