package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/link"
)

// The measures of a topology.
const (
	topologyWidth vg.Length = 310
	lineHeight    vg.Length = 13
	boxPadding    vg.Length = 9
	boxGap        vg.Length = 14
)

// box is a rectangle with a heading and lines of text.
type box struct {
	heading string
	lines   []string
}

func (b box) height() vg.Length {
	return 2*boxPadding + lineHeight*vg.Length(1+len(b.lines))
}

// topology draws where the run took place, from top to bottom: the host of the
// client, the paths of the arms and the links below them, the other hosts and
// the functions.
func (r *run) topology(name string) figure {
	near, middle, far := r.boxes()
	height := near.height() + middle.height() + 4*boxGap + vg.Length(len(r.Arms))*2*lineHeight
	for _, b := range far {
		height += b.height() + boxGap
	}
	var words []string
	for _, b := range slices.Concat([]box{near, middle}, far) {
		words = append(words, strings.Join(append([]string{b.heading}, b.lines...), ", "))
	}
	for _, arm := range r.Arms {
		words = append(words, "arm "+arm+": "+r.Plan.Arms[arm].Path)
	}
	return figure{
		kind: topologies, Name: name, Title: "Topology of " + r.ID, Columns: 1,
		Caption: "Where the calls start, what they cross and where they end.",
		panels: []panel{{
			title: "topology", description: strings.Join(words, "; "), width: topologyWidth, height: height,
			draw: func(c draw.Canvas) { r.drawTopology(c, near, middle, far) },
		}},
	}
}

// boxes returns the boxes of the client's host, of the links, and of the rest.
func (r *run) boxes() (near, middle box, far []box) {
	home := hostOf(r.Environment.Client.Cluster)
	near = r.hostBox(home, r.Environment.Client.Cluster)
	near.lines = append(near.lines, "client pod "+r.Environment.Client.Pod)

	clusters := map[string]string{} // URL by host
	for url := range r.Environment.Clusters {
		clusters[hostOf(url)] = url
	}
	others := map[string]bool{}
	for host := range clusters {
		others[host] = true
	}
	middle.heading = "underlay"
	if r.Environment.Nebula != "" {
		middle.heading = "underlay of the Nebula overlay " + r.Environment.Nebula
	}
	for _, id := range r.Plan.Links() {
		if l, err := link.Parse(id); err == nil {
			a, b := l.Hosts()
			others[hostOf(a)], others[hostOf(b)] = true, true
		}
		middle.lines = append(middle.lines, "link "+id)
		for _, s := range r.Scenarios {
			if profile, ok := s.Profiles[id]; ok {
				middle.lines = append(middle.lines, "   "+s.Name+": "+describeProfile(profile))
			}
		}
	}
	delete(others, home)
	var functions []string
	for _, function := range r.Functions {
		functions = append(functions, "function "+function+" ("+r.payload(function)+")")
	}
	for _, host := range slices.Sorted(maps.Keys(others)) {
		far = append(far, r.hostBox(host, clusters[host]))
	}
	// Only with one other host it is known where the functions are.
	if len(far) == 1 {
		far[0].lines = append(far[0].lines, functions...)
	} else {
		far = append(far, box{heading: "functions", lines: functions})
	}
	return near, middle, far
}

// hostOf returns the name at the end of a cluster's URL.
func hostOf(url string) string {
	if _, name, ok := strings.Cut(url, "://"); ok {
		return name
	}
	return url
}

func (r *run) hostBox(host, url string) box {
	b := box{heading: "host " + host}
	if url == "" {
		return b
	}
	line := "cluster " + url
	if nodes := r.Environment.Clusters[url].Nodes; len(nodes) > 0 {
		line += ", Kubernetes " + nodes[0].Kubernetes
		if len(nodes) > 1 {
			line += fmt.Sprintf(", %d nodes", len(nodes))
		}
	}
	b.lines = append(b.lines, line)
	return b
}

// pen writes text of a size.
func pen(size vg.Length) text.Style {
	return text.Style{Color: ink, Font: typeface(size), YAlign: draw.YBottom, Handler: plot.DefaultTextHandler}
}

// fit shortens a text to a width.
func fit(style text.Style, words string, width vg.Length) string {
	if style.Width(words) <= width {
		return words
	}
	runes := []rune(words)
	for len(runes) > 0 && style.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// drawBox draws a box whose top is y and returns where it ends.
func drawBox(c draw.Canvas, b box, left, right, y vg.Length) vg.Length {
	bottom := y - b.height()
	corners := []vg.Point{{X: left, Y: y}, {X: right, Y: y}, {X: right, Y: bottom}, {X: left, Y: bottom}, {X: left, Y: y}}
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.8}, corners)
	width := right - left - 2*boxPadding
	y -= boxPadding + lineHeight - 3
	heading, plain := pen(10), pen(9)
	heading.Font = boldface(10)
	c.FillText(heading, vg.Point{X: left + boxPadding, Y: y}, fit(heading, b.heading, width))
	for _, line := range b.lines {
		y -= lineHeight
		c.FillText(plain, vg.Point{X: left + boxPadding, Y: y}, fit(plain, line, width))
	}
	return bottom
}

func (r *run) drawTopology(c draw.Canvas, near, middle box, far []box) {
	left, right := c.Min.X+1, c.Max.X-1
	start := drawBox(c, near, left, right, c.Max.Y-1)

	// The arms run in lanes at the left; their names stand beside them.
	lane := func(i int) vg.Length { return left + 14 + 16*vg.Length(i) }
	beside := lane(len(r.Arms)-1) + 14
	y := start - boxGap/2
	name, path := pen(9.5), pen(8.5)
	for i, arm := range r.Arms {
		y -= lineHeight
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: 0.6}, lane(i)+5, y+3, beside-2, y+3)
		c.DrawGlyphNoClip(lookOf(i).glyph(), vg.Point{X: beside + 3, Y: y + 3})
		c.FillText(name, vg.Point{X: beside + 11, Y: y}, fit(name, "arm "+arm, right-beside-11))
		y -= lineHeight
		c.FillText(path, vg.Point{X: beside + 11, Y: y}, fit(path, r.Plan.Arms[arm].Path, right-beside-11))
	}
	y = drawBox(c, middle, beside-4, right, y-boxGap/2)
	end := y - boxGap
	for i := range r.Arms {
		c.StrokeLine2(lookOf(i).line(1.8), lane(i), start, lane(i), end+5)
		c.FillPolygon(lookOf(i).color, []vg.Point{{X: lane(i) - 4, Y: end + 7}, {X: lane(i) + 4, Y: end + 7}, {X: lane(i), Y: end}})
	}
	for _, b := range far {
		end = drawBox(c, b, left, right, end) - boxGap
	}
}
