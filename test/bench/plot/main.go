// Plot draws the pictures of the documents as SVG. It is a separate module, so that a plotting
// library is no dependency of the product.
//
//	plot -in FILE -out SVG [-modes NAME=LABEL,...] [-first]    the races of `bench -only reaction`
//	plot -tables MEASUREMENTS.md -out FOLDER                 saved.svg and controllers.svg
//
// A race is a dot, at the time from the crossing of the threshold to the death of the memory hog;
// races decided by the kernel are crosses.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	in := flag.String("in", "", "file with lines of JSON, from bench -only reaction -out FILE")
	modes := flag.String("modes", "", "the modes to draw with their labels, such as notified=Plimsoll; empty: all")
	first := flag.Bool("first", false, "draw the first panel only")
	tables := flag.String("tables", "", "Markdown file with the raw tables")
	out := flag.String("out", "", "SVG to write, or with -tables the folder of several")
	flag.Parse()
	if (*in == "") == (*tables == "") || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	if *tables != "" {
		err = runTables(*tables, *out)
	} else {
		err = runRaces(*in, *modes, *first, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

// pictures are drawn from the raw tables.
var pictures = map[string]func(document string) (*charts, error){"saved.svg": saved, "controllers.svg": controllers}

func runTables(in, folder string) error {
	document, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	for name, of := range pictures {
		c, err := of(string(document))
		if err != nil {
			return fmt.Errorf("%s: %w", in, err)
		}
		if err := create(filepath.Join(folder, name), c.write); err != nil {
			return err
		}
	}
	return nil
}

func runRaces(in, modes string, first bool, out string) error {
	from, err := os.Open(in)
	if err != nil {
		return err
	}
	defer from.Close()
	races, err := read(from)
	if err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	if races, err = labelled(races, modes); err != nil {
		return err
	}
	panels := panelsOf(races)
	if first {
		panels = panels[:1]
	}
	return create(out, func(to io.Writer) error { return drawPanels(panels, to) })
}

func create(name string, write func(io.Writer) error) (err error) {
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return write(to)
}
