package test

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
)

// TestDecisionLog_IsDocumented reads keys and verbs from the source, so that each has an
// entry in the documentation.
func TestDecisionLog_IsDocumented(t *testing.T) {
	tree := loaded(t)
	text, err := os.ReadFile(filepath.Join(tree.root, "docs", "reference", "decision-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for _, s := range tree.sources {
		if s.name != "agent/decision.go" && s.name != "internal/decisionlog/record.go" && s.name != "agent/oomkill.go" {
			continue
		}
		for _, word := range logWords(s.file) {
			words++
			if !strings.Contains(string(text), "`"+word+"`") {
				t.Errorf("docs/reference/decision-log.md does not describe `%s` of the decision log", word)
			}
		}
	}
	if words == 0 {
		t.Error("agent/decision.go and internal/decisionlog/record.go have no keys and verbs: name their new files in this test")
	}
}

// logWords returns the keys of the types of a record, of type OOMKill, and the values of type Verb.
func logWords(file *ast.File) (words []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch d := n.(type) {
		case *ast.TypeSpec:
			fields, ok := d.Type.(*ast.StructType)
			if !ok || !slices.Contains([]string{"Record", "OOMKill", "Choice", "Place"}, d.Name.Name) {
				return true
			}
			for _, f := range fields.Fields.List {
				if f.Tag != nil {
					tag, _ := strconv.Unquote(f.Tag.Value)
					key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
					words = append(words, key)
				}
			}
		case *ast.ValueSpec:
			if kind, ok := d.Type.(*ast.Ident); ok && kind.Name == "Verb" {
				for _, v := range d.Values {
					if text, ok := v.(*ast.BasicLit); ok {
						word, _ := strconv.Unquote(text.Value)
						words = append(words, word)
					}
				}
			}
		}
		return true
	})
	return words
}

// TestGuarantees_UseTheConstants compares the documented figures for sizing thresholds with
// the constants.
func TestGuarantees_UseTheConstants(t *testing.T) {
	check, calm, kill := eviction.MinInterval, eviction.RelaxedInterval, eviction.ReactionTime
	millis := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	interval := []string{
		"no sooner than " + millis(check) + " (" + millis(calm) + " while memory does not fall)",
		"R × " + millis(kill+check),
		"(" + millis(eviction.DefaultEarlyEvictionHorizon) + ")",
	}
	for page, figures := range map[string][]string{
		"how-it-decides.md": append([]string{"over the last " + millis(eviction.RateWindow)}, interval...),
		"guarantees.md": append([]string{
			"fill rate ≤ threshold / " + millis(kill+check),
			"r × " + millis(eviction.RateWindow+kill+2*calm),
			"`--early-eviction-horizon` is at least " + millis(kill+check),
		}, interval...),
	} {
		content, err := os.ReadFile(filepath.Join(loaded(t).root, "docs", "explanation", page))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(content)), " ")
		for _, want := range figures {
			if !strings.Contains(text, want) {
				t.Errorf("docs/explanation/%s lacks %q: the constants of eviction/pace.go or the text changed; operators size thresholds by it", page, want)
			}
		}
	}
}
