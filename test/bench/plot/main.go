// Plot draws the results of `bench -only reaction`. For each rate and mode it shows the time
// from the crossing of the threshold to the death of the memory hog; races decided by the
// kernel are crosses. It reads lines of JSON and writes an SVG. It is a separate module, so
// that a plotting library is no dependency of the product.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	in := flag.String("in", "", "file with lines of JSON, from bench -only reaction -out FILE")
	out := flag.String("out", "", "SVG to write")
	flag.Parse()
	if *in == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(in, out string) (err error) {
	from, err := os.Open(in)
	if err != nil {
		return err
	}
	defer from.Close()
	races, err := read(from)
	if err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	to, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return drawPanels(panelsOf(races), to)
}
