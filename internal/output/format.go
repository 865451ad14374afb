package output

import (
	"encoding/json"
	"fmt"
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
func Formats() []string { return []string{string(Wide), string(JSON), string(YAML), string(Name)} }

// ParseFormat returns the format of that name. Returns an error if there is none.
func ParseFormat(name string) (Format, error) {
	if name != string(Text) && !slices.Contains(Formats(), name) {
		return Text, fmt.Errorf("--output: %q: must be one of %s", name, strings.Join(Formats(), ", "))
	}
	return Format(name), nil
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
	// Names returns the objects of the document as TYPE/NAME, and false if it has no objects.
	Names() (names []string, has bool)
}

// Write writes a document. Returns an error if the format does not suit the document, or that of out.
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
		names, has := d.Names()
		if !has {
			return fmt.Errorf("--output=%s: this command lists no objects; use one of %s, %s, %s", Name, Wide, JSON, YAML)
		}
		_, err := io.WriteString(out, lines(names))
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
