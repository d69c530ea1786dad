package report

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/report/reporttest"
)

// browser runs a headless Chromium on one page and returns what it prints.
func browser(t *testing.T, page string, args ...string) string {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no chromium to look at the page with; install the package chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir=" + filepath.Join(t.TempDir(), "profile"), "--hide-scrollbars"}, args...)
	command := exec.CommandContext(ctx, program, append(args, "file://"+page)...)
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.Bytes())
	}
	return string(out)
}

// framed is a page that shows another one in a frame of some width, since a
// window has a least width, and says how wide what is in the frame is.
func framed(page []byte, width, height int) string {
	return fmt.Sprintf(`<!DOCTYPE html><meta name="color-scheme" content="light dark"><body style="margin:0"><iframe style="border:0" width="%d" height="%d" srcdoc="%s"></iframe>
<script>onload = () => { document.title = "wide " + frames[0].document.documentElement.scrollWidth }</script>`,
		width, height, html.EscapeString(string(page)))
}

// The page is looked at as readers do: by day and by night, on telephones and
// on desks.
func TestScreenshots(t *testing.T) {
	s := reporttest.NewRun(t)
	s.Invalid = func(block int, scenario string) bool { return block == 2 && scenario == "edge" }
	run := s.Write(t, filepath.Join(t.TempDir(), "response-time-20261130T200000Z"))
	other := reporttest.NewRun(t)
	other.Plan.Seed = 3
	page := build(t, Options{Formats: []Format{HTML}}, run, other.Write(t, filepath.Join(t.TempDir(), "response-time-20261201T200000Z")))["report.html"]
	for _, width := range []int{360, 1280} {
		for scheme, setting := range map[string]string{"dark": "0", "light": "1"} {
			t.Run(fmt.Sprintf("%s %d", scheme, width), func(t *testing.T) {
				const height = 4000
				dir := t.TempDir()
				file := filepath.Join(dir, "page.html")
				if err := os.WriteFile(file, []byte(framed(page, width, height)), 0o600); err != nil {
					t.Fatal(err)
				}
				size := fmt.Sprintf("--window-size=%d,%d", max(width, 600), height)
				colours := "--blink-settings=preferredColorScheme=" + setting
				if dom := browser(t, file, size, colours, "--dump-dom"); !strings.Contains(dom, fmt.Sprintf("<title>wide %d</title>", width)) {
					_, found, _ := strings.Cut(dom, "<title>")
					found, _, _ = strings.Cut(found, "</title>")
					t.Errorf("in a window %d wide the page is %q", width, found)
				}
				shot := filepath.Join(dir, "shot.png")
				browser(t, file, size, colours, "--screenshot="+shot)
				checkShot(t, shot, width, scheme == "dark")
				keepFile(t, shot, fmt.Sprintf("%s-%d.png", scheme, width))
			})
		}
	}
}

func keepFile(t *testing.T, path, name string) {
	t.Helper()
	if *keep == "" {
		return
	}
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(filepath.Join(*keep, name), content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkShot checks that there is something to see everywhere, on the ground
// that the scheme has.
func checkShot(t *testing.T, path string, width int, dark bool) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shot, _, err := image.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	brightness := func(x, y int) uint32 {
		r, g, b, _ := shot.At(x, y).RGBA()
		return (r + g + b) / 3 >> 8
	}
	ground := brightness(2, 2)
	if dark && ground > 60 || !dark && ground < 200 {
		t.Errorf("the ground has brightness %d of 255", ground)
	}
	if arm := lookOf(1).color; !has(shot, arm.R, arm.G, arm.B) {
		t.Error("no arm is to be seen")
	}
	const band = 500
	for top := 0; top+band <= shot.Bounds().Max.Y; top += band {
		marked := 0
		for y := top; y < top+band; y++ {
			for x := range width {
				if b := brightness(x, y); max(b, ground)-min(b, ground) > 40 {
					marked++
				}
			}
		}
		if share := float64(marked) / float64(band*width); share < 0.005 || share > 0.5 {
			t.Errorf("from line %d on, %.1f %% of the page are marked", top, 100*share)
		}
	}
}
