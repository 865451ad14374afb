package examine

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"plimsoll.dev/plimsoll/internal/doctor"
)

// WriteJSON writes findings as one JSON object.
func WriteJSON(out io.Writer, found []doctor.Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if found == nil {
		found = []doctor.Finding{} // a list without entries, for scripts
	}
	return encoder.Encode(struct {
		Errors   int              `json:"errors"`
		Warnings int              `json:"warnings"`
		Findings []doctor.Finding `json:"findings"`
	}{doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warning), found})
}

// WriteText writes findings as text, each with its remedy.
func WriteText(out io.Writer, found []doctor.Finding) error {
	var b strings.Builder
	for _, f := range found {
		where := ""
		if f.Node != "" {
			where = ", node " + f.Node
		}
		fmt.Fprintf(&b, "%s %s%s\n  %s\n  Remedy: %s\n", f.Severity, f.Code, where, f.What, f.Remedy)
	}
	fmt.Fprintf(&b, "%d errors, %d warnings, %d infos\n", doctor.Count(found, doctor.Error), doctor.Count(found, doctor.Warning), doctor.Count(found, doctor.Info))
	_, err := io.WriteString(out, b.String())
	return err
}
