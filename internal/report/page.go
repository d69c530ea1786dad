package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"time"

	"gonum.org/v1/plot/vg/draw"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

var (
	//go:embed page.html.tmpl
	pageTemplate string
	//go:embed page.css
	pageStyle string
)

// Page is the name of the page among the files of a report.
const Page = "report.html"

// html adds the page.
func (r *report) html(files map[string][]byte) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"style":      func() template.CSS { return template.CSS(pageStyle) },
		"number":     number,
		"interval":   interval,
		"connection": connectionTitle,
		"figures":    func(run *run, kind string) []figure { return ofKind(run.figures, kinds[kind]) },
		"ratios":     func(d difference) []figure { return d.figures },
		"panels":     figure.elements,
		"legend":     figure.legendElements,
		"time":       func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
		"measured":   measured,
		"profile":    describeProfile,
		"percent":    percent,
		"fileName":   fileName,
		"pValue":     pValue,
	}).Parse(pageTemplate)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.Execute(&out, r); err != nil {
		return err
	}
	files[Page] = out.Bytes()
	return nil
}

// kinds are the names of kinds in the page's template.
var kinds = map[string]kind{
	"topology": topologies, "response": responseTimes, "cold": coldStarts, "overhead": overheadOverRTT, "distribution": distributions, "drift": drifts,
}

func ofKind(figures []figure, wanted kind) []figure {
	var found []figure
	for _, f := range figures {
		if f.kind == wanted {
			found = append(found, f)
		}
	}
	return found
}

// elements returns the panels of a figure as svg elements.
func (f figure) elements() []template.HTML {
	var elements []template.HTML
	for i, p := range f.panels {
		id := fmt.Sprintf("%s-%d", f.Name, i+1)
		elements = append(elements, template.HTML(svgOf(p.width, p.height, id, f.Title+": "+p.title, p.description, p.draw)))
	}
	return elements
}

// legendElement is an entry of a legend in a page.
type legendElement struct {
	Name   string
	Sample template.HTML
}

func (f figure) legendElements() []legendElement {
	var elements []legendElement
	for i, e := range f.legend {
		id := fmt.Sprintf("%s-legend-%d", f.Name, i+1)
		sample := svgOf(thumbWidth, thumbHeight, id, e.name, "how "+e.name+" is drawn", func(c draw.Canvas) { e.thumb(c) })
		elements = append(elements, legendElement{e.name, template.HTML(sample)})
	}
	return elements
}

func percent(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *v)
}

// Payload words how a function is called.
func (r *run) Payload(function string) string { return r.payload(function) }

// row is a line of a table whose first words repeat.
type row struct {
	bench.Result
	Group    bool // whether the line starts another function or connection mode
	Overhead *bench.Comparison
}

// Rows returns the results with the comparison that belongs to each.
func (r *run) Rows() []row {
	var rows []row
	last := bench.Cell{}
	for _, result := range r.Results {
		group := result.Cell
		group.Arm, group.Scenario = "", ""
		next := row{Result: result, Group: group != last}
		last = group
		if c, ok := r.overhead[result.Cell]; ok {
			next.Overhead = &c
		}
		rows = append(rows, next)
	}
	return rows
}

// arm is an arm as the page describes it.
type arm struct {
	Name, Path string
	Baseline   bool
	Calls      []call
	Hops       []bench.Hop
	bench.Chain
}

// call is where a function is called, and the host that is asked for there
// unless it is that of the URL.
type call struct{ URL, Host string }

// Paths returns the arms with their paths, the baseline first.
func (r *run) Paths() []arm {
	var arms []arm
	for _, name := range r.Arms {
		of := r.Plan.Arms[name]
		a := arm{Name: name, Path: of.Path, Baseline: name == r.Plan.Baseline, Hops: of.Hops, Chain: of.Chain()}
		for _, function := range r.Functions {
			a.Calls = append(a.Calls, call{URL: of.URLs[function], Host: of.Hosts[function]})
		}
		arms = append(arms, a)
	}
	return arms
}

// HasHops tells whether an arm has its hops written down.
func (r *run) HasHops() bool {
	for _, a := range r.Plan.Arms {
		if len(a.Hops) > 0 {
			return true
		}
	}
	return false
}

// HasP999 tells whether a cell has enough requests for a 99.9th percentile.
func (r *run) HasP999() bool {
	return slices.ContainsFunc(r.Results, func(v bench.Result) bool { return v.P999 != nil })
}

// Clusters returns the URLs of the clusters that are described, in order.
func (r *run) Clusters() []string { return slices.Sorted(maps.Keys(r.Environment.Clusters)) }

// check is a link check with its place in the run.
type check struct {
	bench.VisitRecord
	When string // before or after the requests
	bench.LinkCheck
}

// Checks returns every check of every visit. A visit without links has none.
func (r *run) Checks() []check {
	var checks []check
	for _, visit := range r.Visits {
		for _, c := range visit.Before {
			checks = append(checks, check{visit, "before", c})
		}
		for _, c := range visit.After {
			checks = append(checks, check{visit, "after", c})
		}
	}
	return checks
}
