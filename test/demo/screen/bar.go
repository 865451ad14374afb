package screen

import (
	"fmt"
	"strings"
	"time"
)

// barWidth is the number of cells of the bar of used memory.
const barWidth = 50

// A bar becomes a line of its own each time memory fell by a part of the node, or
// after a pause.
const (
	barParts = 16
	barPause = 5 * time.Second
)

// Bar draws used memory: continuously on a live screen, and now and then as a
// line of its own.
func (s *Screen) Bar(at time.Duration, available int64) {
	due := !s.begun || s.drawn-available >= s.capacity/barParts || at-s.drawnAt >= barPause
	if due || s.live {
		s.draw(at, available, due)
	}
}

// LastBar draws used memory as a line of its own.
func (s *Screen) LastBar(at time.Duration, available int64) { s.draw(at, available, true) }

func (s *Screen) draw(at time.Duration, available int64, due bool) {
	s.erase()
	s.printf("%s", s.bar(at, available))
	s.open = !due
	if due {
		s.printf("\n")
		s.begun, s.drawn, s.drawnAt = true, available, at
	}
}

// erase removes a live bar, so that another line replaces it.
func (s *Screen) erase() {
	if s.open {
		s.printf("\r\x1b[K")
		s.open = false
	}
}

// bar returns the line of a bar.
func (s *Screen) bar(at time.Duration, available int64) string {
	cell := func(bytes int64) int { return int(min(max(bytes, 0), s.capacity) * barWidth / s.capacity) }
	used, line := cell(s.capacity-available), min(cell(s.capacity-s.threshold), barWidth-1)
	part := func(from, to int) string {
		full := max(0, min(used, to)-from)
		return s.paint(s.distance(available), strings.Repeat("█", full)) + s.paint(gray, strings.Repeat("░", to-from-full))
	}
	amount := fmt.Sprintf("%6s", Mebibytes(available))
	return clock(at) + part(0, line) + s.paint(bold, "⊖") + part(line+1, barWidth) + " " + s.paint(s.distance(available), amount) + " available"
}

// clock returns the column of times: seconds since the leak began.
func clock(at time.Duration) string { return fmt.Sprintf("%5.1fs ", at.Seconds()) }
