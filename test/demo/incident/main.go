// Command incident draws the comparison of a NodeScenario as an SVG: the amount available over
// time, the threshold, and the pods that each choice evicts. Every number in the picture comes
// from the scenario and from the JSON of its simulation.
//
// The colours follow the reader's colour scheme, on a background of their own.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	scenario := flag.String("scenario", "", "file with the NodeScenario")
	out := flag.String("out", "", "SVG file to write")
	flag.Parse()
	if *scenario == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*scenario, *out); err != nil {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

// run reads the scenario and writes the picture. Returns an error if the scenario cannot be
// compared, or has no difference to draw; out is unchanged then.
func run(scenario, out string) error {
	data, err := os.ReadFile(scenario)
	if err != nil {
		return err
	}
	i, err := read(data)
	if err != nil {
		return fmt.Errorf("draw %s: %w", scenario, err)
	}
	return os.WriteFile(out, i.draw(), 0o644)
}
