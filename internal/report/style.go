package report

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The size of one panel. A page scales it to the width it has.
const (
	panelWidth  vg.Length = 300
	panelHeight vg.Length = 205
)

var (
	ink   = color.Gray{}        // becomes white on a dark page
	faint = color.Gray{Y: 0xD8} // of grids; becomes dark on a dark page
)

// look is how an arm is drawn, the same in all figures. Colours are those of
// Okabe and Ito, which the colour-blind tell apart; dashes and markers carry
// the same in grey.
type look struct {
	color  color.RGBA
	dashes []vg.Length
	marker marker
}

var looks = []look{
	{color.RGBA{0x00, 0x72, 0xB2, 0xFF}, nil, marker{}},
	{color.RGBA{0xD5, 0x5E, 0x00, 0xFF}, []vg.Length{5, 2.5}, marker{corners: 4, turn: math.Pi / 4}},
	{color.RGBA{0x00, 0x9E, 0x73, 0xFF}, []vg.Length{1.5, 2}, marker{corners: 3, turn: math.Pi / 2}},
	{color.RGBA{0xCC, 0x79, 0xA7, 0xFF}, []vg.Length{7, 2, 1.5, 2}, marker{corners: 4}},
	{color.RGBA{0xE6, 0x9F, 0x00, 0xFF}, []vg.Length{9, 3}, marker{corners: 3, turn: -math.Pi / 2}},
}

// marker is a circle, or a regular polygon whose first corner is at an angle.
type marker struct {
	corners int // 0 is a circle
	turn    float64
	hollow  bool
	hidden  bool
}

// DrawGlyph implements draw.GlyphDrawer.
func (m marker) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	if m.hidden {
		return
	}
	var path vg.Path
	if m.corners == 0 {
		path.Move(vg.Point{X: at.X + style.Radius, Y: at.Y})
		path.Arc(at, style.Radius, 0, 2*math.Pi)
	}
	for i := range m.corners {
		// Polygons look as large as circles when they are a little larger.
		sin, cos := math.Sincos(m.turn + 2*math.Pi*float64(i)/float64(m.corners))
		corner := vg.Point{X: at.X + 1.25*style.Radius*vg.Length(cos), Y: at.Y + 1.25*style.Radius*vg.Length(sin)}
		if i == 0 {
			path.Move(corner)
		} else {
			path.Line(corner)
		}
	}
	path.Close()
	if m.hollow {
		c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: 1.1})
		c.Stroke(path)
		return
	}
	c.SetColor(style.Color)
	c.Fill(path)
}

// lookOf returns the look of the i-th arm.
func lookOf(i int) look { return looks[i%len(looks)] }

func (l look) line(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: width, Dashes: l.dashes}
}

// solid is for intervals, whose ends a dash would hide.
func (l look) solid(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: width}
}

func (l look) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.marker}
}

func typeface(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
}

func boldface(size vg.Length) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans", Weight: xfont.WeightBold}, size)
}

// newPlot returns an empty plot in the style of the report.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.Padding = 6
	p.X.Label.Text, p.Y.Label.Text = x, y
	for style, size := range map[*text.Style]vg.Length{
		&p.X.Label.TextStyle: 9.5, &p.Y.Label.TextStyle: 9.5,
		&p.X.Tick.Label: 9, &p.Y.Tick.Label: 9,
		&p.Legend.TextStyle: 9.5,
	} {
		style.Font, style.Color = typeface(size), ink
	}
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = boldface(10), ink
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Marker = evenTicks{}
		axis.Color, axis.Tick.Color = ink, ink
		axis.Tick.Length = 4
		axis.Padding = 4
	}
	return p
}

// grid draws a faint line at each labelled tick of the vertical axis, and of
// the horizontal one where that is a scale.
type grid struct{ vertical bool }

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: faint, Width: 0.6}
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Label != "" && tick.Value >= p.Y.Min && tick.Value <= p.Y.Max {
			c.StrokeLine2(style, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
	if !g.vertical {
		return
	}
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if tick.Label != "" && tick.Value >= p.X.Min && tick.Value <= p.X.Max {
			c.StrokeLine2(style, x(tick.Value), c.Min.Y, x(tick.Value), c.Max.Y)
		}
	}
}

// logarithmic makes an axis show values whose logarithms to the base of ten are
// plotted, from low to high. The plot's own logarithmic scale puts the label of
// an axis where it needs room outside.
func logarithmic(axis *plot.Axis, low, high float64) {
	axis.Min, axis.Max = low-0.08, high+0.08
	axis.Tick.Marker = logTicks{}
}

// evenTicks are the default ones without the zeros that say nothing.
type evenTicks struct{}

// Ticks implements plot.Ticker.
func (evenTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = tickLabel(ticks[i].Value)
		}
	}
	return ticks
}

func tickLabel(value float64) string {
	if math.Abs(value) < 1e-9 {
		return "0"
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}

// logTicks mark the digits of each decade and label as many as there is room
// for: only powers of ten over more than three decades, and even steps where no
// digits would do.
type logTicks struct{}

// Ticks implements plot.Ticker. The range is one of logarithms.
func (logTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	add := func(value float64, label string) {
		if at := math.Log10(value); value > 0 && at >= low && at <= high {
			ticks = append(ticks, plot.Tick{Value: at, Label: label})
		}
	}
	labelled := []float64{1, 2, 5}
	switch span := high - low; {
	case span > 3:
		labelled = []float64{1}
	case span < 0.4:
		for _, tick := range (evenTicks{}).Ticks(math.Pow(10, low), math.Pow(10, high)) {
			add(tick.Value, tick.Label)
		}
		return ticks
	case span < 0.9:
		labelled = []float64{1, 1.5, 2, 3, 4, 5, 7}
	}
	for power := math.Floor(low); power <= high; power++ {
		for _, digit := range []float64{1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9} {
			value := digit * math.Pow(10, power)
			switch {
			case slices.Contains(labelled, digit):
				add(value, tickLabel(value))
			case digit != 1.5:
				add(value, "")
			}
		}
	}
	return ticks
}
