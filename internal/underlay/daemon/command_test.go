package daemon

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestCommand looks at a network and changes it as a person would.
func TestCommand(t *testing.T) {
	l := newLab(t, testSpec, "a", "b")
	dataDir := filepath.Dir(filepath.Dir(l.dir))
	if err := Command(t.Context(), []string{"set", dataDir, "lab", "a", "b", `{"delay":"5ms"}`}); err != nil {
		t.Fatal(err)
	}
	if times := l.ping("a", "198.18.7.2", 3, 10*time.Millisecond); len(times) != 3 {
		t.Fatalf("round trips %v", times)
	}
	var output strings.Builder
	if err := show(t.Context(), &output, dataDir, "lab"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`network lab, cidr 198\.18\.7\.0/24, mtu 1500, seed 1, process \d+`,
		`a +198\.18\.7\.1/24 +eth0 +/proc/\d+/ns/net`,
		`a +b +\{"delay":"5ms"\}`,
		`a +b +3 +3 +252 +0 +0 +0 +0 +0 +0 +0`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(output.String()) {
			t.Errorf("no line %s in:\n%s", line, output.String())
		}
	}
	if err := Command(t.Context(), []string{"set", dataDir, "lab", "a", "b"}); err != nil {
		t.Fatal(err)
	}
	if links, err := l.client.Links(t.Context()); err != nil || len(links) > 0 {
		t.Errorf("after it was removed by hand: %v, %v", links, err)
	}
	for _, args := range [][]string{nil, {"dance"}, {"show", dataDir, "moon"}, {"set", dataDir, "lab", "a", "b", `{"delay":5}`}} {
		if err := Command(t.Context(), args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
