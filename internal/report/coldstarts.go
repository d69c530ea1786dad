package report

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// coldPart is one part of cold starts.
type coldPart struct {
	name string
	of   func(*bench.ColdParts) float64
}

func coldParts() []coldPart {
	return []coldPart{
		{"decision", func(p *bench.ColdParts) float64 { return p.Decision }},
		{"scheduling", func(p *bench.ColdParts) float64 { return p.Scheduling }},
		{"containers", func(p *bench.ColdParts) float64 { return p.Containers }},
		{"readiness", func(p *bench.ColdParts) float64 { return p.Readiness }},
		{"answer", func(p *bench.ColdParts) float64 { return p.Answer }},
	}
}

const coldCaption = "Medians of the parts of cold starts in milliseconds: until activator and autoscaler had a pod made (decision), until it had a node (scheduling), " +
	"until its last container ran (containers), until Kubernetes called it ready, or it had answered (readiness), and until the answer had been read (answer). " +
	"Medians of parts need not add up to the median of the whole."

// coldStarts returns the results whose requests were cold starts.
func (r *run) coldStarts() []bench.Result {
	var cold []bench.Result
	for _, result := range r.Results {
		if result.Cold != nil {
			cold = append(cold, result)
		}
	}
	return cold
}

// table is one as every format shows it. Its first columns are words.
type table struct {
	Caption string
	Header  []string
	Rows    [][]string
}

// ColdTable has the parts of all cold starts, nil when the run has none.
func (r *run) ColdTable() *table {
	t := table{Caption: coldCaption, Header: []string{"function", "scenario", "connection", "arm", "n"}}
	for _, part := range coldParts() {
		t.Header = append(t.Header, part.name)
	}
	t.Header = append(t.Header, "whole", "interval")
	for _, result := range r.coldStarts() {
		row := append(cellRow("", result.Cell)[1:], fmt.Sprint(result.Count))
		for _, part := range coldParts() {
			row = append(row, number(new(part.of(result.Cold))))
		}
		t.Rows = append(t.Rows, append(row, number(result.Median), interval(result.MedianLow, result.MedianHigh)))
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return &t
}

// coldFigure stacks the parts of the cold starts of a function. It has no panel
// for other requests.
func (r *run) coldFigure(name, function string) figure {
	f := figure{kind: coldStarts, Name: name, Title: "Parts of the cold starts of " + function, Columns: 1, Caption: coldCaption}
	for i, part := range coldParts() {
		f.legend = append(f.legend, entry{name: part.name, look: look{color: lookOf(i).color, marker: marker{corners: 4, turn: math.Pi / 4}}})
	}
	var names, words []string
	var bars []bar
	highest := 0.0
	for _, result := range r.coldStarts() {
		if result.Function != function {
			continue
		}
		b := bar{place: float64(len(bars))}
		var parts []string
		for i, part := range coldParts() {
			value := part.of(result.Cold)
			b.parts = append(b.parts, barPart{value, lookOf(i).color})
			b.height += value
			parts = append(parts, part.name+" "+number(&value)+" ms")
		}
		highest = max(highest, b.height)
		bars = append(bars, b)
		names = append(names, result.Arm+"\n"+result.Scenario)
		words = append(words, result.Arm+" in "+result.Scenario+": "+strings.Join(parts, ", "))
	}
	if len(bars) == 0 {
		return f
	}
	p := newPlot("", "", "medians of the parts (ms)")
	p.NominalX(names...)
	p.X.Width = 0.5
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.X.Padding, p.Y.Padding = 0, 0
	p.Y.Min, p.Y.Max = 0, highest*1.05
	p.Add(grid{}, barChart(bars))
	f.panels = append(f.panels, plotPanel(p, "parts", strings.Join(words, "; ")+"."))
	return f
}

// bar is a stack of parts at a place on an axis of names.
type bar struct {
	place, height float64
	parts         []barPart
}

type barPart struct {
	height float64
	color  color.RGBA
}

type barChart []bar

// Plot implements plot.Plotter.
func (bars barChart) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, b := range bars {
		base := 0.0
		left, right := x(b.place-0.3), x(b.place+0.3)
		for _, part := range b.parts {
			low, high := y(base), y(base+part.height)
			c.FillPolygon(part.color, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
			base += part.height
		}
	}
}
