package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench/load"
)

// draw returns the figures of a run, whose names start with the prefix.
func (r *run) draw(prefix string) []figure {
	figures := []figure{r.topology(prefix + "topology")}
	for _, function := range r.Functions {
		figures = append(figures, r.responseTime(prefix+"response-time-"+fileName(function), function))
	}
	for _, function := range r.Functions {
		if f := r.coldFigure(prefix+"cold-start-"+fileName(function), function); len(f.panels) > 0 {
			figures = append(figures, f)
		}
	}
	for _, function := range r.Functions {
		if f := r.overheads(prefix+"overhead-"+fileName(function), function); len(f.panels) > 0 {
			figures = append(figures, f)
		}
	}
	for _, function := range r.Functions {
		if f := r.distribution(prefix+"distribution-"+fileName(function), function); len(f.panels) > 0 {
			figures = append(figures, f)
		}
	}
	for _, function := range r.Functions {
		if f := r.drift(prefix+"drift-"+fileName(function), function); len(f.panels) > 0 {
			figures = append(figures, f)
		}
	}
	return figures
}

// fileName makes a name fit for a file and for an id in a page.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
}

// connectionTitle words a connection mode.
func connectionTitle(connection load.Connection) string {
	switch connection {
	case load.Reuse:
		return "connection reused"
	case load.New:
		return "new connection per request"
	default:
		return string(connection)
	}
}

// legend names the arms, the baseline first.
func (r *run) legend(line bool) []entry {
	var entries []entry
	for i, arm := range r.Arms {
		entries = append(entries, entry{name: arm, look: lookOf(i), line: line})
	}
	return entries
}

// point is a value with what is known about it: an interval and a range.
type point struct {
	x, value  float64
	low, high *float64 // interval
	min, max  *float64 // range
}

// logged returns the point on a logarithmic scale. Times and ratios are above
// zero.
func (p point) logged() point {
	for _, v := range []**float64{&p.low, &p.high, &p.min, &p.max} {
		if *v != nil {
			*v = new(math.Log10(**v))
		}
	}
	p.value = math.Log10(p.value)
	return p
}

// points draws values with their intervals and ranges.
type points struct {
	look   look
	values []point
	joined bool // by a line
}

// Plot implements plot.Plotter.
func (s points) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var line []vg.Point
	for _, v := range s.values {
		line = append(line, vg.Point{X: x(v.x), Y: y(v.value)})
		if v.min != nil && v.max != nil {
			c.StrokeLine2(s.look.solid(0.6), x(v.x), y(*v.min), x(v.x), y(*v.max))
		}
		if v.low != nil && v.high != nil {
			c.StrokeLine2(s.look.solid(1.8), x(v.x), y(*v.low), x(v.x), y(*v.high))
			for _, end := range []vg.Length{y(*v.low), y(*v.high)} {
				c.StrokeLine2(s.look.solid(1.2), x(v.x)-2.5, end, x(v.x)+2.5, end)
			}
		}
	}
	if s.joined {
		c.StrokeLines(s.look.line(1), c.ClipLinesXY(line)...)
	}
	for _, at := range line {
		c.DrawGlyph(s.look.glyph(), at)
	}
}

// bounds returns the least and the greatest of all that the points show.
func bounds(set []point) (low, high float64, ok bool) {
	for _, p := range set {
		for _, v := range []*float64{&p.value, p.low, p.high, p.min, p.max} {
			switch {
			case v == nil:
			case !ok:
				low, high, ok = *v, *v, true
			default:
				low, high = min(low, *v), max(high, *v)
			}
		}
	}
	return low, high, ok
}

// beside spreads n arms around a place on an axis of names.
func beside(place, i, n int) float64 {
	return float64(place) + (float64(i)-float64(n-1)/2)*spacing(n)
}

// spacing is how far apart n arms are on an axis of names.
func spacing(n int) float64 { return min(0.24, 0.84/float64(n)) }

// nameScenarios puts the scenarios on the horizontal axis.
func (r *run) nameScenarios(p *plot.Plot) {
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
	}
	p.NominalX(names...)
	p.X.Width = 0.5
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	p.X.Padding, p.Y.Padding = 0, 0
}

// responseTime shows the median, its interval, the range and the first request
// of every cell of a function.
func (r *run) responseTime(name, function string) figure {
	f := figure{
		kind: responseTimes, Name: name, Title: "Response time of " + function + " (" + r.payload(function) + ")", Columns: 2, legend: r.legend(false),
		Caption: "Filled marker: median of the measured requests. Bar: its 95 % interval. Thin line: from the least to the greatest. " +
			"Hollow marker: the first request, which sets the connection and the session up. The scale is logarithmic.",
	}
	f.legend = append(f.legend, entry{name: "first request", look: look{color: color.RGBA{A: 0xFF}, marker: marker{hollow: true}}})
	var all []point
	var plots []*plot.Plot
	for _, connection := range r.Plan.Connections {
		p := newPlot(connectionTitle(connection), "", "response time (ms)")
		r.nameScenarios(p)
		p.Add(grid{})
		var words []string
		for i, arm := range r.Arms {
			var values, first []point
			for place, s := range r.Scenarios {
				result := r.result[bench.Cell{Function: function, Scenario: s.Name, Connection: connection, Arm: arm}]
				x := beside(place, i, len(r.Arms))
				if result.First != nil {
					first = append(first, point{x: x + 0.42*spacing(len(r.Arms)), value: *result.First}.logged())
				}
				if result.Median == nil {
					continue
				}
				values = append(values, point{x: x, value: *result.Median, low: result.MedianLow, high: result.MedianHigh, min: result.Min, max: result.Max}.logged())
				words = append(words, fmt.Sprintf("%s in %s %s", arm, s.Name, withInterval(result.Median, result.MedianLow, result.MedianHigh, " ms")))
			}
			setUp := lookOf(i)
			setUp.marker.hollow = true
			p.Add(points{look: setUp, values: first}, points{look: lookOf(i), values: values})
			all = append(append(all, values...), first...)
		}
		plots = append(plots, p)
		f.panels = append(f.panels, plotPanel(p, connectionTitle(connection), "Medians: "+orNone(words)+"."))
	}
	setLogarithmic(plots, all)
	return f
}

// setLogarithmic gives the vertical axes of all plots the same scale.
func setLogarithmic(plots []*plot.Plot, all []point) {
	low, high, _ := bounds(all)
	for _, p := range plots {
		logarithmic(&p.Y, low, high)
	}
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none were measured"
	}
	return strings.Join(words, ", ")
}

// overheads shows what the arms take more than the baseline, over the round
// trip of the scenarios. There is none with one arm, or where no round trip was
// measured.
func (r *run) overheads(name, function string) figure {
	f := figure{
		kind: overheadOverRTT, Name: name, Title: "Overhead against " + r.Plan.Baseline + " for " + function + " (" + r.payload(function) + ")", Columns: 2,
		Caption: "Difference of the medians over the round trip that was measured on the links around the requests. Bar: 95 % interval from a bootstrap of blocks. Arms at one round trip stand side by side.",
	}
	if len(r.Arms) < 2 || slices.ContainsFunc(r.Scenarios, func(s scenario) bool { return s.Measured == nil }) {
		return f
	}
	f.legend = r.legend(true)[1:]
	for _, connection := range r.Plan.Connections {
		p := newPlot(connectionTitle(connection), "round trip of the link (ms)", "overhead (ms)")
		p.Add(grid{vertical: true})
		var words []string
		var all []point
		longest := 1.0
		for _, s := range r.Scenarios {
			longest = max(longest, *s.Measured)
		}
		for i, arm := range r.Arms[1:] {
			// Intervals at one place would hide each other.
			aside := 0.012 * longest * (float64(i) - float64(len(r.Arms)-2)/2)
			var values []point
			for _, s := range r.Scenarios {
				c := r.overhead[bench.Cell{Function: function, Scenario: s.Name, Connection: connection, Arm: arm}]
				if c.Difference == nil {
					continue
				}
				values = append(values, point{x: *s.Measured + aside, value: *c.Difference, low: c.DifferenceLow, high: c.DifferenceHigh})
				words = append(words, fmt.Sprintf("%s in %s, at %s ms, %s", arm, s.Name, number(s.Measured), withInterval(c.Difference, c.DifferenceLow, c.DifferenceHigh, " ms")))
			}
			p.Add(points{look: lookOf(i + 1), values: values, joined: true})
			all = append(all, values...)
		}
		low, high, _ := bounds(all)
		p.X.Min, p.X.Max = -0.03*longest, longest*1.05
		p.Y.Min, p.Y.Max = min(0, low*1.1), max(0, high*1.1)
		if p.Y.Min == p.Y.Max {
			p.Y.Max = 1
		}
		p.Add(level(0))
		f.panels = append(f.panels, plotPanel(p, connectionTitle(connection), "Overheads: "+orNone(words)+"."))
	}
	return f
}

// level draws a line at a height.
type level float64

// Plot implements plot.Plotter.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 0.8}, c.Min.X, y(float64(l)), c.Max.X, y(float64(l)))
}

// eachPlace calls back for each scenario and connection mode, in the order in
// which panels are laid out.
func (r *run) eachPlace(function string, do func(title string, cell bench.Cell)) {
	for _, connection := range r.Plan.Connections {
		for _, s := range r.Scenarios {
			do(s.Name+", "+connectionTitle(connection), bench.Cell{Function: function, Scenario: s.Name, Connection: connection})
		}
	}
}

// curvePoints bounds how many points of a distribution are drawn; more are not
// to be told apart in a picture.
const curvePoints = 200

// distribution shows the share of requests that took at most a time.
func (r *run) distribution(name, function string) figure {
	f := figure{
		kind: distributions, Name: name, Title: "Distribution of " + function + " (" + r.payload(function) + ")", Columns: max(1, min(3, len(r.Scenarios))), legend: r.legend(true),
		Caption: "Share of the measured requests that took at most a time, which has a logarithmic scale.",
	}
	for i := range f.legend {
		f.legend[i].look.marker.hidden = true
	}
	r.eachPlace(function, func(title string, cell bench.Cell) {
		p := newPlot(title, "response time (ms)", "share of requests")
		p.Add(grid{vertical: true})
		var all []point
		var words []string
		for i, arm := range r.Arms {
			cell.Arm = arm
			times := flatten(r.times[cell])
			if len(times) == 0 {
				continue
			}
			curve := cumulative(times)
			all = append(all, point{value: curve[0].X}, point{value: curve[len(curve)-1].X})
			p.Add(&plotter.Line{XYs: curve, StepStyle: plotter.PostStep, LineStyle: lookOf(i).line(1.4)})
			quartile := func(q float64) string { value, _ := bench.Percentile(times, q); return number(&value) }
			words = append(words, fmt.Sprintf("%s has quartiles at %s, %s and %s ms", arm, quartile(25), quartile(50), quartile(75)))
		}
		low, high, ok := bounds(all)
		if !ok {
			return
		}
		logarithmic(&p.X, low, high)
		p.Y.Min, p.Y.Max = 0, 1
		f.panels = append(f.panels, plotPanel(p, title, strings.Join(words, "; ")+"."))
	})
	return f
}

// cumulative returns the corners of the distribution of sorted times, which are
// on a logarithmic scale.
func cumulative(times []float64) plotter.XYs {
	curve := plotter.XYs{{X: math.Log10(times[0]), Y: 0}}
	count := min(len(times), curvePoints)
	for i := 1; i <= count; i++ {
		n := i * len(times) / count
		curve = append(curve, plotter.XY{X: math.Log10(times[n-1]), Y: float64(n) / float64(len(times))})
	}
	return curve
}

func flatten(blocks map[int][]float64) []float64 {
	var all []float64
	for _, values := range blocks {
		all = append(all, values...)
	}
	slices.Sort(all)
	return all
}

// drift shows the medians of the blocks in their order. One block has none.
func (r *run) drift(name, function string) figure {
	f := figure{
		kind: drifts, Name: name, Title: "Blocks of " + function + " (" + r.payload(function) + ")", Columns: max(1, min(3, len(r.Scenarios))), legend: r.legend(true),
		Caption: "Median of each block, in the order of time. A trend says that the testbed changed during the run; that all arms follow it says that it favours none. Blocks without a valid visit have no point. The scale is logarithmic.",
	}
	if r.Plan.Blocks < 2 {
		return f
	}
	r.eachPlace(function, func(title string, cell bench.Cell) {
		p := newPlot(title, "block", "median (ms)")
		p.Add(grid{})
		var all []point
		var words []string
		for i, arm := range r.Arms {
			cell.Arm = arm
			var values []point
			var medians []float64
			for block := 1; block <= r.Plan.Blocks; block++ {
				if median, ok := bench.Percentile(r.times[cell][block], 50); ok {
					values = append(values, point{x: float64(block), value: median}.logged())
					medians = append(medians, median)
				}
			}
			if len(medians) > 0 {
				words = append(words, fmt.Sprintf("%s from %s to %s ms", arm, number(new(slices.Min(medians))), number(new(slices.Max(medians)))))
			}
			p.Add(points{look: lookOf(i), values: values, joined: true})
			all = append(all, values...)
		}
		if len(all) == 0 {
			return
		}
		setLogarithmic([]*plot.Plot{p}, all)
		p.X.Min, p.X.Max = 0.7, float64(r.Plan.Blocks)+0.3
		p.X.Tick.Marker = blockTicks(r.Plan.Blocks)
		f.panels = append(f.panels, plotPanel(p, title, "Medians of blocks: "+strings.Join(words, ", ")+"."))
	})
	return f
}

// blockTicks numbers up to about ten blocks.
func blockTicks(blocks int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	step := (blocks + 9) / 10
	for block := 1; block <= blocks; block += step {
		ticks = append(ticks, plot.Tick{Value: float64(block), Label: fmt.Sprint(block)})
	}
	return ticks
}

// draw returns the figures of a difference between runs.
func (d *difference) draw(prefix string) []figure {
	var figures []figure
	for _, function := range d.Run.Functions {
		f := figure{
			kind: runRatios, Name: prefix + fileName(function), Columns: 2, legend: d.Run.legend(false),
			Title:   "Ratio of " + d.Run.ID + " to " + d.Base.ID + " for " + function,
			Caption: "The median in the later run divided by that in the first one; 1 is no change. Bar: 95 % interval from a bootstrap of the blocks of each run.",
		}
		for _, connection := range d.Run.Plan.Connections {
			if panel, ok := d.ratios(function, connection); ok {
				f.panels = append(f.panels, panel)
			}
		}
		if len(f.panels) > 0 {
			figures = append(figures, f)
		}
	}
	return figures
}

func (d *difference) ratios(function string, connection load.Connection) (panel, bool) {
	p := newPlot(connectionTitle(connection), "", "ratio of medians")
	d.Run.nameScenarios(p)
	p.Add(grid{})
	all := []point{point{value: 1}.logged()}
	var words []string
	for i, arm := range d.Run.Arms {
		var values []point
		for place, s := range d.Run.Scenarios {
			cell := bench.Cell{Function: function, Scenario: s.Name, Connection: connection, Arm: arm}
			at := slices.IndexFunc(d.Comparisons, func(c bench.RunComparison) bool { return c.Cell == cell })
			if at < 0 || d.Comparisons[at].Ratio == nil {
				continue
			}
			c := d.Comparisons[at]
			values = append(values, point{x: beside(place, i, len(d.Run.Arms)), value: *c.Ratio, low: c.RatioLow, high: c.RatioHigh}.logged())
			words = append(words, fmt.Sprintf("%s in %s %s", arm, s.Name, withInterval(c.Ratio, c.RatioLow, c.RatioHigh, "")))
		}
		p.Add(points{look: lookOf(i), values: values})
		all = append(all, values...)
	}
	if len(words) == 0 {
		return panel{}, false
	}
	p.Add(level(math.Log10(1)))
	low, high, _ := bounds(all)
	logarithmic(&p.Y, low, high)
	return plotPanel(p, connectionTitle(connection), "Ratios: "+strings.Join(words, ", ")+"."), true
}
