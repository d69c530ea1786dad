package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

// number prints milliseconds or a ratio for readers, to a microsecond or a
// thousandth below 1; "–" stands for what the samples do not allow.
func number(v *float64) string {
	if v == nil {
		return "–"
	}
	decimals := 2
	if math.Abs(*v) < 1 {
		decimals = 3
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64)
}

// interval prints an interval for readers; an end that is not bounded is "–".
func interval(low, high *float64) string {
	if low == nil && high == nil {
		return "–"
	}
	return "[" + number(low) + ", " + number(high) + "]"
}

// withInterval prints a value with its interval, if there is one.
func withInterval(value, low, high *float64, unit string) string {
	text := number(value) + unit
	if low != nil || high != nil {
		text += " " + interval(low, high)
	}
	return text
}

// exact prints a number for programs, "" for none.
func exact(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func cellRow(run string, c bench.Cell) []string {
	return []string{run, c.Function, c.Scenario, string(c.Connection), c.Arm}
}

var cellHeader = []string{"run", "function", "scenario", "connection", "arm"}

// withNumbers appends the numbers of a value to the words of its row.
func withNumbers[T any](words []string, columns []bench.Column[T], value T) []string {
	for _, column := range columns {
		words = append(words, exact(column.Value(value)))
	}
	return words
}

// withNames appends the names of columns to those of the words before them.
func withNames[T any](words []string, columns []bench.Column[T]) []string {
	for _, column := range columns {
		words = append(words, column.Name)
	}
	return words
}

// csv adds one file a table, with all digits. Its columns are those of the
// attributes of a run.
func (r *report) csv(files map[string][]byte) error {
	ofResult, ofComparison, ofDifference := bench.ResultColumns(), bench.ComparisonColumns(), bench.RunComparisonColumns()
	results := [][]string{withNames(append(cellHeader[:5:5], "count", "errors"), ofResult)}
	comparisons := [][]string{withNames(append(cellHeader[:5:5], "baseline"), ofComparison)}
	for _, run := range r.Runs {
		for _, v := range run.Results {
			results = append(results, withNumbers(append(cellRow(run.ID, v.Cell), strconv.Itoa(v.Count), strconv.Itoa(v.Errors)), ofResult, v))
		}
		for _, c := range run.Comparisons {
			comparisons = append(comparisons, withNumbers(append(cellRow(run.ID, c.Cell), c.Baseline), ofComparison, c))
		}
	}
	differences := [][]string{withNames(append(cellHeader[:5:5], "base"), ofDifference)}
	for _, d := range r.Differences {
		for _, c := range d.Comparisons {
			differences = append(differences, withNumbers(append(cellRow(c.Run, c.Cell), c.Base), ofDifference, c))
		}
	}
	trips := [][]string{{"run", "cost", "function", "connection", "arm", "round_trips", "round_trips_low", "round_trips_high"}}
	for _, run := range r.Runs {
		for _, t := range run.RoundTrips {
			trips = append(trips, []string{run.ID, string(t.Cost), t.Function, string(t.Connection), t.Arm, exact(&t.Trips), exact(t.Low), exact(t.High)})
		}
	}
	for name, rows := range map[string][][]string{"round_trips.csv": trips, "results.csv": results, "comparisons.csv": comparisons, "runs.csv": differences} {
		if len(rows) == 1 {
			continue
		}
		var out bytes.Buffer
		if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
			return err
		}
		files[name] = out.Bytes()
	}
	return nil
}

// latex adds the tables of a paper, which need the package booktabs.
func (r *report) latex(files map[string][]byte) error {
	var out strings.Builder
	out.WriteString("% \\usepackage{booktabs}\n")
	for _, run := range r.Runs {
		rows := [][]string{}
		for _, v := range run.Results {
			rows = append(rows, append(cellRow("", v.Cell)[1:], strconv.Itoa(v.Count), strconv.Itoa(v.Errors),
				number(v.First), number(v.Median), interval(v.MedianLow, v.MedianHigh), number(v.P90), number(v.P95), number(v.P99), interval(v.P99Low, v.P99High)))
		}
		latexTable(&out, "Response times of "+run.ID+" in milliseconds, with 95 % intervals of the median and of p99.", "tab:results-"+run.ID,
			[]string{"function", "scenario", "connection", "arm", "n", "errors", "first", "median", "interval", "p90", "p95", "p99", "interval"}, rows)
		if cold := run.ColdTable(); cold != nil {
			latexTable(&out, cold.Caption, "tab:cold-starts-"+run.ID, cold.Header, cold.Rows)
		}
		rows = nil
		for _, c := range run.Comparisons {
			rows = append(rows, append(cellRow("", c.Cell)[1:],
				number(c.Difference), interval(c.DifferenceLow, c.DifferenceHigh), number(c.Ratio), interval(c.RatioLow, c.RatioHigh), pValue(c.Adjusted)))
		}
		if len(rows) > 0 {
			latexTable(&out, "Overheads of "+run.ID+" against "+run.Plan.Baseline+": differences of medians in milliseconds and their ratios, with 95 % intervals, and p values after Holm's correction.", "tab:overheads-"+run.ID,
				[]string{"function", "scenario", "connection", "arm", "difference", "interval", "ratio", "interval", "p"}, rows)
			rows = nil
			for _, t := range run.RoundTrips {
				rows = append(rows, []string{string(t.Cost), t.Function, string(t.Connection), t.Arm, number(&t.Trips), interval(t.Low, t.High)})
			}
			if len(rows) > 0 {
				latexTable(&out, "Costs of "+run.ID+" in round trips of the link, with 95 % intervals.", "tab:round-trips-"+run.ID,
					[]string{"cost", "function", "connection", "arm", "round trips", "interval"}, rows)
			}
		}
	}
	for _, d := range r.Differences {
		var rows [][]string
		for _, c := range d.Comparisons {
			rows = append(rows, append(cellRow("", c.Cell)[1:],
				number(c.Difference), interval(c.DifferenceLow, c.DifferenceHigh), number(c.Ratio), interval(c.RatioLow, c.RatioHigh)))
		}
		latexTable(&out, d.Run.ID+" against "+d.Base.ID+": differences of medians in milliseconds and their ratios, with 95 % intervals.", "tab:"+d.Run.ID+"-"+d.Base.ID,
			[]string{"function", "scenario", "connection", "arm", "difference", "interval", "ratio", "interval"}, rows)
	}
	files["tables.tex"] = []byte(out.String())
	return nil
}

// latexTable prints one table, whose first columns are words.
func latexTable(out *strings.Builder, caption, label string, header []string, rows [][]string) {
	fmt.Fprintf(out, "\n\\begin{table}\n  \\centering\n  \\caption{%s}\n  \\label{%s}\n  \\begin{tabular}{%s%s}\n    \\toprule\n",
		escapeLaTeX(caption), label, strings.Repeat("l", wordColumns), strings.Repeat("r", len(header)-wordColumns))
	latexRow(out, header)
	out.WriteString("    \\midrule\n")
	for _, row := range rows {
		latexRow(out, row)
	}
	out.WriteString("    \\bottomrule\n  \\end{tabular}\n\\end{table}\n")
}

func latexRow(out *strings.Builder, cells []string) {
	escaped := make([]string, len(cells))
	for i, cell := range cells {
		escaped[i] = escapeLaTeX(cell)
	}
	fmt.Fprintf(out, "    %s \\\\\n", strings.Join(escaped, " & "))
}

// escapeLaTeX makes any text print as it is. A bracket at the start of a cell
// would be taken for an argument of the line before.
func escapeLaTeX(text string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `&`, `\&`, `#`, `\#`, `_`, `\_`, `%`, `\%`,
		`~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, "[", "{[}", "]", "{]}", "–", "--", "< ", "$<$ ",
	).Replace(text)
}

// benchstat adds every measured request as one line in the text format of Go
// benchmarks, so that benchstat compares arms or runs with its own statistics.
func (r *report) benchstat(files map[string][]byte) error {
	var out bytes.Buffer
	for i, run := range r.Runs {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "run: %s\nemulator: %s\n", run.ID, run.Environment.Emulator)
		for _, v := range run.Results {
			c := v.Cell
			name := fmt.Sprintf("BenchmarkResponseTime/function=%s/scenario=%s/connection=%s/arm=%s",
				fileName(c.Function), fileName(c.Scenario), fileName(string(c.Connection)), fileName(c.Arm))
			for _, block := range blocksOf(run.times[c]) {
				for _, time := range run.times[c][block] {
					fmt.Fprintf(&out, "%s 1 %.0f ns/op\n", name, time*1e6)
				}
			}
		}
	}
	files["benchstat.txt"] = out.Bytes()
	return nil
}
