package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Limits of documents for operators.
const (
	maxReadmeWords   = 600
	maxSentenceWords = 25
)

// checkedDocuments lists the documents and folders to which the rules of prose apply.
var checkedDocuments = []string{
	"README.md", "docs/README.md", "docs/glossary.md",
	"docs/tutorials/", "docs/how-to/", "docs/runbooks/", "docs/reference/", "docs/explanation/",
}

func TestReadme_IsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(loaded(t).root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(text))); n > maxReadmeWords {
		t.Errorf("README.md has %d words, code and tables included, at most %d: move details to docs/", n, maxReadmeWords)
	}
}

// TestDocuments_UsePlainEnglish checks documents for operators for two rules: no words for persons
// where software is meant, and no long sentence.
func TestDocuments_UsePlainEnglish(t *testing.T) {
	tree := loaded(t)
	for _, name := range tree.tracked(t) {
		checked := slices.ContainsFunc(checkedDocuments, func(place string) bool {
			return name == place || strings.HasSuffix(place, "/") && strings.HasPrefix(name, place)
		})
		if !checked || filepath.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(tree.root, name))
		if err != nil {
			t.Error(err)
		}
		for _, fault := range proseFaults(string(text)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

// personWords matches words for persons. Software is a thing, and readers are "you".
var personWords = regexp.MustCompile(`(?i)\b(who|whose|whom|nobody|somebody|everybody)\b`)

// proseFaults returns the sentences of a Markdown document that break a rule.
func proseFaults(text string) (faults []string) {
	for _, paragraph := range paragraphs(text) {
		for _, sentence := range sentences(paragraph) {
			if word := personWords.FindString(sentence); word != "" {
				faults = append(faults, "\""+word+"\" in: "+sentence)
			}
			if n := words(sentence); n > maxSentenceWords {
				faults = append(faults, "a sentence is too long, split it: "+sentence)
			}
		}
	}
	return faults
}

var (
	listItem  = regexp.MustCompile(`^( *)([-*+]|[0-9]+[.)]) +`)
	codeSpan  = regexp.MustCompile("``[^`]+``|`[^`]+`")
	linkText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	comment   = regexp.MustCompile(`(?s)<!--.*?-->`)
	tableRule = regexp.MustCompile(`^[|:\- ]+$`)
)

// paragraphs returns the prose of a Markdown document: paragraphs, headings, list items and
// cells of tables, on one line each. Code blocks are left out. A span of code is the one
// word CODE, a link is its text.
func paragraphs(text string) (all []string) {
	var open []string // lines of the current paragraph
	indent := 0       // of the text of the current list item
	end := func() {
		if len(open) > 0 {
			all = append(all, plain(strings.Join(open, " ")))
		}
		open = nil
	}
	for line := range strings.Lines(comment.ReplaceAllString(withoutCode(text), "")) {
		content := strings.TrimSpace(line)
		depth := len(line) - len(strings.TrimLeft(line, " "))
		item := listItem.FindString(line)
		switch {
		case content == "":
			end()
		case len(open) == 0 && depth >= indent+4: // a code block by its indent
		case strings.HasPrefix(content, "|"):
			end()
			all = append(all, cells(content)...)
		case strings.HasPrefix(content, "#"):
			end()
			indent = 0
			all = append(all, plain(strings.TrimLeft(content, "# ")))
		case item != "":
			end()
			indent = len(item)
			open = []string{line[len(item):]}
		default:
			if len(open) == 0 && depth == 0 {
				indent = 0
			}
			open = append(open, strings.TrimPrefix(content, "> "))
		}
	}
	end()
	return all
}

// cells returns the cells of a row of a table.
func cells(row string) (all []string) {
	if tableRule.MatchString(row) {
		return nil
	}
	for cell := range strings.SplitSeq(plain(strings.ReplaceAll(row, `\|`, "/")), "|") {
		if cell = strings.TrimSpace(cell); cell != "" {
			all = append(all, cell)
		}
	}
	return all
}

// plain returns Markdown as it is read: without code, targets of links and emphasis.
func plain(text string) string {
	text = codeSpan.ReplaceAllString(text, "CODE")
	text = linkText.ReplaceAllString(text, "$1")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "**", "")), " ")
}

// sentenceEnd matches the end of a sentence.
var sentenceEnd = regexp.MustCompile(`[.!?]["')]*\s+`)

// abbreviations have a point that ends no sentence.
var abbreviations = strings.NewReplacer("e.g.", "for example", "i.e.", "that means", "vs.", "versus")

func sentences(paragraph string) (all []string) {
	text := abbreviations.Replace(paragraph)
	for {
		found := sentenceEnd.FindStringIndex(text)
		if found == nil {
			return append(all, text)
		}
		all, text = append(all, strings.TrimSpace(text[:found[1]])), text[found[1]:]
	}
}

// words counts what has a letter or a digit.
func words(sentence string) (n int) {
	for _, field := range strings.Fields(sentence) {
		if strings.ContainsFunc(field, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func TestParagraphs_ParsesMarkdown(t *testing.T) {
	text := `# A title
<!-- generated,
by hand -->
One line
and **its** end with [a link](https://x.y/whose).

    whose code

1. First ` + "`who | whom`" + `.

       nobody's code

   More of it.
- Second

` + "```\nwho\n```" + `
| a | b ` + "`x | y`" + ` |
|---|:-:|
| c | d. e |

> Quoted.
`
	want := []string{
		"A title", "One line and its end with a link.", "First CODE.", "More of it.", "Second",
		"a", "b CODE", "c", "d. e", "Quoted.",
	}
	if got := paragraphs(text); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestProseFaults_FindsViolations(t *testing.T) {
	longest := strings.Repeat("a ", maxSentenceWords-1) + "end"
	for text, want := range map[string]int{
		"A pod is evicted. `who` is a program; whoever reads this is fine.": 0,
		"A pod whose owner is gone.":                                        1,
		"Nobody writes. Everybody reads.":                                   2,
		"| a | somebody |":                                                  1,
		longest + ". " + longest + " – `one`.":                              1,
		longest + ". " + longest + "? " + longest + ".":                     0,
		longest + "; " + longest + ".":                                      1,
		"- " + longest + "\n- " + longest:                                   0,
		longest + "\n" + longest:                                            1,
		"```\n" + longest + " who " + longest + "\n```\nok":                 0,
	} {
		if got := proseFaults(text); len(got) != want {
			t.Errorf("%q: %d faults %q, want %d", text, len(got), got, want)
		}
	}
}
