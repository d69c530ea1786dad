package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"
)

// api is the API server as its administrator sees it.
type api struct {
	base   string
	client *http.Client
}

func newAPI(c Config, p pki) *api { return newAPIAs(c, p, p.admin) }

// newAPIAs is the API server as the owner of a certificate sees it.
func newAPIAs(c Config, p pki, identity pair) *api {
	roots := x509.NewCertPool()
	roots.AddCert(p.serverCA.cert)
	return &api{
		base: c.apiURL(),
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{{Certificate: [][]byte{identity.cert.Raw}, PrivateKey: identity.key}},
		}}},
	}
}

// do sends a request and decodes the answer into to, unless that is nil.
func (a *api) do(ctx context.Context, method, path, contentType string, body []byte, to any) error {
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err := fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer))
		if response.StatusCode >= http.StatusInternalServerError {
			err = busyError{err}
		}
		return err
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(answer, to)
}

// busyError is an answer that may be another one next time.
type busyError struct{ error }

// temporary reports whether the API server may answer later, or otherwise, as
// one on a slow or busy machine does. While it starts, that is most of them.
func temporary(err error) bool {
	var sending *url.Error
	return errors.As(err, &sending) || errors.As(err, &busyError{})
}

func (a *api) get(ctx context.Context, path string, to any) error {
	return a.do(ctx, http.MethodGet, path, "", nil, to)
}

// nodeReady is nil once the node is Ready; else it says why it is not.
func (a *api) nodeReady(ctx context.Context, name string) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := a.get(ctx, "/api/v1/nodes/"+name, &node); err != nil {
		return err
	}
	why := "it has no condition Ready"
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" {
			if condition.Status == "True" {
				return nil
			}
			why = condition.Message
		}
	}
	return fmt.Errorf("node %s is not ready: %s", name, why)
}

// applyManifests applies the files of the manifests folder, in alphabetical
// order, as k3s does at each start.
func (a *api) applyManifests(ctx context.Context, folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return fmt.Errorf("find the manifests: %w", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("apply a manifest: %w", err)
		}
		for _, document := range strings.Split(string(content), "\n---\n") {
			if err := a.apply(ctx, []byte(document)); err != nil {
				return fmt.Errorf("apply %s: %w", path, err)
			}
		}
	}
	return nil
}

// apply makes one object be as its YAML says, by server-side apply.
func (a *api) apply(ctx context.Context, document []byte) error {
	var object struct {
		APIVersion, Kind string
		Metadata         struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return err
	}
	if object.Kind == "" {
		return nil
	}
	group := "/apis/" + object.APIVersion
	if !strings.Contains(object.APIVersion, "/") {
		group = "/api/" + object.APIVersion
	}
	var kinds struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := a.get(ctx, group, &kinds); err != nil {
		return err
	}
	for _, kind := range kinds.Resources {
		if kind.Kind != object.Kind || strings.Contains(kind.Name, "/") {
			continue
		}
		path := group
		if kind.Namespaced {
			path += "/namespaces/" + object.Metadata.Namespace
		}
		path += "/" + kind.Name + "/" + object.Metadata.Name + "?fieldManager=k3s&force=true"
		return a.do(ctx, http.MethodPatch, path, "application/apply-patch+yaml", document, nil)
	}
	return fmt.Errorf("the API server has no kind %s in %s", object.Kind, object.APIVersion)
}

//go:embed coredns.yaml
var coreDNSManifest string

// writeManifests puts the add-ons into the manifests folder.
func writeManifests(c Config, folder string, forwards bool) error {
	path := filepath.Join(folder, "coredns.yaml")
	if !c.CoreDNS {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove a manifest: %w", err)
		}
		return nil
	}
	parsed, err := template.New("coredns").Parse(coreDNSManifest)
	if err != nil {
		return fmt.Errorf("read the manifest of CoreDNS: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, struct {
		Image, Domain, DNS, NodeIP, NodeName string
		Forwards                             bool
	}{CoreDNSImage, c.ClusterDomain, c.ClusterDNS.String(), c.NodeIP.String(), c.NodeName, forwards}); err != nil {
		return fmt.Errorf("write the manifest of CoreDNS: %w", err)
	}
	return writeFile(path, out.Bytes(), 0o600)
}
