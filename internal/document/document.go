// Package document has the form of what a command of the client found: a header for programs, and a table for people.
// It is pure. Package output prints both.
package document

import "time"

// Header begins every document.
type Header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// NewHeader returns the header of a kind of document.
func NewHeader(kind string) Header { return Header{"plimsoll.dev/v1alpha1", kind} }

// Document is the result of a command. Its JSON begins with a [Header].
type Document interface {
	// Table returns the document as a table. age formats a duration.
	Table(age func(time.Duration) string) *Table
	// Nodes returns the names of the document's nodes.
	Nodes() []string
}

// Table is the text of a document.
type Table struct {
	Columns []Column
	Rows    [][]string // an empty text is shown as <none>
	Summary string     // one line below the rows; empty: none
}

// Column is a column of a table.
type Column struct {
	Name string
	Wide bool // only -o wide has it
}
