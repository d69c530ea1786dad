package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// knativeVersion is that of knative.dev/serving in the module knative.
const knativeVersion = "v0.50.0"

const knativeServing = "knative.dev/serving/cmd/"

// knativePrograms are those of Knative Serving, each with an image.
var knativePrograms = []string{"activator", "autoscaler", "controller", "queue", "webhook"}

// conformanceImages are those that Knative's suite for ingresses runs, and
// conformance is the package that has their programs.
var conformanceImages = []string{"grpc-ping", "httpproxy", "retry", "runtime", "timeout", "wsserver"}

const conformance = "knative.dev/networking/test/test_images/"

// knativeImage names an image so that Knative neither looks for its digest in a
// registry nor pulls it.
func knativeImage(program string) string {
	return "dev.local/" + knativeServing + program + ":" + knativeVersion
}

// knativeSources are the manifests that make up a release, in the release's
// order. The zip of a module has no links, so what serving links to comes from
// the modules that have the files themselves.
var knativeSources = []struct{ module, pattern string }{
	{"knative.dev/serving", "config/core/300-resources/*.yaml"},
	{"knative.dev/networking", "config/certificate.yaml"},
	{"knative.dev/networking", "config/domain-claim.yaml"},
	{"knative.dev/networking", "config/ingress.yaml"},
	{"knative.dev/networking", "config/serverlessservice.yaml"},
	{"knative.dev/caching", "config/image.yaml"},
	{"knative.dev/serving", "config/core/*.yaml"},
	{"knative.dev/serving", "config/core/200-roles/*.yaml"},
	{"knative.dev/serving", "config/core/configmaps/*.yaml"},
	{"knative.dev/networking", "config/config-network.yaml"},
	{"knative.dev/serving", "config/core/webhooks/*.yaml"},
	{"knative.dev/serving", "config/core/deployments/*.yaml"},
}

// knativeManifest writes what a release's serving-crds.yaml and
// serving-core.yaml hold, with the lab's images.
func knativeManifest(ctx context.Context, path string) error {
	var manifest bytes.Buffer
	folders := map[string]string{}
	for _, source := range knativeSources {
		if folders[source.module] == "" {
			folder, err := moduleFolder(ctx, "knative", source.module)
			if err != nil {
				return err
			}
			folders[source.module] = folder
		}
		files, err := filepath.Glob(filepath.Join(folders[source.module], source.pattern))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("find %s of %s: there is none: %w", source.pattern, source.module, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&manifest, "---\n%s\n", content)
		}
	}
	var replacements []string
	for _, program := range knativePrograms {
		replacements = append(replacements, "ko://"+knativeServing+program, knativeImage(program))
	}
	replacements = append(replacements, "app.kubernetes.io/version: devel", "app.kubernetes.io/version: "+strings.TrimPrefix(knativeVersion, "v"))
	text := strings.NewReplacer(replacements...).Replace(manifest.String())
	if at := strings.Index(text, "ko://"); at >= 0 {
		line, _, _ := strings.Cut(text[at:], "\n")
		return fmt.Errorf("the manifests name the program %s, which is not built", line)
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// moduleFolder returns where the source of a module lies that the module in a
// folder requires, after fetching it if need be.
func moduleFolder(ctx context.Context, in, module string) (string, error) {
	fetch := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	fetch.Dir = in
	fetch.Env = append(os.Environ(), "GOWORK=off")
	fetch.Stderr = os.Stderr
	output, err := fetch.Output()
	if err != nil {
		return "", fmt.Errorf("fetch module %s: %w", module, err)
	}
	var fetched struct{ Dir string }
	if err := json.Unmarshal(output, &fetched); err != nil {
		return "", fmt.Errorf("fetch module %s: %w", module, err)
	}
	return fetched.Dir, nil
}
