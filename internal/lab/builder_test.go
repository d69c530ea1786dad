package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuilder wants a product to be made when it is missing, when it is
// damaged and when a source changes, and at no other time.
func TestBuilder(t *testing.T) {
	out, source := t.TempDir(), filepath.Join(t.TempDir(), "source.go")
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	builds := 0
	p := product{name: "thing", inputs: []string{source}, build: func(_ context.Context, _ *builder, path string) error {
		builds++
		content, err := os.ReadFile(source)
		return errors.Join(err, os.WriteFile(path, content, 0o755))
	}}
	made := filepath.Join(out, "thing")
	run := func(what string, want int) {
		t.Helper()
		b, err := newBuilder(context.Background(), out)
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		if err := errors.Join(b.make(context.Background(), p), b.writeSums([]product{p})); err != nil {
			t.Fatal(err)
		}
		if builds != want {
			t.Errorf("%s: built %d times, want %d", what, builds, want)
		}
	}

	write(source, "one")
	run("a missing product", 1)
	run("nothing to do", 1)
	if err := os.Truncate(made, 1); err != nil {
		t.Fatal(err)
	}
	run("a truncated product", 2)
	write(source, "two")
	run("a changed source", 3)
	write(filepath.Join(filepath.Dir(source), "source_test.go"), "a test")
	run("a test beside the source", 3)

	content, err := os.ReadFile(made)
	if err != nil || string(content) != "two" {
		t.Errorf("the product is %q, %v, want \"two\"", content, err)
	}
	sums, err := filepath.Glob(filepath.Join(out, "[^.]*"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(out, "sha256sum-"+runtime.GOARCH+".txt"), made}, sums); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(out, "sha256sum-"+runtime.GOARCH+".txt"))
	if want := hexDigest([]byte("two")) + "  thing\n"; err != nil || string(text) != want {
		t.Errorf("sums are %q, %v, want %q", text, err, want)
	}
}
