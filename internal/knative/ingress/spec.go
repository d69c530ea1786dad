// Package ingress is a small ingress for Knative: the agent's command "ingress"
// routes HTTP as the cluster's KIngresses of one class say, and tells Knative so.
//
// It follows knative.dev/networking's v1alpha1 contract: hosts, paths, header
// matches, weighted splits, appended headers, rewritten hosts, visibility and
// probes. It speaks HTTP/1.1 and HTTP/2 without TLS on both sides and passes
// upgrades, so WebSockets and gRPC work. It does not terminate TLS.
package ingress

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Class is the ingress class that the ingress routes unless told otherwise.
const Class = "testbed.ingress.networking.knative.dev"

// classAnnotation names the class of a KIngress.
const classAnnotation = "networking.knative.dev/ingress.class"

// spec is the part of a KIngress that says what to route. The order of fields
// is that of the contract, since the hash of a spec is that of its JSON.
type spec struct {
	TLS        []json.RawMessage `json:"tls,omitempty"`
	Rules      []rule            `json:"rules,omitempty"`
	HTTPOption string            `json:"httpOption,omitempty"`
}

type rule struct {
	Hosts      []string `json:"hosts,omitempty"`
	Visibility string   `json:"visibility,omitempty"`
	HTTP       *paths   `json:"http,omitempty"`
}

// clusterLocal is the visibility of a rule that the cluster alone may see.
const clusterLocal = "ClusterLocal"

type paths struct {
	Paths []httpPath `json:"paths"`
}

type httpPath struct {
	Path          string                 `json:"path,omitempty"`
	RewriteHost   string                 `json:"rewriteHost,omitempty"`
	Headers       map[string]headerMatch `json:"headers,omitempty"`
	Splits        []split                `json:"splits"`
	AppendHeaders map[string]string      `json:"appendHeaders,omitempty"`
}

type headerMatch struct {
	Exact string `json:"exact"`
}

type split struct {
	Namespace     string             `json:"serviceNamespace"`
	Name          string             `json:"serviceName"`
	Port          intstr.IntOrString `json:"servicePort"`
	Percent       int                `json:"percent,omitempty"`
	AppendHeaders map[string]string  `json:"appendHeaders,omitempty"`
}

// hash is what a probe is answered with, so that who changed the KIngress can
// tell whether the change is routed yet.
func (s spec) hash(namespace, name string) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("hash ingress %s/%s: %w", namespace, name, err)
	}
	sum := sha256.Sum256(append(text, namespace+name...))
	return hex.EncodeToString(sum[:]), nil
}
