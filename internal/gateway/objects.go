package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/kube"
)

const (
	// Names of the two gateways and of what belongs to each.
	clientName = "client"
	serverName = "server"

	// serverPort is that of the server's gateway in its pod.
	serverPort = 8443

	// user runs haproxy; a number, so that the cluster can tell that it is not
	// root.
	user = 65532

	// serviceLabel is on the Services at the client's side and holds the name
	// of the pair.
	serviceLabel = "testbed.local/gateway-pair"
	// sideLabel is on pods and tells which gateway they are.
	sideLabel = "testbed.local/gateway"
	// digestAnnotation is on pods: others take their place when what they read
	// at their start changes.
	digestAnnotation = "testbed.local/digest"

	configFile   = "haproxy.cfg"
	servicesFile = "services.json" // Spec.Services, for the record
	configDir    = "/etc/testbed-gateway/config"
	keysDir      = "/etc/testbed-gateway/keys"
)

// side is one of the two gateways.
type side struct {
	name      string // clientName or serverName
	config    string // of haproxy
	authority []byte
	identity  []byte
	ports     []int // that it listens on
}

// common is how both gateways treat connections: they may be idle for long, and
// none is logged, since that would show in measurements.
const common = `# Managed by testbed_gateway_pair, which undoes other changes.
global
    log stdout format raw local0 notice
    maxconn 4096

defaults
    mode tcp
    log global
    option dontlognull
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    retries 1
`

// clientSide takes each service's connections to the other gateway, with the
// service's name in the TLS handshake, which has to be one that the certificate
// of the other is for.
func clientSide(spec Spec, keys certificates, gateway string) side {
	ports := listenPorts(spec.Services)
	s := side{name: clientName, authority: keys.authority, identity: keys.client}
	var text strings.Builder
	text.WriteString(common)
	for _, name := range slices.Sorted(maps.Keys(spec.Services)) {
		s.ports = append(s.ports, ports[name])
		fmt.Fprintf(&text, `
listen %s
    bind :%d
    server gateway %s ssl ssl-min-ver TLSv1.3 verify required ca-file %s/%s crt %s/%s sni str(%s)
`, name, ports[name], gateway, keysDir, authorityFile, keysDir, identityFile, spec.host(name))
	}
	s.config = text.String()
	return s
}

// serverSide takes connections of the other gateway, and of nobody else, to the
// services. It looks up their addresses before it listens and now and then, not for each
// connection.
func serverSide(spec Spec, keys certificates) side {
	var text strings.Builder
	text.WriteString(common)
	fmt.Fprintf(&text, `
resolvers cluster
    parse-resolv-conf
    hold valid 10s
    timeout resolve 10s
    timeout retry 1s

frontend gateway
    bind :%d ssl ssl-min-ver TLSv1.3 crt %s/%s ca-file %s/%s verify required
`, serverPort, keysDir, identityFile, keysDir, authorityFile)
	names := slices.Sorted(maps.Keys(spec.Services))
	for _, name := range names {
		fmt.Fprintf(&text, "    use_backend %s if { ssl_fc_sni -m str %s }\n", name, spec.host(name))
	}
	for _, name := range names {
		service := spec.Services[name]
		fmt.Fprintf(&text, `
backend %s
    server service %s:%d resolvers cluster resolve-prefer ipv4 init-addr libc,none
`, name, service.host(), service.Port)
	}
	return side{name: serverName, config: text.String(), authority: keys.authority, identity: keys.server, ports: []int{serverPort}}
}

// listenPorts gives each service a port of the client's gateway. A port follows
// from the service's name, so that it stays when others come and go.
func listenPorts(services map[string]Service) map[string]int {
	const first, count = 10000, 20000
	ports, taken := map[string]int{}, map[int]bool{}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(name)) // never fails
		offset := int(hash.Sum32() % count)
		for taken[offset] {
			offset = (offset + 1) % count
		}
		taken[offset] = true
		ports[name] = first + offset
	}
	return ports
}

// objects are those of a gateway, with its namespace.
func (s side) objects(spec Spec) []*unstructured.Unstructured {
	encode := func(content []byte) string { return base64.StdEncoding.EncodeToString(content) }
	services, _ := json.Marshal(spec.Services) // numbers and text always convert
	metadata := func(annotations map[string]any) map[string]any {
		fields := map[string]any{"name": s.name, "namespace": spec.namespace()}
		if annotations != nil {
			fields["annotations"] = annotations
		}
		return fields
	}
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": spec.namespace()},
		}},
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret",
			"metadata": metadata(map[string]any{versionAnnotation: spec.CertificateVersion}),
			"data":     map[string]any{authorityFile: encode(s.authority), identityFile: encode(s.identity)},
		}},
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(nil),
			"data": map[string]any{configFile: s.config, servicesFile: string(services)},
		}},
		{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(nil), "spec": s.deployment(spec.Image),
		}},
	}
}

func (s side) deployment(image string) map[string]any {
	labels := map[string]any{sideLabel: s.name}
	var ports []any
	for _, port := range s.ports {
		ports = append(ports, map[string]any{"containerPort": int64(port), "protocol": "TCP"})
	}
	mount := func(name, dir string) map[string]any {
		return map[string]any{"name": name, "mountPath": dir, "readOnly": true}
	}
	return map[string]any{
		"replicas": int64(1),
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels, "annotations": map[string]any{digestAnnotation: s.digest()}},
			"spec": map[string]any{
				"automountServiceAccountToken":  false,
				"enableServiceLinks":            false,
				"terminationGracePeriodSeconds": int64(1),
				"containers": []any{map[string]any{
					"name":            "haproxy",
					"image":           image,
					"imagePullPolicy": "IfNotPresent",
					"command":         []any{"haproxy"},
					"args":            []any{"-f", configDir + "/" + configFile},
					"ports":           ports,
					"volumeMounts":    []any{mount("config", configDir), mount("keys", keysDir)},
					// Probes end once the pod has started, so that none falls
					// into a measurement.
					"startupProbe": map[string]any{
						"tcpSocket":        map[string]any{"port": int64(s.ports[0])},
						"periodSeconds":    int64(1),
						"failureThreshold": int64(60),
					},
					"securityContext": map[string]any{
						"runAsUser":                int64(user),
						"runAsNonRoot":             true,
						"allowPrivilegeEscalation": false,
						"readOnlyRootFilesystem":   true,
						"capabilities":             map[string]any{"drop": []any{"ALL"}},
					},
				}},
				"volumes": []any{
					map[string]any{"name": "config", "configMap": map[string]any{"name": s.name}},
					map[string]any{"name": "keys", "secret": map[string]any{"secretName": s.name}},
				},
			},
		},
	}
}

// digest changes with all that haproxy reads when it starts. Of the keys only
// the certificates count, which come with a new key each.
func (s side) digest() string {
	sum := sha256.New()
	sum.Write([]byte(s.config))
	sum.Write(s.authority)
	if block, _ := pem.Decode(s.identity); block != nil {
		sum.Write(block.Bytes)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func (s Spec) gatewayRef() kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "Service", Namespace: s.namespace(), Name: "gateway"}
}

// gatewayService is how the server's gateway is reached.
func (s Spec) gatewayService() *unstructured.Unstructured {
	port := map[string]any{"name": "gateway", "port": int64(serverPort), "targetPort": int64(serverPort), "protocol": "TCP"}
	if s.NodePort != 0 {
		port["nodePort"] = int64(s.NodePort)
	}
	return s.service(s.gatewayRef().Name, nil, map[string]any{
		"type": "NodePort", "selector": map[string]any{sideLabel: serverName}, "ports": []any{port},
	})
}

// clientServices are what pods at the client's side call.
func (s Spec) clientServices() []*unstructured.Unstructured {
	ports := listenPorts(s.Services)
	var services []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		services = append(services, s.service(name, map[string]any{serviceLabel: s.Name}, map[string]any{
			"selector": map[string]any{sideLabel: clientName},
			"ports": []any{map[string]any{
				"name": "service", "port": int64(s.Services[name].ListenPort), "targetPort": int64(ports[name]), "protocol": "TCP",
			}},
		}))
	}
	return services
}

func (s Spec) service(name string, labels, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "namespace": s.namespace()}
	if labels != nil {
		metadata["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec,
	}}
}

// readConfig returns what a gateway is configured for, and its configuration.
// They are empty when they are not there.
func readConfig(ctx context.Context, cluster *kube.Client, spec Spec, side string) (services map[string]Service, config string, err error) {
	found, err := cluster.Get(ctx, kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: spec.namespace(), Name: side})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	config, _, _ = unstructured.NestedString(found.Object, "data", configFile)
	text, _, _ := unstructured.NestedString(found.Object, "data", servicesFile)
	if !json.Valid([]byte(text)) {
		return nil, "", nil // changed by hand
	}
	return services, config, json.Unmarshal([]byte(text), &services)
}
