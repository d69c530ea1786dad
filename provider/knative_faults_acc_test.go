package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/function"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/host/local"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// TestAccKnativeFaults installs the default release as it is downloaded, and has
// everything go wrong that can: each time the error says what, and what to do.
func TestAccKnativeFaults(t *testing.T) {
	preCheck(t)
	dir := t.TempDir()
	cluster := knativeCluster(t, dir)
	lab, images := needFile(t, "TESTBED_KNATIVE_MANIFEST"), needFile(t, "TESTBED_KNATIVE_IMAGES")
	manifest, err := os.ReadFile(lab)
	if err != nil {
		t.Fatal(err)
	}
	skipping := filepath.Join(t.TempDir(), "knative.yaml")
	if err := os.WriteFile(skipping, versioned(manifest, "1.25.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "older.kubeconfig")
	on := func(cluster string, lines ...string) string {
		return fmt.Sprintf(`
resource "testbed_knative" "test" {
  cluster       = %s
  airgap_images = [%q]
  %s
}
`, cluster, images, strings.Join(lines, "\n  "))
	}
	knativeOf := func(lines ...string) string { return on("testbed_k3s_cluster.test.url", lines...) }
	functionOf := func(name string, lines ...string) string {
		return fmt.Sprintf(`
resource "testbed_function" %q {
  cluster    = testbed_knative.test.cluster
  name       = %[1]q
  %s
  depends_on = [testbed_knative.test]
}
`, name, strings.Join(lines, "\n  "))
	}
	provider := &testbedProvider{version: "test", downloads: knativeReleases(t, manifest)}
	const knativeName = "testbed_knative.test"
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){"testbed": providerserver.NewProtocol6WithError(provider)},
		CheckDestroy:             func(*terraform.State) error { return onlyDownloads(dir) },
		Steps: []resource.TestStep{
			{
				Config: cluster,
				Check:  func(*terraform.State) error { return serveOlder(t, dir, kubeconfig) },
			},
			{
				Config:      cluster + on(strconv.Quote("kubeconfig://"+kubeconfig)),
				ExpectError: wrapped(`the cluster runs Kubernetes v1.33\S* and Knative needs 1.34 or newer.*Raise the version of the testbed_k3s_cluster`),
			},
			{
				Config:           cluster + knativeOf(),
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue(knativeName, tfjsonpath.New("version"), knownvalue.StringExact("1.23.0")),
				},
				Check: func(*terraform.State) error { return waitForWebhook(t.Context(), dir) },
			},
			{
				Config:      cluster + knativeOf(fmt.Sprintf("manifests = [%q]", skipping)),
				ExpectError: wrapped(`Knative 1.23.0 is installed and 1.25.0 is more than one minor release newer.*Apply the manifests of each minor release in between first`),
			},
			{
				// The webhook comes back, without which nothing could be changed. The
				// manifests are of the same release, by the version of its modules.
				PreConfig: func() {
					if err := stopWebhook(t.Context(), dir); err != nil {
						t.Fatal(err)
					}
				},
				Config: cluster + knativeOf(fmt.Sprintf("manifests = [%q]", lab)) +
					functionOf("lost", `image = "dev.local/lost:v1"`, `runtime = "knative"`) +
					functionOf("unresolved", `image = "198.18.31.11:1/unresolved:v1"`, `runtime = "knative"`) +
					functionOf("plain", `image = "198.18.31.11:1/plain:v1"`),
				ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
					plancheck.ExpectResourceAction(knativeName, plancheck.ResourceActionUpdate),
				}},
				ExpectError: allOf(
					`the image dev.local/lost:v1 cannot be had: \w+.*put the image's archive among the airgap_images.*under a name that begins with "dev.local/"`,
					`the image 198.18.31.11:1/unresolved:v1 cannot be had: ContainerMissing`,
					`the image 198.18.31.11:1/plain:v1 cannot be had: \w+`,
				),
			},
		},
	})
}

// onlyDownloads reports anything that a testbed's folder still has besides what
// was downloaded into it.
func onlyDownloads(dir string) error {
	left, err := os.ReadDir(dir)
	if err == nil && (len(left) != 1 || left[0].Name() != "cache") {
		err = fmt.Errorf("%s still has %v", dir, left)
	}
	return err
}

// versioned is a manifest whose objects say that they are of another version.
func versioned(manifest []byte, version string) []byte {
	return bytes.ReplaceAll(manifest, []byte("app.kubernetes.io/version: 0.50.0"), []byte("app.kubernetes.io/version: \""+version+"\""))
}

// knativeReleases is a client for which the server of Knative's releases has the
// default one, laid out as it is there, with the lab's images.
func knativeReleases(t *testing.T, manifest []byte) *http.Client {
	t.Helper()
	manifest = versioned(manifest, knative.DefaultRelease)
	objects, err := kube.Parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var kinds bytes.Buffer
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&kinds, "---\n%s\n", text)
		}
	}
	const folder = "github.com/knative/serving/releases/download/knative-v1.23.0/"
	files := map[string][]byte{folder + "serving-crds.yaml": kinds.Bytes(), folder + "serving-core.yaml": manifest}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.Host+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	transport, ok := client.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the client's transport is a %T", client.Transport)
	}
	transport.TLSClientConfig.ServerName = "example.com" // as the certificate has it
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return client
}

// apiServer is where the API server of the cluster is, and the way to it as its
// administrator.
func apiServer(ctx context.Context, dir string) (*url.URL, http.RoundTripper, error) {
	config, server, err := kube.NewOpener(local.NewOpener(dir)).Kubeconfig(ctx, "k3s+local://edge")
	if err != nil {
		return nil, nil, err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	client.Dial = server.Dial
	transport, err := rest.TransportFor(client)
	if err != nil {
		return nil, nil, err
	}
	base, err := url.Parse(client.Host)
	return base, transport, err
}

// serveOlder serves the API of the cluster as one of Kubernetes 1.33 would, and
// writes a kubeconfig for it.
func serveOlder(t *testing.T, dir, path string) error {
	base, transport, err := apiServer(t.Context(), dir)
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`("minor": "|v1\.)\d+`)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(base) },
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/version" {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			body = version.ReplaceAll(body, []byte("${1}33"))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			return err
		},
	})
	t.Cleanup(proxy.Close)
	older := clientcmdapi.NewConfig()
	older.Clusters["older"] = &clientcmdapi.Cluster{Server: proxy.URL}
	older.Contexts["older"] = &clientcmdapi.Context{Cluster: "older"}
	older.CurrentContext = "older"
	return clientcmd.WriteToFile(*older, path)
}

// scaleWebhook sets how many pods Knative's webhook has, as kubectl scale does.
func scaleWebhook(ctx context.Context, dir string, replicas int) error {
	base, transport, err := apiServer(ctx, dir)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, base.JoinPath("/apis/apps/v1/namespaces/knative-serving/deployments/webhook/scale").String(), strings.NewReader(patch))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("scale the webhook: %s: %s", answer.Status, body)
	}
	return nil
}

// stopWebhook leaves Knative's webhook without a pod. The one that it has would
// go on answering for a while.
func stopWebhook(ctx context.Context, dir string) error {
	if err := scaleWebhook(ctx, dir, 0); err != nil {
		return err
	}
	edge, err := local.NewOpener(dir).Open(ctx, local.URL("edge"))
	if err != nil {
		return err
	}
	out, err := edge.Run(ctx, host.Command{Argv: []string{"ps", "-eo", "pid=,args="}})
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out.Stdout)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "/ko-app/webhook" {
			if _, err := edge.Run(ctx, host.Command{Argv: []string{"kill", "-KILL", fields[0]}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForWebhook makes a function while Knative's webhook is away: what stays
// away is named, and what comes back is waited for.
func waitForWebhook(ctx context.Context, dir string) error {
	cluster, err := kube.NewOpener(local.NewOpener(dir)).Open(ctx, "k3s+local://edge")
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := stopWebhook(ctx, dir); err != nil {
		return err
	}
	spec := function.Spec{
		Namespace: "default", Name: "hello-world", Builtin: "hello-world", Port: function.DefaultPort,
		Runtime: function.Knative, Scale: &function.Scale{Min: 1, Max: 1, Initial: 1},
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	const want = "the webhook of Knative, Deployment knative-serving/webhook, is not up"
	if err := function.Apply(short, cluster, spec); err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("without a webhook: got %w, want %q", err, want)
	}
	scaled := make(chan error, 1)
	time.AfterFunc(3*time.Second, func() { scaled <- scaleWebhook(ctx, dir, 1) })
	long, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := errors.Join(function.Apply(long, cluster, spec), <-scaled); err != nil {
		return fmt.Errorf("with a webhook that comes up: %w", err)
	}
	return function.Remove(long, cluster, spec.Namespace, spec.Name)
}

// allOf matches texts in any order, however Terraform breaks their lines.
func allOf(texts ...string) *regexp.Regexp {
	var orders []string
	var arrange func(done string, rest []string)
	arrange = func(done string, rest []string) {
		if len(rest) == 0 {
			orders = append(orders, strings.TrimPrefix(done, ".*"))
			return
		}
		for i, text := range rest {
			others := append(append([]string{}, rest[:i]...), rest[i+1:]...)
			arrange(done+".*"+text, others)
		}
	}
	arrange("", texts)
	return wrapped(strings.Join(orders, "|"))
}
