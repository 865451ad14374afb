package main

import "fmt"

// A shape returns the SVG of a character, for n equal ones in a row, with their
// upper left corner at x, y.
type shape func(x, y, n int, fill string) string

// shapes are the characters that are drawn, since fonts disagree about them.
var shapes = map[rune]shape{
	'█': block(1), '▓': block(0.75), '▒': block(0.5), '░': block(0.25),
	'⊖': perCell(plimsoll), '✓': perCell(check), '✗': perCell(cross),
	'─': box(left | right), '│': box(up | down),
	'┌': box(right | down), '┐': box(left | down), '└': box(right | up), '┘': box(left | up),
	'├': box(up | down | right), '┤': box(up | down | left),
	'┬': box(left | right | down), '┴': box(left | right | up), '┼': box(left | right | up | down),
}

// block returns the shape of a filled cell. Rows of blocks do not touch.
func block(opacity float64) shape {
	return func(x, y, n int, fill string) string {
		translucent := ""
		if opacity < 1 {
			translucent = fmt.Sprintf(` fill-opacity="%g"`, opacity)
		}
		return fmt.Sprintf(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s"%s/>`, x, y+3, n*cellWidth, cellHeight-6, fill, translucent)
	}
}

// perCell returns a shape that draws each cell alone, around its centre.
func perCell(draw func(x, y int, color string) string) shape {
	return func(x, y, n int, fill string) (svg string) {
		for i := range n {
			svg += draw(x+i*cellWidth+cellWidth/2, y+cellHeight/2, fill)
		}
		return svg
	}
}

// plimsoll draws ⊖ wider than a cell, so that it stands out of a bar.
func plimsoll(x, y int, color string) string {
	return fmt.Sprintf(`<circle cx="%d" cy="%d" r="8" fill="%s" stroke="%s" stroke-width="2"/><path d="M%d %dh16" stroke="%s" stroke-width="2"/>`,
		x, y, background, color, x-8, y, color)
}

func check(x, y int, color string) string {
	return stroke(fmt.Sprintf("M%d %dl4 5l7 -11", x-6, y+1), color)
}

func cross(x, y int, color string) string {
	return stroke(fmt.Sprintf("M%d %dl10 10m0 -10l-10 10", x-5, y-5), color)
}

func stroke(path, color string) string {
	return fmt.Sprintf(`<path d="%s" fill="none" stroke="%s" stroke-width="2.5"/>`, path, color)
}

// The arms of a box-drawing character.
const (
	left = 1 << iota
	right
	up
	down
)

// box returns the shape of a box-drawing character. Lines of neighbours meet.
func box(arms int) shape {
	return perCell(func(x, y int, color string) string {
		var path string
		for _, arm := range []struct {
			bit    int
			dx, dy int
		}{{left, -cellWidth / 2, 0}, {right, cellWidth / 2, 0}, {up, 0, -cellHeight / 2}, {down, 0, cellHeight / 2}} {
			if arms&arm.bit != 0 {
				path += fmt.Sprintf("M%d %dl%d %d", x, y, arm.dx, arm.dy)
			}
		}
		return fmt.Sprintf(`<path d="%s" stroke="%s" stroke-width="1.5"/>`, path, color)
	})
}
