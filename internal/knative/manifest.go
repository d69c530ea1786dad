package knative

import (
	"errors"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/knative/ingress"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const versionLabel = "app.kubernetes.io/version"

// manifest is a release's manifest by the order in which its parts are applied.
type manifest struct {
	version     string
	kinds       []*unstructured.Unstructured
	rest        []*unstructured.Unstructured // roles, settings, webhooks
	deployments []*unstructured.Unstructured
}

// read parses a release's manifest and changes it as the spec wants it.
func (s Spec) read(text []byte) (manifest, error) {
	objects, err := kube.Parse(text)
	if err != nil {
		return manifest{}, err
	}
	var m manifest
	for _, object := range objects {
		switch object.GetKind() {
		case "HorizontalPodAutoscaler", "PodDisruptionBudget":
			// They want a metrics server, and keep a single node from being drained.
		case "Certificate", "Image":
			// The one is of use with TLS only, the other with a cache of images only;
			// both wait for a controller that is not there.
		case "CustomResourceDefinition":
			m.kinds = append(m.kinds, object)
		case "Deployment":
			m.version = object.GetLabels()[versionLabel]
			if err := s.trim(object); err != nil {
				return manifest{}, err
			}
			m.deployments = append(m.deployments, object)
		case "ConfigMap":
			if err := s.set(object); err != nil {
				return manifest{}, err
			}
			m.rest = append(m.rest, object)
		default:
			m.rest = append(m.rest, object)
		}
	}
	if len(m.kinds) == 0 || len(m.deployments) == 0 || m.version == "" {
		return manifest{}, errors.New("the manifest is not that of a release of Knative Serving: it needs definitions of kinds and Deployments with a version")
	}
	return m, nil
}

// images returns the references of the images that the parts run.
func (m manifest) images() []string {
	var images []string
	for _, deployment := range m.deployments {
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		for _, entry := range containers {
			if container, ok := entry.(map[string]any); ok {
				image, _ := container["image"].(string)
				images = append(images, image)
			}
		}
	}
	for _, object := range m.rest {
		if image, ok, _ := unstructured.NestedString(object.Object, "data", "queue-sidecar-image"); ok {
			images = append(images, image)
		}
	}
	return images
}

// trim makes a program small: it requests what the spec says, collects garbage
// before it comes to its limit, and ends when it is told to.
func (s Spec) trim(deployment *unstructured.Unstructured) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	for _, entry := range containers {
		container, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		if err := unstructured.SetNestedMap(container, map[string]any{"cpu": s.CPU, "memory": s.Memory}, "resources", "requests"); err != nil {
			return err
		}
		env, _, _ := unstructured.NestedSlice(container, "env")
		kept := []any{map[string]any{"name": "GOMEMLIMIT", "value": memoryLimit}}
		for _, variable := range env {
			// With 500 % the activator would take several times what it needs.
			if v, ok := variable.(map[string]any); ok && v["name"] != "GOGC" {
				kept = append(kept, v)
			}
		}
		container["env"] = kept
	}
	if err := unstructured.SetNestedField(deployment.Object, int64(1), "spec", "replicas"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(deployment.Object, int64(endSeconds), "spec", "template", "spec", "terminationGracePeriodSeconds"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers")
}

// endSeconds is how long a program may take to end. By themselves the activator
// and the webhook wait 45 s for requests, and nothing is measured while Knative
// is upgraded or removed.
const endSeconds = 5

// memoryLimit is where the garbage collector of a program begins to work
// harder.
const memoryLimit = "200MiB"

// class is the ingress class of functions.
func (s Spec) class() string {
	switch s.Ingress {
	case "built-in":
		return ingress.Class
	case "traefik":
		return "traefik.ingress.networking.knative.dev"
	}
	return s.Class
}

// data returns what the spec sets, by ConfigMap.
func (s Spec) data() map[string]map[string]string {
	return map[string]map[string]string{
		"config-network": {
			"ingress-class": s.class(),
			// There is no mesh. Otherwise the activator believes no more than its own
			// probes, which links of some 60 ms have time out.
			"mesh-compatibility-mode": "disabled",
		},
		"config-domain": {s.Domain: ""},
		"config-autoscaler": {
			"enable-scale-to-zero":       strconv.FormatBool(s.ScaleToZero),
			"scale-to-zero-grace-period": s.GracePeriod.String(),
			"stable-window":              s.StableWindow.String(),
			"target-burst-capacity":      strconv.Itoa(s.TargetBurstCapacity),
		},
		"config-defaults": {"container-concurrency": strconv.Itoa(s.ContainerConcurrency)},
		"config-deployment": {
			// Images of these names are on the node already; no registry knows them.
			"registries-skipping-tag-resolving": strings.Join(localRegistries, ","),
			"queue-sidecar-cpu-request":         "10m",
			"queue-sidecar-memory-request":      "32Mi",
		},
		"config-gc": {"min-non-active-revisions": "0", "max-non-active-revisions": "2", "retain-since-create-time": "10m", "retain-since-last-active-time": "10m"},
	}
}

// localRegistries are those whose images are not looked up.
var localRegistries = []string{"kind.local", "ko.local", "dev.local", "testbed.local"}

// set puts the spec's values into a ConfigMap. The examples that come with it
// would have to match a checksum and say nothing to a cluster.
func (s Spec) set(object *unstructured.Unstructured) error {
	data, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		return err
	}
	if data == nil {
		data = map[string]string{}
	}
	delete(data, "_example")
	maps.Copy(data, s.data()[object.GetName()])
	annotations := object.GetAnnotations()
	delete(annotations, "knative.dev/example-checksum")
	object.SetAnnotations(annotations)
	if len(data) == 0 {
		unstructured.RemoveNestedField(object.Object, "data")
		return nil
	}
	return unstructured.SetNestedStringMap(object.Object, data, "data")
}
