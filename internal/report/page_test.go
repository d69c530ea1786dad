package report

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report/reporttest"
)

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// words returns all text below a node.
func words(n *html.Node) string {
	var out strings.Builder
	for child := range n.Descendants() {
		if child.Type == html.TextNode {
			out.WriteString(child.Data)
		}
	}
	return out.String()
}

// holds tells whether an element below a node is one of a kind, with words.
func holds(n *html.Node, element string) bool {
	for child := range n.Descendants() {
		if child.Type == html.ElementNode && child.Data == element && strings.TrimSpace(words(child)) != "" {
			return true
		}
	}
	return false
}

// checkPage checks what every page is: whole by itself, and fit for those who
// listen to it.
func checkPage(t *testing.T, page []byte) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for n := range root.Descendants() {
		if id := attribute(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %q is there twice", id)
			}
			ids[id] = true
		}
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "link", "img", "image", "iframe", "object":
			t.Errorf("the page has an element %s", n.Data)
		case "a":
			if href := attribute(n, "href"); !strings.HasPrefix(href, "#") || !ids[href[1:]] {
				t.Errorf("the page refers to %q", href)
			}
		case "svg":
			if !holds(n, "title") || !holds(n, "desc") {
				t.Errorf("the picture %q has no title or no description", attribute(n, "aria-labelledby"))
			}
		case "table":
			if !holds(n, "caption") || !holds(n, "th") {
				t.Error("a table has no caption or no headings")
			}
		case "th":
			if attribute(n, "scope") == "" {
				t.Errorf("the heading %q has no scope", words(n))
			}
		case "style":
			if content := words(n); strings.Contains(content, "url(") || strings.Contains(content, "@import") {
				t.Error("the style refers to something outside")
			}
		}
		for _, id := range strings.Fields(attribute(n, "aria-labelledby")) {
			if !ids[id] {
				t.Errorf("%s is labelled by %q, which is not there", n.Data, id)
			}
		}
		if src := attribute(n, "src"); src != "" {
			t.Errorf("the page loads %q", src)
		}
	}
	if attribute(root.FirstChild.NextSibling, "lang") != "en" {
		t.Error("the page does not name its language")
	}
}

func TestPage(t *testing.T) {
	first := reporttest.NewRun(t)
	first.Invalid = func(block int, scenario string) bool { return block == 2 && scenario == "edge" }
	second := reporttest.NewRun(t)
	second.Factor, second.Plan.Seed, second.ClusterLink = 0.9, 2, "v0.4.2"
	second.Parts = 2
	dir := t.TempDir()
	files := build(t, Options{Formats: []Format{HTML}},
		first.Write(t, filepath.Join(dir, "with-v0.4.1")), second.Write(t, filepath.Join(dir, "with-v0.4.2")))
	page := files[Page]
	checkPage(t, page)
	for _, want := range []string{
		"with-v0.4.2 against with-v0.4.1",
		`<th scope="row">k3s&#43;local://edge: ghcr.io/clusterlink-net/cl-controlplane</th><td class="words">v0.4.1</td><td class="words">v0.4.2</td>`,
		"1 of 15 visits had links that were off",
		"The run was interrupted at 2026-11-30 20:01:00 UTC and gone on with later",
		"off: the median RTT is off: wanted 10 ms, measured 18.4 ms",
		`<tr class="invalid">`,
		"host edge", "host cloud", "NodePort on the overlay address",
		"5ms ± 1ms, 0.08 % loss each way",
		"Medians: direct in local",
		"hello-world, connection reused: clusterlink against direct takes 0.320 ms more in local ([0.2",
		"in edge (no interval)",
		"not measurably more or less in cloud",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if count := strings.Count(string(page), `<td>after</td>`); count != 30 {
		t.Errorf("the page has %d checks after visits, want 30", count)
	}
}
