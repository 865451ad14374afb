package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is a table of a Markdown document.
type table struct {
	header []string
	rows   [][]string // as long as the header; an empty first cell repeats the one above
}

// tableOf returns the first table with these columns. Returns an error if there is none.
func tableOf(document string, columns ...string) (*table, error) {
	var t *table
	for line := range strings.Lines(document) {
		cells := cellsOf(line)
		switch {
		case len(cells) == 0 && t != nil:
			return t, t.check()
		case t != nil && len(cells) > 0 && !strings.HasPrefix(cells[0], "---"):
			if cells[0] == "" && len(t.rows) > 0 {
				cells[0] = t.rows[len(t.rows)-1][0]
			}
			t.rows = append(t.rows, cells)
		case t == nil && len(cells) > 0 && !slices.ContainsFunc(columns, func(c string) bool { return !slices.Contains(cells, c) }):
			t = &table{header: cells}
		}
	}
	if t == nil {
		return nil, fmt.Errorf("no table with the columns %q", columns)
	}
	return t, t.check()
}

// cellsOf returns the cells of a line, or none if it belongs to no table.
func cellsOf(line string) (cells []string) {
	line, is := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !is {
		return nil
	}
	for cell := range strings.SplitSeq(strings.TrimSuffix(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func (t *table) check() error {
	if len(t.rows) == 0 {
		return errors.New("a table without rows")
	}
	for _, r := range t.rows {
		if len(r) != len(t.header) {
			return fmt.Errorf("row %q has %d cells, and the header has %d", r[0], len(r), len(t.header))
		}
	}
	return nil
}

// numbers returns the leading numbers of a column, such as 8 of "8/10" and 5.4 of "5.4 (21.2)",
// from the rows with that text in another column. Returns an error if a cell has none.
func (t *table) numbers(column, where, text string) (numbers []float64, err error) {
	at, by := slices.Index(t.header, column), slices.Index(t.header, where)
	if at < 0 || by < 0 {
		return nil, fmt.Errorf("no column %q or %q", column, where)
	}
	for _, r := range t.rows {
		if r[by] != text {
			continue
		}
		digits := r[at][:len(r[at])-len(strings.TrimLeft(r[at], "0123456789. "))]
		n, err := strconv.ParseFloat(strings.ReplaceAll(digits, " ", ""), 64)
		if err != nil {
			return nil, fmt.Errorf("column %q, row %q: %q begins with no number", column, text, r[at])
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return nil, fmt.Errorf("no row with %q in column %q", text, where)
	}
	return numbers, nil
}
