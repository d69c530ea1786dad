// Package knative runs Knative Serving on a cluster, trimmed for an edge node:
// one replica of each part, no autoscaling of the control plane itself, small
// requests, and an ingress without Envoy.
//
// What is installed is a release's manifest, which Spec changes where the
// experiment needs it. A cluster has one Knative, in its own namespace.
package knative

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

// Namespace is where Knative's programs and settings live.
const Namespace = "knative-serving"

// DefaultRelease is the release of Knative that is installed unless told
// otherwise. The Go modules of release 1.N have the version 0.(N+27).
const DefaultRelease = "1.23.0"

// DefaultManifests returns the URLs of that release's manifests.
func DefaultManifests() []string {
	const folder = "https://github.com/knative/serving/releases/download/knative-v" + DefaultRelease + "/"
	return []string{folder + "serving-crds.yaml", folder + "serving-core.yaml"}
}

// leastKubernetes is the oldest minor version of Kubernetes 1 that Knative's
// programs start on.
const leastKubernetes = 34

// Ingresses lists what routes requests to functions: the testbed's own ingress,
// the Traefik of k3s, or one that somebody else runs.
var Ingresses = []string{"built-in", "traefik", "none"}

// What the autoscaler can average over.
const (
	LeastWindow = 6 * time.Second
	MostWindow  = time.Hour
)

// Spec describes Knative Serving on one cluster.
type Spec struct {
	Ingress string // one of Ingresses
	Class   string // ingress class of a foreign ingress; follows from Ingress otherwise
	Domain  string // of the routes that callers outside the cluster see

	ScaleToZero          bool
	GracePeriod          time.Duration // before the last pod goes
	StableWindow         time.Duration // that the autoscaler averages over
	TargetBurstCapacity  int           // -1 keeps the activator in the path always, 0 takes it out once a pod runs
	ContainerConcurrency int           // of functions that do not say theirs; 0 is unlimited

	CPU, Memory string // requested by each program of the control plane
}

// Status is Knative as it is on its cluster.
type Status struct {
	Spec
	Version string // of the installed release, for example "1.23.0", or of the modules that it was built from, "0.50.0"

	// Where the ingress is reached. Zero for one that somebody else runs, and
	// NodePort for one without a port of the node.
	NodeIP    string
	NodePort  int
	ClusterIP string
}

// validate reports what the API server would take and Knative not.
func (s Spec) validate() error {
	switch {
	case !slices.Contains(Ingresses, s.Ingress):
		return fmt.Errorf("the ingress is %q; it must be one of %q", s.Ingress, Ingresses)
	case s.Ingress == "none" && s.Class == "":
		return errors.New("without an ingress of its own, Knative needs the class of the one that is there")
	case s.StableWindow < LeastWindow || s.StableWindow > MostWindow:
		return fmt.Errorf("the stable window is %s; it must be from %s to %s", s.StableWindow, LeastWindow, MostWindow)
	case s.GracePeriod <= 0:
		return fmt.Errorf("the grace period is %s; it must be above zero", s.GracePeriod)
	case s.TargetBurstCapacity < -1:
		return fmt.Errorf("the target burst capacity is %d; it must be -1 or more", s.TargetBurstCapacity)
	}
	return nil
}

// UpgradeError says that an upgrade would leave a minor release out.
type UpgradeError struct{ From, To string }

func (e *UpgradeError) Error() string {
	return fmt.Sprintf("Knative %s is installed and %s is %s; a minor release may not be skipped, since each migrates what the one before stored", e.From, e.To, e.direction())
}

func (e *UpgradeError) direction() string {
	if minor(e.To) < minor(e.From) {
		return "older"
	}
	return "more than one minor release newer"
}

// checkUpgrade refuses a way from one version to another that Knative does not
// support. Versions are those of releases or of modules, with or without a "v".
func checkUpgrade(from, to string) error {
	if from == "" || to == "" {
		return nil
	}
	if step := minor(to) - minor(from); step < 0 || step > 1 {
		return &UpgradeError{from, to}
	}
	return nil
}

// modulesAhead is how far the minor version of modules is ahead of that of the
// release that they make up.
const modulesAhead = 27

// minor returns the minor version of the modules of a version.
func minor(version string) int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return 0
	}
	number, _ := strconv.Atoi(parts[1])
	if parts[0] == "1" {
		number += modulesAhead
	}
	return number
}

// OldKubernetesError says that a cluster is too old.
type OldKubernetesError struct{ Version string }

func (e *OldKubernetesError) Error() string {
	return fmt.Sprintf("the cluster runs Kubernetes %s and Knative needs 1.%d or newer", e.Version, leastKubernetes)
}

// ref names a core object in Knative's namespace.
func ref(kind, name string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: kind, Namespace: Namespace, Name: name}
}

func settings(name string) kube.Ref { return ref("ConfigMap", "config-"+name) }
