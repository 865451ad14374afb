package recording

import (
	"strings"
	"unicode"
)

// Printable replaces what could change the state of a terminal. The names in a recording of another
// origin may have any characters.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
