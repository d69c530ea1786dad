package netem

import "math"

const (
	// tableScale is one jitter in a table.
	tableScale = 8192
	tableSize  = 4096
	// paretoShape is the shape of netem's Pareto law.
	paretoShape = 3
)

// table holds the quantiles of the law at equal steps, in jitters from the
// delay. It is nil for the uniform law. A 16-bit value ends it at four
// jitters, as in netem.
func (d Distribution) table() []int16 {
	if d == "" || d == "uniform" {
		return nil
	}
	table := make([]int16, tableSize)
	for i := range table {
		value := math.Round(d.Quantile((float64(i)+0.5)/tableSize) * tableScale)
		table[i] = int16(min(max(value, math.MinInt16), math.MaxInt16))
	}
	return table
}

// Quantile is the deviation from the delay, in jitters, that the given share
// of packets stays below. The Pareto law has the shape 3, is moved to the mean
// 0 and stretched by 4/3; paretonormal is a quarter normal and three quarters
// Pareto.
func (d Distribution) Quantile(share float64) float64 {
	switch d {
	case "normal":
		return math.Sqrt2 * math.Erfinv(2*share-1)
	case "pareto":
		const mean = paretoShape / (paretoShape - 1.0)
		return 4.0 / 3 * (math.Pow(1-share, -1.0/paretoShape) - mean)
	case "paretonormal":
		return Distribution("normal").Quantile(share)/4 + Distribution("pareto").Quantile(share)*3/4
	}
	return 2*share - 1
}
