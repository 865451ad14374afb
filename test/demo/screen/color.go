package screen

import "fmt"

// Colored reports whether to write colours for a value of the flag -color. With
// auto it depends on a terminal and on the environment variable NO_COLOR.
// Returns an error for any other value than auto, always and never.
func Colored(flag string, terminal bool, noColor string) (bool, error) {
	switch flag {
	case "auto":
		return terminal && noColor == "", nil
	case "always":
		return true, nil
	case "never":
		return false, nil
	}
	return false, fmt.Errorf("-color %s: use auto, always or never", flag)
}

// A style is the parameter of an SGR control sequence.
type style string

const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	gray   style = "90"
)

// paint returns the text in a style, or as it is without colours.
func (s *Screen) paint(with style, text string) string {
	if !s.colored || with == plain || text == "" {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}

// distance returns the colour of an amount of available memory: green far from
// the threshold, yellow within twice of it, red below.
func (s *Screen) distance(available int64) style {
	switch {
	case available < s.threshold:
		return red
	case available < 2*s.threshold:
		return yellow
	}
	return green
}
