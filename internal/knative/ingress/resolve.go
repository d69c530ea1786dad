package ingress

import (
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// resolver finds the endpoints of Services. It asks them, and not the Services'
// own addresses, so that each request goes where the Service leads now: behind
// an address, connections that are kept would lead on to where it once did, be
// it a pod that has gone or Knative's activator.
type resolver struct {
	services map[string]service         // by namespace and name
	slices   map[string][]endpointSlice // by those of their Service
	at       func(address string) *endpoint
}

// service is what is to be known of a Service.
type service struct {
	Spec struct {
		ExternalName string        `json:"externalName"`
		Ports        []servicePort `json:"ports"`
	} `json:"spec"`
}

type servicePort struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	AppProtocol string `json:"appProtocol"`
}

// h2c tells whether what is behind the port speaks HTTP/2 without TLS.
func (p servicePort) h2c() bool {
	if p.AppProtocol != "" {
		return p.AppProtocol == "kubernetes.io/h2c"
	}
	return strings.HasPrefix(p.Name, "http2") || strings.HasPrefix(p.Name, "h2c")
}

// endpointSlice is what is to be known of an EndpointSlice.
type endpointSlice struct {
	Ports []struct {
		Name string `json:"name"`
		Port int    `json:"port"`
	} `json:"ports"`
	Endpoints []struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready   *bool `json:"ready"`
			Serving *bool `json:"serving"`
		} `json:"conditions"`
	} `json:"endpoints"`
}

// serviceLabel names the Service of an EndpointSlice.
const serviceLabel = "kubernetes.io/service-name"

// resolver returns one for the objects as they are.
func (c *controller) resolver() resolver {
	r := resolver{services: map[string]service{}, slices: map[string][]endpointSlice{}, at: c.proxy.backends.at}
	for name, object := range c.objects[services] {
		var s service
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &s) == nil {
			r.services[name] = s
		}
	}
	for _, object := range c.objects[endpointSlices] {
		name := object.GetNamespace() + "/" + object.GetLabels()[serviceLabel]
		var slice endpointSlice
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &slice) == nil {
			r.slices[name] = append(r.slices[name], slice)
		}
	}
	return r
}

// resolve says where a split's requests go.
func (r resolver) resolve(s split) target {
	t := target{name: s.Namespace + "/" + s.Name + ":" + s.Port.String(), percent: s.Percent, append: s.AppendHeaders}
	name := s.Namespace + "/" + s.Name
	for _, port := range r.services[name].Spec.Ports {
		if port.Name != s.Port.StrVal && port.Port != s.Port.IntValue() {
			continue
		}
		t.h2c = port.h2c()
		for _, address := range r.addresses(name, port) {
			t.endpoints = append(t.endpoints, r.at(address))
		}
		break
	}
	return t
}

// addresses returns those that are behind a port of a Service: the ready ones,
// or else those that still serve although they are about to end.
func (r resolver) addresses(name string, port servicePort) []string {
	if alias := r.services[name].Spec.ExternalName; alias != "" {
		return []string{net.JoinHostPort(alias, strconv.Itoa(port.Port))}
	}
	var ready, serving []string
	for _, slice := range r.slices[name] {
		number := slice.port(port.Name)
		if number == "" {
			continue
		}
		for _, e := range slice.Endpoints {
			switch is := e.Conditions; {
			case len(e.Addresses) == 0:
			case is.Ready == nil || *is.Ready:
				ready = append(ready, net.JoinHostPort(e.Addresses[0], number))
			case is.Serving != nil && *is.Serving:
				serving = append(serving, net.JoinHostPort(e.Addresses[0], number))
			}
		}
	}
	if len(ready) == 0 {
		return serving
	}
	return ready
}

// port returns the number that a port has at the endpoints, "" for none.
func (s endpointSlice) port(name string) string {
	for _, p := range s.Ports {
		if p.Name == name && p.Port != 0 {
			return strconv.Itoa(p.Port)
		}
	}
	return ""
}

// lacking names a Service that gets requests and has no endpoint, if there is
// one.
func (r resolver) lacking(s spec) string {
	for _, rule := range s.Rules {
		if rule.HTTP == nil {
			continue
		}
		for _, path := range rule.HTTP.Paths {
			for _, split := range path.Splits {
				if split.Percent == 0 && len(path.Splits) > 1 {
					continue
				}
				if t := r.resolve(split); len(t.endpoints) == 0 {
					return t.name
				}
			}
		}
	}
	return ""
}
