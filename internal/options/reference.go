package options

import (
	"fmt"
	"strings"
)

// FileHead returns the first two lines of a configuration file of the kind.
func FileHead(kind string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\n", APIVersion, kind)
}

// Rows returns the options as a Markdown table of field, flag, default, whether a running
// program applies a change of the file, and meaning.
func Rows[C any](options []Option[C]) string {
	var b strings.Builder
	b.WriteString("| field | flag | default | reload | meaning |\n|-|-|-|-|-|\n")
	for i := range options {
		o := &options[i]
		reload := "restart"
		if o.Live {
			reload = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", o.Field, o.flagCell(), o.defaultCell(), reload, cell(o.Help))
	}
	return b.String()
}

func (o *Option[C]) flagCell() string {
	form := map[Shape]string{Boolean: "", List: "=a,b", LessMap: "=key<value,…", EqualMap: "=key=value,…", GateMap: "=key=bool,…", Text: "=…"}[o.Shape]
	switch {
	case o.Flag == "-":
		return "none"
	case len(o.Flag) == 1:
		return code("-" + o.Flag + " …")
	}
	return code("--" + o.Flag + form)
}

func (o *Option[C]) defaultCell() string {
	if o.Default == "" {
		return "empty"
	}
	return code(o.Default)
}

func code(text string) string { return "`" + text + "`" }

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
