package ingress

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// table is everything that is routed, by host. It does not change; a new one
// takes its place.
type table struct {
	public, private map[string][]route
}

// route is one path of a rule.
type route struct {
	path        string
	headers     map[string]string // canonical names; all have to match
	rewriteHost string
	append      map[string]string
	splits      []target
	hash        string // of the KIngress that it is part of
}

// target is one share of a route's requests.
type target struct {
	name      string // of the Service and its port, for people
	endpoints []*endpoint
	h2c       bool
	percent   int
	append    map[string]string
}

// add routes a KIngress. Where the same host is in several, the first has it.
func (t *table) add(s spec, hash string, resolve func(split) target) {
	for _, r := range s.Rules {
		if r.HTTP == nil {
			continue
		}
		var routes []route
		for _, p := range r.HTTP.Paths {
			made := route{path: p.Path, rewriteHost: p.RewriteHost, append: p.AppendHeaders, hash: hash, headers: map[string]string{}}
			for name, match := range p.Headers {
				made.headers[http.CanonicalHeaderKey(name)] = match.Exact
			}
			for _, s := range p.Splits {
				made.splits = append(made.splits, resolve(s))
			}
			// A single split may leave its share of the requests out.
			if len(made.splits) == 1 {
				made.splits[0].percent = 100
			}
			routes = append(routes, made)
		}
		for _, host := range r.Hosts {
			t.private[host] = append(t.private[host], routes...)
			if r.Visibility != clusterLocal {
				t.public[host] = append(t.public[host], routes...)
			}
		}
	}
}

// endpoints returns all that requests may go to.
func (t *table) endpoints() map[*endpoint]bool {
	all := map[*endpoint]bool{}
	for routes := range maps.Values(t.private) { // which has all that is public
		for _, route := range routes {
			for _, split := range route.splits {
				for _, e := range split.endpoints {
					all[e] = true
				}
			}
		}
	}
	return all
}

// order puts the routes of each host in the order in which they are tried: the
// longer path first, then the one that wants more headers.
func (t *table) order() {
	for routes := range maps.Values(t.private) {
		sortRoutes(routes)
	}
	for routes := range maps.Values(t.public) {
		sortRoutes(routes)
	}
}

func sortRoutes(routes []route) {
	slices.SortStableFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(len(b.headers), len(a.headers)))
	})
}

// find returns the route of a request to one of the hosts, nil when there is
// none.
func find(hosts map[string][]route, r *http.Request) *route {
	routes := hosts[hostOf(r)]
	for i := range routes {
		if routes[i].matches(r) {
			return &routes[i]
		}
	}
	return nil
}

// hostOf returns the host that a request is for, without its port.
func hostOf(r *http.Request) string {
	host := r.Host
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:at]
	}
	return strings.ToLower(host)
}

func (r *route) matches(request *http.Request) bool {
	if r.path != "" && !strings.HasPrefix(request.URL.Path, r.path) {
		return false
	}
	for name, want := range r.headers {
		if request.Header.Get(name) != want {
			return false
		}
	}
	return true
}

// pick returns the target of one request. Draw is a number from 0 to 99.
func (r *route) pick(draw int) *target {
	for i := range r.splits {
		if draw < r.splits[i].percent {
			return &r.splits[i]
		}
		draw -= r.splits[i].percent
	}
	return nil
}
