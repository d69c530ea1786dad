// Command table prints the measurements of a run as a table. It reads the
// outputs of a configuration, as "terraform output -json" or "tofu output
// -json" prints them, from its standard input; the outputs "results" and
// "comparisons" are those attributes of a testbed_benchmark_run.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/terraform-testbed/terraform-provider-testbed/internal/bench"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer) error {
	var outputs struct {
		Results struct {
			Value []bench.Result `json:"value"`
		} `json:"results"`
		Comparisons struct {
			Value []bench.Comparison `json:"value"`
		} `json:"comparisons"`
	}
	if err := json.NewDecoder(from).Decode(&outputs); err != nil {
		return fmt.Errorf("read the outputs: %w", err)
	}
	if len(outputs.Results.Value) == 0 {
		return errors.New("there is no output \"results\" with measurements; apply the configuration first")
	}
	return bench.Table(to, outputs.Results.Value, outputs.Comparisons.Value)
}
