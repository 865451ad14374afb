package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A color is a foreground colour of a terminal, by its SGR parameter. Zero is
// the default one.
type color int

// The colours.
const (
	red    color = 31
	green  color = 32
	yellow color = 33
	blue   color = 34
	gray   color = 90
)

// A style is the appearance of a cell.
type style struct {
	color color
	bold  bool
}

// A cell is one column of a line.
type cell struct {
	char  rune
	style style
}

// A line is a line of cells.
type line []cell

// prompt returns the line of a command.
func prompt(command string) (l line) {
	l = append(l, cell{'$', style{color: gray}}, cell{char: ' '})
	for _, r := range command {
		l = append(l, cell{r, style{bold: true}})
	}
	return l
}

// parse splits text into lines of cells, without empty lines at the end. Returns
// an error for control characters and sequences other than SGR, and for
// characters of unknown width.
func parse(text string) (lines []line, err error) {
	var current style
	for n, row := range strings.Split(text, "\n") {
		var l line
		for row != "" {
			if after, found := strings.CutPrefix(row, "\x1b["); found {
				parameters, rest, ended := strings.Cut(after, "m")
				if !ended {
					return nil, fmt.Errorf("line %d: unfinished control sequence %.10q", n+1, after)
				}
				if current, err = current.with(parameters); err != nil {
					return nil, fmt.Errorf("line %d: %w", n+1, err)
				}
				row = rest
				continue
			}
			r, size := utf8.DecodeRuneInString(row)
			if !narrow(r) {
				return nil, fmt.Errorf("line %d: character %q is not supported", n+1, r)
			}
			l = append(l, cell{r, current})
			row = row[size:]
		}
		lines = append(lines, l)
	}
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines, nil
}

// with applies the parameters of an SGR sequence.
func (s style) with(parameters string) (style, error) {
	for p := range strings.SplitSeq(parameters, ";") {
		switch p {
		case "", "0":
			s = style{}
		case "1":
			s.bold = true
		case "22":
			s.bold = false
		case "39":
			s.color = 0
		case "31":
			s.color = red
		case "32":
			s.color = green
		case "33":
			s.color = yellow
		case "34":
			s.color = blue
		case "90":
			s.color = gray
		default:
			return s, fmt.Errorf("SGR parameter %q is not supported", p)
		}
	}
	return s, nil
}

// narrow reports whether a character fills exactly one column: those with a
// shape of their own, and letters, digits and punctuation of Latin scripts.
func narrow(r rune) bool {
	return shapes[r] != nil || r < 0x250 && unicode.IsPrint(r) || r >= 0x2010 && r <= 0x2026 && unicode.IsPrint(r)
}
