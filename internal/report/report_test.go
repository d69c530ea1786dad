package report

import (
	"bytes"
	"errors"
	"flag"
	"image"
	_ "image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/report/reporttest"
)

var (
	update = flag.Bool("update", false, "write the golden files")
	keep   = flag.String("keep", "", "folder to leave the reports and screenshots of tests in")
)

// small is a run whose tables fit a page: one function, two scenarios.
func small(t *testing.T) reporttest.Run {
	s := reporttest.NewRun(t)
	delete(s.Plan.Functions, "payload-echo")
	delete(s.Plan.Scenarios, "cloud")
	s.Plan.Connections = []load.Connection{load.Reuse}
	s.Plan.Requests, s.Plan.Warmup = 10, 1
	s.Plan.Arms["cluster_link"] = s.Plan.Arms["clusterlink"]
	delete(s.Plan.Arms, "clusterlink")
	return s
}

func build(t *testing.T, options Options, folders ...string) map[string][]byte {
	t.Helper()
	files, err := Build(folders, options)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What papers and programs read is compared letter by letter.
func TestTables(t *testing.T) {
	dir := t.TempDir()
	first, second := small(t), small(t)
	first.Failing = func(c bench.Cell, seq int) bool { return c.Scenario == "edge" && c.Arm != "direct" && seq == 2 }
	second.Factor, second.Plan.Seed = 1.2, 2
	files := build(t, Options{Formats: []Format{CSV, LaTeX, Markdown, Benchstat}},
		first.Write(t, filepath.Join(dir, "first_run")), second.Write(t, filepath.Join(dir, "second_run")))
	want := []string{"benchstat.txt", "comparisons.csv", "findings.md", "results.csv", "round_trips.csv", "runs.csv", "tables.tex"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	for name, got := range files {
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The same folders give the same bytes, wherever they are.
func TestReportIsAFunctionOfItsRuns(t *testing.T) {
	s := small(t)
	a := build(t, Options{}, s.Write(t, filepath.Join(t.TempDir(), "run")))
	b := build(t, Options{}, s.Write(t, filepath.Join(t.TempDir(), "run")))
	if !maps.EqualFunc(a, b, bytes.Equal) {
		t.Error("two reports of one run differ")
	}
}

// A run of cold starts shows their parts everywhere, and no first requests.
func TestColdStarts(t *testing.T) {
	s := small(t)
	s.Plan.Load, s.Plan.Warmup, s.Plan.Connections = load.Model{Kind: load.ColdStart}, 0, []load.Connection{load.New}
	s.Plan.Functions["hello-world"] = bench.Function{Service: &bench.Service{Cluster: "k3s+local://edge", Namespace: "default", Name: "hello-world"}}
	files := build(t, Options{}, s.Write(t, filepath.Join(t.TempDir(), "run")))
	for name, want := range map[string][]string{
		Page:                                   {"Cold starts", "cold starts, one at a time", "until activator and autoscaler had a pod made", "readiness"},
		"findings.md":                          {"| decision | scheduling | containers | readiness | answer | whole | interval |"},
		"tables.tex":                           {"tab:cold-starts-run", "decision & scheduling & containers"},
		"results.csv":                          {"cold_decision_ms"},
		"figures/cold-start-hello-world.svg":   {"cluster_link in edge: decision", "#D55E00"},
		"figures/cold-start-hello-world.png":   {"PNG"},
		"figures/distribution-hello-world.svg": {"cluster_link has quartiles"},
	} {
		for _, text := range want {
			if !strings.Contains(string(files[name]), text) {
				t.Errorf("%s lacks %q", name, text)
			}
		}
	}
	if *keep != "" {
		if err := Write(filepath.Join(*keep, "cold-starts"), files); err != nil {
			t.Error(err)
		}
	}
}

func TestPictures(t *testing.T) {
	files := build(t, Options{Formats: []Format{SVG, PNG}}, reporttest.NewRun(t).Write(t, filepath.Join(t.TempDir(), "run")))
	for _, name := range []string{"topology", "response-time-hello-world", "response-time-payload-echo",
		"overhead-hello-world", "distribution-hello-world", "drift-payload-echo"} {
		picture, _, err := image.Decode(bytes.NewReader(files["figures/"+name+".png"]))
		if err != nil {
			t.Errorf("%s.png: %v", name, err)
			continue
		}
		arm := lookOf(1).color
		if !has(picture, arm.R, arm.G, arm.B) {
			t.Errorf("%s.png does not show the second arm", name)
		}
		if drawing := string(files["figures/"+name+".svg"]); !strings.HasPrefix(drawing, "<?xml") || !strings.Contains(drawing, "stroke:#D55E00") {
			t.Errorf("%s.svg does not show the second arm", name)
		}
	}
	for i := range looks {
		for j := range i {
			if looks[i].marker == looks[j].marker || slices.Equal(looks[i].dashes, looks[j].dashes) {
				t.Errorf("without colour, arms %d and %d look the same", j, i)
			}
		}
	}
}

func has(picture image.Image, red, green, blue uint8) bool {
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			if uint8(r>>8) == red && uint8(g>>8) == green && uint8(b>>8) == blue {
				return true
			}
		}
	}
	return false
}

// Runs that hold little still make a report.
func TestOddRuns(t *testing.T) {
	for name, change := range map[string]func(*reporttest.Run){
		"one block":           func(s *reporttest.Run) { s.Plan.Blocks = 1 },
		"one arm":             func(s *reporttest.Run) { delete(s.Plan.Arms, "cluster_link") },
		"one request":         func(s *reporttest.Run) { s.Plan.Blocks, s.Plan.Requests = 1, 1 },
		"everything failed":   func(s *reporttest.Run) { s.Failing = func(bench.Cell, int) bool { return true } },
		"every visit was off": func(s *reporttest.Run) { s.Invalid = func(int, string) bool { return true } },
		"cancelled":           func(s *reporttest.Run) { s.Completed = false },
		"no links":            func(s *reporttest.Run) { s.Plan.Scenarios = map[string]bench.Scenario{"as it is": {}} },
		"six arms": func(s *reporttest.Run) {
			for _, arm := range []string{"a", "b", "c", "d"} {
				s.Plan.Arms[arm] = s.Plan.Arms["direct"]
			}
		},
		"names that are markup": func(s *reporttest.Run) {
			s.Plan.Arms["<b>&"] = s.Plan.Arms["direct"]
			delete(s.Plan.Arms, "cluster_link")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := small(t)
			change(&s)
			files := build(t, Options{}, s.Write(t, filepath.Join(t.TempDir(), "run")))
			checkPage(t, files[Page])
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	dir := t.TempDir()
	run := small(t).Write(t, filepath.Join(dir, "run"))
	other := small(t)
	other.Emulator = "sch_netem"
	netem := other.Write(t, filepath.Join(dir, "netem"))
	for name, test := range map[string]struct {
		folders []string
		options Options
		want    string
		is      error
	}{
		"nothing":         {nil, Options{}, "needs the folder of a run", nil},
		"no folder":       {[]string{filepath.Join(dir, "none")}, Options{}, "read the results in", os.ErrNotExist},
		"format":          {[]string{run}, Options{Formats: []Format{"pdf"}}, `"pdf" is not a format`, nil},
		"other emulators": {[]string{run, netem}, Options{}, `the links of run were emulated by "testbed-agent underlay" and those of netem by "sch_netem"`, ErrIncomparable},
		"twice":           {[]string{run, run}, Options{}, `two folders are named "run"`, ErrIncomparable},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(test.folders, test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	run := small(t).Write(t, filepath.Join(dir, "run"))
	out := filepath.Join(dir, "out")
	var said bytes.Buffer
	if err := Command([]string{run, "-o", out, "-formats", "html,csv", "-title", "A title"}, &said); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Report: " + filepath.Join(out, Page) + ", 4 files\n", "run, hello-world: After its set-up, cluster_link adds little", "  This is not decided: 0.2"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it said %q, want %q in it", said.String(), want)
		}
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !bytes.Contains(page, []byte("<title>A title</title>")) {
		t.Errorf("the page has another title, or is not there: %v", err)
	}
	if err := Command([]string{"-o", out}, &said); err == nil || !strings.Contains(err.Error(), "name the results folder") {
		t.Errorf("without a folder: %v", err)
	}
}
