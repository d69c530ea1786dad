package artifact_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/artifact"
)

// release serves files as a k3s release lays them out.
type release struct {
	*httptest.Server
	requests atomic.Int32
}

const base = "/k3s-io/k3s/releases/download/v1.37.2%2Bk3s1/"

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}

func newRelease(t *testing.T) *release {
	t.Helper()
	files := map[string]string{
		"k3s":       "program",
		"k3s-arm64": "other program",
		"sha256sum-amd64.txt": sum("something else") + "  k3s-images.txt\n" +
			sum("wrong") + "  not-k3s\n" + sum("program") + "  k3s\n",
		"sha256sum-arm64.txt":                     sum("not it") + "  k3s-arm64\n",
		"k3s-airgap-images-amd64.tar.zst":         "images",
		"k3s-airgap-images-amd64.sha256sum":       sum("images") + "  k3s-airgap-images-amd64.tar.zst\n",
		"k3s-airgap-images-amd64-unlisted.tar.gz": "unlisted",
	}
	r := &release{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		name, _ := strings.CutPrefix(req.URL.EscapedPath(), base)
		content, ok := files[name]
		switch {
		case name == "truncated":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
		case name == "broken":
			http.Error(w, "no", http.StatusInternalServerError)
		case !ok:
			http.NotFound(w, req)
		default:
			_, _ = w.Write([]byte(content))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *release) source(name string, sums ...string) artifact.Source {
	source := artifact.Source{Location: r.URL + base + name}
	for _, s := range sums {
		source.Sums = append(source.Sums, r.URL+base+s)
	}
	return source
}

func TestFetchDownloadsOnce(t *testing.T) {
	r := newRelease(t)
	dir := t.TempDir()
	for _, source := range []artifact.Source{
		r.source("k3s", "sha256sum-amd64.txt"),
		r.source("k3s-airgap-images-amd64.tar.zst", "sha256sum-amd64.txt", "k3s-airgap-images-amd64.sha256sum"),
		r.source("k3s-airgap-images-amd64.tar.zst", "absent.txt", "k3s-airgap-images-amd64.sha256sum"),
		r.source("k3s-arm64"),
	} {
		file, err := artifact.NewCache(dir).Fetch(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file.Path)
		if err != nil || sum(string(content)) != file.SHA256 || file.Name != filepath.Base(file.Path) || !strings.HasSuffix(source.Location, "/"+file.Name) {
			t.Errorf("file %+v holds %q, %v", file, content, err)
		}
		before := r.requests.Load()
		cache := artifact.NewCache(dir)
		again, err := cache.Fetch(t.Context(), source)
		if err != nil || again != file || r.requests.Load() != before {
			t.Errorf("second fetch = %+v, %v with %d requests, want %+v without any", again, err, r.requests.Load()-before, file)
		}
		if known, ok := cache.Known(source); !ok || known != file.SHA256 {
			t.Errorf("Known = %s, %t", known, ok)
		}
	}

	// A damaged file is fetched again.
	source := r.source("k3s", "sha256sum-amd64.txt")
	damaged := filepath.Join(dir, sum("program"), "k3s")
	if err := os.WriteFile(damaged, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if file, err := artifact.NewCache(dir).Fetch(t.Context(), source); err != nil || file.Path != damaged {
		t.Fatal(file, err)
	}
	if content, _ := os.ReadFile(damaged); string(content) != "program" {
		t.Errorf("the damaged file now holds %q", content)
	}
}

func TestFetchPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k3s")
	cache := artifact.NewCache(t.TempDir())
	for _, content := range []string{"one", "three"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		want := artifact.File{Path: path, Name: "k3s", SHA256: sum(content)}
		got, err := cache.Fetch(t.Context(), artifact.Source{Location: path, SHA256: strings.ToUpper(want.SHA256)})
		if err != nil || got != want {
			t.Errorf("Fetch = %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestFetchRefuses(t *testing.T) {
	r := newRelease(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	withSum := func(source artifact.Source) artifact.Source {
		source.SHA256 = sum("wanted")
		return source
	}
	for name, test := range map[string]struct {
		source artifact.Source
		texts  []string
	}{
		"checksum of a path":      {withSum(artifact.Source{Location: path}), []string{path, sum("wanted"), sum("content")}},
		"checksum of a URL":       {withSum(r.source("k3s")), []string{"/k3s", sum("wanted"), sum("program")}},
		"checksum in a file":      {r.source("k3s-arm64", "sha256sum-arm64.txt"), []string{sum("not it"), sum("other program")}},
		"no checksum in any file": {r.source("k3s-airgap-images-amd64-unlisted.tar.gz", "sha256sum-amd64.txt", "absent.txt"), []string{"unlisted.tar.gz", "sha256sum-amd64.txt", "give its SHA-256"}},
		"truncated":               {r.source("truncated"), []string{"after 4 of 100 bytes"}},
		"absent":                  {r.source("absent"), []string{"404 Not Found"}},
		"broken":                  {r.source("broken"), []string{"500 Internal Server Error"}},
		"broken checksums":        {r.source("k3s", "broken"), []string{"checksums", "500 Internal Server Error"}},
		"no network":              {artifact.Source{Location: gone.URL + "/k3s"}, []string{"give its absolute path instead"}},
		"no file":                 {artifact.Source{Location: "/nowhere/k3s"}, []string{"/nowhere/k3s"}},
		"a folder":                {artifact.Source{Location: "/tmp"}, []string{"/tmp is not a file"}},
		"a relative path":         {artifact.Source{Location: "k3s"}, []string{"absolute path"}},
	} {
		dir := t.TempDir()
		file, err := artifact.NewCache(dir).Fetch(t.Context(), test.source)
		if err == nil {
			t.Errorf("%s: got %+v, want an error", name, file)
			continue
		}
		for _, text := range test.texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %q lacks %q", name, err, text)
			}
		}
		err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				t.Errorf("%s: %s is left in the cache", name, path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := artifact.NewCache(t.TempDir()).Fetch(ctx, r.source("k3s")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
