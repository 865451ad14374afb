// Package output prints documents with the printers of kubectl.
//
// Duties and invariants:
//
//   - A format is that of kubectl get, in every command: kubectl's library chooses and writes it.
//   - Texts of the cluster arrive here without control characters (see signals.PrintableText).
//   - A document is written as a whole, and an error of the output is returned.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"plimsoll.dev/plimsoll/internal/document"
)

// Flags are the flags of a command's output, with the names and values of kubectl get.
type Flags struct {
	print     *genericclioptions.PrintFlags
	text      []string // formats of text beside the empty one
	noHeaders bool
}

// AddFlags adds the flags of a command that writes a text of its own: those for programs.
func AddFlags(cmd *cobra.Command) *Flags { return add(cmd, false, nil) }

// AddTableFlags adds the flags of a command that writes a table. nodes is whether it has nodes, for -o name.
func AddTableFlags(cmd *cobra.Command, nodes bool) *Flags {
	f := add(cmd, nodes, []string{"wide"})
	cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "write tables without their first line and without their summary")
	return f
}

func add(cmd *cobra.Command, nodes bool, text []string) *Flags {
	f := &Flags{print: genericclioptions.NewPrintFlags(""), text: text}
	if !nodes {
		f.print.NamePrintFlags = nil
	}
	f.print.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(f.print.OutputFormat, "output", "o", "", "output `format`, one of "+strings.Join(f.Formats(), ", ")+"; empty: text")
	return f
}

// Formats returns the values of --output.
func (f *Flags) Formats() []string { return append(slices.Clone(f.text), f.print.AllowedFormats()...) }

// Printer prints documents.
type Printer struct {
	text, names, headers bool
	kubectl              printers.ResourcePrinter
}

// Printer returns the printer of the requested format. Returns an error if there is no such format, or its template
// cannot be used.
func (f *Flags) Printer() (*Printer, error) {
	format := *f.print.OutputFormat
	if noTemplate := *f.print.TemplatePrinterFlags.TemplateArgument == ""; noTemplate && format == "" || slices.Contains(f.text, format) {
		return &Printer{text: true, headers: !f.noHeaders, kubectl: printers.NewTablePrinter(printers.PrintOptions{NoHeaders: f.noHeaders, Wide: format == "wide"})}, nil
	}
	p, err := f.print.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, fmt.Errorf("--output: %q: must be one of %s", format, strings.Join(f.Formats(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	return &Printer{names: strings.EqualFold(format, "name"), kubectl: p}, nil
}

// IsText reports whether the format is text.
func (p *Printer) IsText() bool { return p.text }

// Print writes a document. Returns an error if the output fails, or a template does not suit the document.
func (p *Printer) Print(out io.Writer, d document.Document) error {
	var b bytes.Buffer
	var err error
	switch {
	case p.text:
		err = p.table(&b, d.Table(duration.HumanDuration))
	case p.names:
		err = p.nodes(&b, d.Nodes())
	default:
		return p.PrintObject(out, d)
	}
	if err == nil {
		_, err = out.Write(b.Bytes())
	}
	return err
}

// PrintObject writes an object in a format for programs. Returns an error as [Printer.Print] does.
func (p *Printer) PrintObject(out io.Writer, object any) error {
	var raw, b bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false) // thresholds have a <
	if err := encoder.Encode(object); err != nil {
		return err
	}
	err := p.kubectl.PrintObj(&runtime.Unknown{Raw: bytes.TrimSpace(raw.Bytes()), ContentType: runtime.ContentTypeJSON}, &b)
	if err == nil {
		_, err = out.Write(b.Bytes())
	}
	return err
}

func (p *Printer) table(b *bytes.Buffer, d *document.Table) error {
	t := &metav1.Table{}
	for _, c := range d.Columns {
		definition := metav1.TableColumnDefinition{Name: c.Name, Type: "string"}
		if c.Wide {
			definition.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, definition)
	}
	for _, row := range d.Rows {
		cells := make([]any, len(row))
		for i, text := range row {
			if cells[i] = text; text == "" {
				cells[i] = "<none>"
			}
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	if err := p.kubectl.PrintObj(t, b); err != nil {
		return err
	}
	if d.Summary != "" && p.headers {
		fmt.Fprintln(b, d.Summary)
	}
	return nil
}

func (p *Printer) nodes(b *bytes.Buffer, names []string) error {
	for _, name := range names {
		node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := p.kubectl.PrintObj(node, b); err != nil {
			return err
		}
	}
	return nil
}
