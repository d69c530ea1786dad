package report

import (
	"bytes"
	"fmt"
	"html"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is one picture: panels side by side, with one legend for all. A page
// shows the panels apart, so that they find room on any screen; a file holds
// them all.
type figure struct {
	kind    kind
	Name    string // of its files
	Title   string
	Caption string // what is shown, and how to read it
	Columns int    // of panels in the files
	legend  []entry
	panels  []panel
}

// kind is what a figure shows.
type kind int

const (
	topologies kind = iota
	responseTimes
	coldStarts
	overheadOverRTT
	distributions
	drifts
	runRatios
)

// panel is one part of a figure.
type panel struct {
	title         string
	description   string // the numbers in words, for those who cannot see them
	width, height vg.Length
	draw          func(draw.Canvas)
}

// entry is a line of a legend.
type entry struct {
	name string
	look look
	line bool // whether there is a line, too
}

// plotPanel leaves room around a plot for the ends of labels.
func plotPanel(p *plot.Plot, title, description string) panel {
	return panel{title: title, description: description, width: panelWidth, height: panelHeight,
		draw: func(c draw.Canvas) { p.Draw(draw.Crop(c, 3, -9, 3, -3)) }}
}

const (
	thumbWidth  vg.Length = 28
	thumbHeight vg.Length = 12
	gap         vg.Length = 10
)

// thumb draws the sample of a legend's entry.
func (e entry) thumb(c draw.Canvas) {
	middle := (c.Min.Y + c.Max.Y) / 2
	if e.line {
		c.StrokeLine2(e.look.line(1.6), c.Min.X, middle, c.Max.X, middle)
	}
	c.DrawGlyphNoClip(e.look.glyph(), vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: middle})
}

// draw draws the legend and all panels.
func (f figure) draw(c draw.Canvas) {
	at := c.Min.X + gap
	style := text.Style{Color: ink, Font: typeface(10), YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	middle := c.Max.Y - thumbHeight
	for _, e := range f.legend {
		e.thumb(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: at, Y: middle - thumbHeight/2}, Max: vg.Point{X: at + thumbWidth, Y: middle + thumbHeight/2}}})
		c.FillText(style, vg.Point{X: at + thumbWidth + 4, Y: middle}, e.name)
		at += thumbWidth + style.Width(e.name) + 20
	}
	top := c.Max.Y - f.legendHeight()
	for i, panel := range f.panels {
		x := c.Min.X + vg.Length(i%f.Columns)*(panel.width+gap)
		y := top - vg.Length(i/f.Columns)*(panel.height+gap)
		panel.draw(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y - panel.height}, Max: vg.Point{X: x + panel.width, Y: y}}})
	}
}

func (f figure) legendHeight() vg.Length {
	if len(f.legend) == 0 {
		return 0
	}
	return 2*thumbHeight + gap/2
}

// size is how large the figure is with all its panels.
func (f figure) size() (width, height vg.Length) {
	columns := min(f.Columns, len(f.panels))
	rows := (len(f.panels) + f.Columns - 1) / f.Columns
	panel := f.panels[0]
	return vg.Length(columns)*(panel.width+gap) - gap, f.legendHeight() + vg.Length(rows)*(panel.height+gap) - gap
}

// file returns the figure as an SVG document.
func (f figure) file() []byte {
	width, height := f.size()
	description := f.Caption
	for _, panel := range f.panels {
		description += "\n" + panel.title + ": " + panel.description
	}
	drawing := svgOf(width, height, f.Name, f.Title, description, f.draw)
	return append([]byte("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), drawing...)
}

// dotsPerInch of the PNG files, enough for print.
const dotsPerInch = 200

// picture returns the figure as a PNG file on white.
func (f figure) picture() ([]byte, error) {
	width, height := f.size()
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))}
	f.draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.Name, err)
	}
	return out.Bytes(), nil
}

// svgOf returns a drawing as an svg element with a title and a description.
func svgOf(width, height vg.Length, id, title, description string, drawing func(draw.Canvas)) []byte {
	canvas := vgsvg.NewWith(vgsvg.UseWH(width, height))
	drawing(draw.New(canvas))
	var out bytes.Buffer
	// The canvas writes to memory, which cannot fail.
	_, _ = canvas.WriteTo(&out)
	_, body, _ := bytes.Cut(out.Bytes(), []byte("<svg"))
	_, body, _ = bytes.Cut(body, []byte(">"))
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="%[1]s-title %[1]s-desc" width="%[2]g" height="%[3]g" viewBox="0 0 %[2]g %[3]g"><title id="%[1]s-title">%[4]s</title><desc id="%[1]s-desc">%[5]s</desc>`,
		id, width.Points(), height.Points(), html.EscapeString(title), html.EscapeString(description))
	return append([]byte(head), bytes.TrimSpace(body)...)
}
