package report

import (
	"fmt"
	"strings"
)

// markdown adds what the runs found as one page of Markdown, for a README, a
// wiki or the pull request of a change.
func (r *report) markdown(files map[string][]byte) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n", escapeMarkdown(r.Title))
	for _, run := range r.Runs {
		run.writeMarkdown(&out)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(&out, "\n## %s against %s\n", escapeMarkdown(d.Run.ID), escapeMarkdown(d.Base.ID))
		var rows [][]string
		for _, c := range d.Comparisons {
			rows = append(rows, append(cellRow("", c.Cell)[1:],
				number(c.Difference), interval(c.DifferenceLow, c.DifferenceHigh), number(c.Ratio), interval(c.RatioLow, c.RatioHigh)))
		}
		markdownTable(&out, "Differences of medians in milliseconds and their ratios, with 95 % intervals.",
			[]string{"function", "scenario", "connection", "arm", "difference", "interval", "ratio", "interval"}, rows)
	}
	files["findings.md"] = []byte(out.String())
	return nil
}

func (r *run) writeMarkdown(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n%d requests of each cell in %d blocks, %s. Links emulated by %s.\n", escapeMarkdown(r.ID), r.Plan.Requests, r.Plan.Blocks, r.Plan.Load, r.Environment.Emulator)
	out.WriteByte('\n')
	for _, url := range r.Clusters() {
		cluster := r.Environment.Clusters[url]
		for _, n := range cluster.Nodes {
			fmt.Fprintf(out, "- node %s: Kubernetes %s, %s, kernel %s, %s CPUs, %s\n", escapeMarkdown(n.Name), n.Kubernetes, n.OS, n.Kernel, n.CPU, cluster.CPU)
		}
	}
	for _, s := range r.Scenarios {
		fmt.Fprintf(out, "- scenario %s: round trip %s ms as measured\n", escapeMarkdown(s.Name), number(s.Measured))
	}
	for _, note := range r.Notes() {
		fmt.Fprintf(out, "\n> %s\n", escapeMarkdown(note))
	}
	var rows [][]string
	for _, c := range r.Claims() {
		rows = append(rows, []string{c.Statement, c.Function, string(c.Verdict), strings.Join(c.Evidence, "; ")})
	}
	markdownTable(out, "What the study found, held against this run:", []string{"claim", "function", "verdict", "found"}, rows)
	rows = nil
	for _, t := range r.RoundTrips {
		rows = append(rows, []string{string(t.Cost), t.Function, string(t.Connection), t.Arm, number(&t.Trips), interval(t.Low, t.High)})
	}
	markdownTable(out, "Costs in round trips of the link, with 95 % intervals:", []string{"cost", "function", "connection", "arm", "round trips", "interval"}, rows)
	rows = nil
	for _, c := range r.Comparisons {
		rows = append(rows, append(cellRow("", c.Cell)[1:],
			number(c.Difference), interval(c.DifferenceLow, c.DifferenceHigh), number(c.Ratio), interval(c.RatioLow, c.RatioHigh), pValue(c.Adjusted)))
	}
	markdownTable(out, "Overheads against "+r.Plan.Baseline+": differences of medians in milliseconds and their ratios, with 95 % intervals, and adjusted p values.",
		[]string{"function", "scenario", "connection", "arm", "difference", "interval", "ratio", "interval", "p"}, rows)
	rows = nil
	for _, v := range r.Results {
		rows = append(rows, append(cellRow("", v.Cell)[1:], fmt.Sprint(v.Count), fmt.Sprint(v.Errors),
			number(v.First), number(v.Median), interval(v.MedianLow, v.MedianHigh), number(v.P90), number(v.P99), interval(v.P99Low, v.P99High)))
	}
	markdownTable(out, "Response times in milliseconds, with 95 % intervals.",
		[]string{"function", "scenario", "connection", "arm", "n", "errors", "first", "median", "interval", "p90", "p99", "interval"}, rows)
	if cold := r.ColdTable(); cold != nil {
		markdownTable(out, cold.Caption, cold.Header, cold.Rows)
	}
}

// wordColumns is how many columns of a table are words, before those of numbers.
const wordColumns = 4

// markdownTable prints one table, whose first columns are words; none without
// rows.
func markdownTable(out *strings.Builder, caption string, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n| %s |\n|%s%s\n", escapeMarkdown(caption), strings.Join(header, " | "),
		strings.Repeat("---|", wordColumns), strings.Repeat("---:|", len(header)-wordColumns))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = escapeMarkdown(cell)
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}

// escapeMarkdown makes any text print as it is, on one line.
func escapeMarkdown(text string) string {
	return strings.NewReplacer(
		`\`, `\\`, `|`, `\|`, `<`, `\<`, `*`, `\*`, `_`, `\_`, "`", "\\`", "[", `\[`, "]", `\]`, "\n", " ",
	).Replace(text)
}

// pValue prints a probability for readers.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return "–"
	case *p < 0.001:
		return "< 0.001"
	default:
		return fmt.Sprintf("%.3f", *p)
	}
}
