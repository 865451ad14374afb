package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"plimsoll.dev/plimsoll/test/bench/nodepressure/score"
	"plimsoll.dev/plimsoll/test/bench/nodepressure/spec"
)

func showTime(ms float64) string {
	switch {
	case ms >= 1000:
		return digits(ms/1000) + " s"
	case ms >= 1:
		return digits(ms) + " ms"
	}
	return fmt.Sprintf("%.2f ms", ms)
}

func showBytes(n float64) string { return spec.FormatBytes(int64(n)) }

func showPercent(p float64) string { return digits(p) + " %" }

func showFactor(f float64) string { return "× " + digits(f) }

// digits returns a number with at least two significant digits, and none that mean nothing.
func digits(v float64) string {
	precision := 0
	switch a := math.Abs(v); {
	case a < 1:
		precision = 2
	case a < 10:
		precision = 1
	}
	return strconv.FormatFloat(v, 'f', precision, 64)
}

// Size of a line of memory over time.
const (
	lineWidth  = 240
	lineHeight = 40
	linePoints = 120
)

// line is the available memory over time in the coordinates of a picture.
type line struct {
	Width, Height int
	Points        string
	Threshold     string
	Label         string
}

// newLine returns the line of an observation.
func newLine(o *score.Observation) *line {
	if o == nil || len(o.Slots) < 2 || o.Total <= 0 {
		return nil
	}
	y := func(n int64) string {
		return strconv.FormatFloat(lineHeight*(1-min(max(float64(n)/float64(o.Total), 0), 1)), 'f', 1, 64)
	}
	step := (len(o.Slots) + linePoints - 1) / linePoints
	var points []string
	for i := 0; i < len(o.Slots); i += step {
		least := o.Slots[i]
		for _, n := range o.Slots[i:min(i+step, len(o.Slots))] {
			least = min(least, n)
		}
		x := lineWidth * float64(i) / float64(len(o.Slots)-1)
		points = append(points, strconv.FormatFloat(x, 'f', 1, 64)+","+y(least))
	}
	return &line{
		Width: lineWidth, Height: lineHeight, Points: strings.Join(points, " "), Threshold: y(o.Threshold),
		Label: fmt.Sprintf("available memory over %s, least %s of %s", showTime(o.SlotWidth*float64(len(o.Slots))), spec.FormatBytes(o.Least), spec.FormatBytes(o.Total)),
	}
}
