package ingress

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// backend answers with its name, what it was asked and how.
func backend(t *testing.T, name string) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "shout" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "shout")
			w.WriteHeader(http.StatusSwitchingProtocols)
			connection, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer connection.Close()
			line, _ := buffered.ReadString('\n')
			_, _ = io.WriteString(connection, strings.ToUpper(line))
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s tag=%s hash=%s body=%s", name, r.Proto, r.Method, r.Host, r.URL.RequestURI(), r.Header.Get("Tag"), r.Header.Get(hashHeader), body)
	}))
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = &protocols
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// routed serves both sides of a proxy that routes one KIngress, whose services
// are backends by name.
func routed(t *testing.T, text string) (public, private string) {
	t.Helper()
	var wanted spec
	if err := json.Unmarshal([]byte(text), &wanted); err != nil {
		t.Fatal(err)
	}
	hash, err := wanted.hash("default", "function")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy()
	next := &table{public: map[string][]route{}, private: map[string][]route{}}
	next.add(wanted, hash, func(s split) target {
		return target{
			name: s.Name, endpoints: []*endpoint{p.backends.at(backend(t, s.Name))},
			h2c: s.Port.StrVal == "http2", percent: s.Percent, append: s.AppendHeaders,
		}
	})
	next.order()
	p.table.Store(next)
	serve := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	return serve(p.public()), serve(p.private())
}

// call asks for a path of a host at a server.
func call(t *testing.T, server, host, path string, headers ...string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, strings.NewReader("payload"))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		return answer.Status
	}
	return string(body)
}

const routes = `{"rules": [
	{"hosts": ["f.example.test", "f.default.svc.cluster.local"], "visibility": "ExternalIP", "http": {"paths": [
		{"splits": [{"serviceNamespace": "default", "serviceName": "root", "servicePort": 80, "percent": 100}]},
		{"path": "/deep", "appendHeaders": {"Tag": "path"}, "splits": [{"serviceName": "deep", "servicePort": 80, "percent": 100}]},
		{"path": "/deep", "headers": {"version": {"exact": "new"}}, "appendHeaders": {"Tag": "path"},
		 "splits": [{"serviceName": "new", "servicePort": "http2", "appendHeaders": {"Tag": "split"}}]},
		{"path": "/as", "rewriteHost": "other.example.test", "splits": [{"serviceName": "as", "servicePort": 80}]}]}},
	{"hosts": ["inside.default.svc"], "visibility": "ClusterLocal", "http": {"paths": [
		{"splits": [{"serviceName": "inside", "servicePort": 80, "percent": 100}]}]}}]}`

func TestProxy(t *testing.T) {
	public, private := routed(t, routes)
	for _, test := range []struct{ name, server, host, path, headers, want string }{
		{"root", public, "f.example.test", "/a?b=c", "", "root HTTP/1.1 POST f.example.test /a?b=c tag= hash= body=payload"},
		{"any case and a port", public, "F.example.test:8080", "/", "", "root HTTP/1.1 POST F.example.test:8080 / tag= hash= body=payload"},
		{"longest path", public, "f.example.test", "/deep/er", "", "deep HTTP/1.1 POST f.example.test /deep/er tag=path hash= body=payload"},
		{"header and h2c", public, "f.example.test", "/deep", "Version=new", "new HTTP/2.0 POST f.example.test /deep tag=split hash= body=payload"},
		{"another header", public, "f.example.test", "/deep", "Version=newer", "deep HTTP/1.1 POST f.example.test /deep tag=path hash= body=payload"},
		{"rewritten host", public, "f.example.test", "/as", "", "as HTTP/1.1 POST other.example.test /as tag= hash= body=payload"},
		{"unknown host", public, "g.example.test", "/", "", "404 Not Found"},
		{"local host from outside", public, "inside.default.svc", "/", "", "404 Not Found"},
		{"local host", private, "inside.default.svc", "/", "", "inside HTTP/1.1 POST inside.default.svc / tag= hash= body=payload"},
		{"public host from inside", private, "f.default.svc.cluster.local", "/", "", "root HTTP/1.1 POST f.default.svc.cluster.local / tag= hash= body=payload"},
		{"escaped path", public, "f.example.test", "/a%2Fb", "", "root HTTP/1.1 POST f.example.test /a%2Fb tag= hash= body=payload"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var headers []string
			if name, value, ok := strings.Cut(test.headers, "="); ok {
				headers = []string{name, value}
			}
			if diff := cmp.Diff(test.want, call(t, test.server, test.host, test.path, headers...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProbe wants a probe to be given the hash of what is routed, unless it
// brings one.
func TestProbe(t *testing.T) {
	public, _ := routed(t, routes)
	var wanted spec
	if err := json.Unmarshal([]byte(routes), &wanted); err != nil {
		t.Fatal(err)
	}
	hash, err := wanted.hash("default", "function")
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{hashOverride: hash, "abc": "abc"} {
		got := call(t, public, "f.example.test", "/", probeHeader, "probe", hashHeader, asked)
		if !strings.Contains(got, "hash="+want+" ") {
			t.Errorf("a probe with hash %q reached the function as %q, want the hash %s", asked, got, want)
		}
	}
}

func TestPercentages(t *testing.T) {
	public, _ := routed(t, `{"rules": [{"hosts": ["f"], "http": {"paths": [{"splits": [
		{"serviceName": "one", "servicePort": 80, "percent": 80}, {"serviceName": "two", "servicePort": 80, "percent": 20}]}]}}]}`)
	ones := 0
	const calls = 1000
	for range calls {
		if strings.HasPrefix(call(t, public, "f", "/"), "one ") {
			ones++
		}
	}
	// Five standard deviations of a binomial count.
	if ones < 737 || ones > 863 {
		t.Errorf("%d of %d requests went where 80 %% should", ones, calls)
	}
}

func TestUpgrade(t *testing.T) {
	public, _ := routed(t, routes)
	target, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: f.example.test\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s, want the switch of protocols", answer.Status)
	}
	if _, err := io.WriteString(connection, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "HELLO\n" {
		t.Errorf("got %q, %v, want HELLO", line, err)
	}
}
