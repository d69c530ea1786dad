package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKnativeManifest wants the manifest to be whole: what serving's zip only
// links to included, and every program named by an image of the lab.
func TestKnativeManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "knative-serving.yaml")
	if err := knativeManifest(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"\nkind: CustomResourceDefinition\n": 12,
		"\nkind: Deployment\n":               4,
		"\nkind: ConfigMap\n":                12,
		"name: config-network\n":             1,
		"name: ingresses.networking":         1,
		"version: devel":                     0,
	} {
		if got := strings.Count(string(content), name); got != want {
			t.Errorf("%q is there %d times, want %d", name, got, want)
		}
	}
	for _, program := range knativePrograms {
		if !strings.Contains(string(content), knativeImage(program)) {
			t.Errorf("no part of the manifest runs the image of %s", program)
		}
	}
}
