package knative

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/k3s"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/workload"
)

// Apply makes Knative run on the cluster as the spec and a release's manifest
// say, and waits until it is ready. Archives are image tarballs on this
// machine, which are loaded into the node when it lacks an image.
func Apply(ctx context.Context, cluster *kube.Client, spec Spec, release []byte, archives []string) error {
	if err := spec.validate(); err != nil {
		return err
	}
	m, err := spec.read(release)
	if err != nil {
		return err
	}
	if err := checkCluster(ctx, cluster, m.version); err != nil {
		return err
	}
	if spec.Ingress == "traefik" {
		if err := checkTraefik(ctx, cluster); err != nil {
			return err
		}
	}
	if err := k3s.LoadArchives(ctx, cluster, m.images(), archives); err != nil {
		return err
	}
	if err := cluster.Define(ctx, m.kinds...); err != nil {
		return err
	}
	if err := passWebhook(ctx, cluster); err != nil {
		return err
	}
	if err := cluster.Apply(ctx, append(m.rest, m.deployments...)...); err != nil {
		return err
	}
	if err := applyIngress(ctx, cluster, spec); err != nil {
		return err
	}
	for _, deployment := range m.deployments {
		if err := workload.AwaitAvailable(ctx, cluster, Namespace, deployment.GetName(), nil); err != nil {
			return err
		}
	}
	return awaitWebhook(ctx, cluster)
}

// checkCluster refuses a cluster that is too old, and an upgrade that skips a
// release.
func checkCluster(ctx context.Context, cluster *kube.Client, version string) error {
	text, err := cluster.Raw(ctx, "/version")
	if err != nil {
		return err
	}
	var kubernetes struct{ Minor, GitVersion string }
	if err := json.Unmarshal(text, &kubernetes); err != nil {
		return fmt.Errorf("read the version of %s: %w", cluster.URL(), err)
	}
	// Programs of other releases say themselves which versions they want.
	if number, _ := strconv.Atoi(strings.TrimRight(kubernetes.Minor, "+")); number < leastKubernetes && minor(version) >= minor(DefaultRelease) {
		return &OldKubernetesError{kubernetes.GitVersion}
	}
	controller, err := cluster.Get(ctx, workload.Ref(Namespace, "controller"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkUpgrade(controller.GetLabels()[versionLabel], version)
}

// webhooks are the configurations by which the API server asks the webhook.
func webhooks() []kube.Ref {
	const group = "admissionregistration.k8s.io/v1"
	return []kube.Ref{
		{APIVersion: group, Kind: "ValidatingWebhookConfiguration", Name: "validation.webhook.serving.knative.dev"},
		{APIVersion: group, Kind: "ValidatingWebhookConfiguration", Name: "config.webhook.serving.knative.dev"},
		{APIVersion: group, Kind: "MutatingWebhookConfiguration", Name: "webhook.serving.knative.dev"},
	}
}

// passWebhook sees to it that a webhook that is not up is not asked about the
// settings that it needs to come up.
func passWebhook(ctx context.Context, cluster *kube.Client) error {
	webhook, err := cluster.Get(ctx, workload.Ref(Namespace, "webhook"))
	switch {
	case err == nil:
		if up, _ := workload.Up(webhook); up {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return cluster.Delete(ctx, webhooks()...)
}

// awaitWebhook waits until the webhook has put its certificate where the API
// server reads it; before that every function is refused.
func awaitWebhook(ctx context.Context, cluster *kube.Client) error {
	for _, webhook := range webhooks() {
		_, err := cluster.Wait(ctx, webhook, "certified", func(object *unstructured.Unstructured) (bool, string) {
			hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
			for _, hook := range hooks {
				h, _ := hook.(map[string]any)
				if bundle, _, _ := unstructured.NestedString(h, "clientConfig", "caBundle"); bundle == "" {
					return false, "it has no certificate yet"
				}
			}
			return true, ""
		})
		if err != nil {
			return err
		}
	}
	return nil
}
