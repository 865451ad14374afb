// Command picture renders the captured output of a terminal program as an SVG in
// the style of a terminal window. It reads text with SGR control sequences, as
// `demo -color always` writes it.
//
// The picture needs no particular font: each run of text has a fixed place and
// width, blocks, lines and marks are shapes. Its background is its own, so that
// it is readable on light and on dark pages.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	in := flag.String("in", "", "file with the captured output")
	out := flag.String("out", "", "SVG file to write")
	command := flag.String("command", "", "command line of the program, shown as the first line")
	title := flag.String("title", "", "title of the window, and description of the picture")
	flag.Parse()
	if *in == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*in, *out, *command, *title); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// run reads in and writes out. Returns an error if in is empty or not supported;
// out is unchanged then.
func run(in, out, command, title string) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	lines, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("parse %s: %w", in, err)
	}
	if command != "" && len(lines) > 0 {
		lines = append([]line{prompt(command), nil}, lines...)
	}
	svg, err := render(lines, title)
	if err != nil {
		return fmt.Errorf("render %s: %w", in, err)
	}
	return os.WriteFile(out, svg, 0o644)
}
