package output

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"plimsoll.dev/plimsoll/internal/strictyaml"
)

// Format is an output format.
type Format string

// The formats.
const (
	Text Format = "" // a table
	Wide Format = "wide"
	JSON Format = "json"
	YAML Format = "yaml"
	Name Format = "name"
)

// Formats returns the values of --output. [Text] is its absence.
func Formats() []Format { return []Format{Wide, JSON, YAML, Name} }

// Parse returns the format of that name. Returns an error if it is none of those that suit.
func Parse(name string, suit []Format) (Format, error) {
	if f := Format(name); f == Text || slices.Contains(suit, f) {
		return f, nil
	}
	return Text, errors.New("must be one of " + Join(suit))
}

// Join returns the names of formats.
func Join(formats []Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Header begins every document.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHeader returns the header of a kind of document.
func NewHeader(kind string) Header { return Header{"plimsoll.dev/v1alpha1", kind} }

// Document is the result of a command. Its JSON begins with a [Header].
type Document interface {
	// Table returns the document as a table.
	Table(wide bool) *Table
	// Names returns the objects of the document as TYPE/NAME; nil if it has none, which [Name] does not
	// suit.
	Names() []string
}

// Write writes a document. Returns the error of out, or an error if the document has no JSON.
func (f Format) Write(out io.Writer, d Document, colour bool) error {
	switch f {
	case JSON:
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(d)
	case YAML:
		text, err := strictyaml.Marshal(d)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	case Name:
		_, err := io.WriteString(out, lines(d.Names()))
		return err
	}
	_, err := io.WriteString(out, d.Table(f == Wide).text(colour))
	return err
}

func lines(all []string) string {
	var b strings.Builder
	for _, line := range all {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// maxPlain bounds a message.
const maxPlain = 16 << 10

// Plain returns a message for a terminal: lines stay, and '?' replaces any other character that is not
// printed. A message of the API server can contain any text.
func Plain(message string) string {
	if len(message) > maxPlain {
		message = message[:maxPlain] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r != utf8.RuneError && unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, message)
}
