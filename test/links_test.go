package test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// link matches a Markdown link or picture with a relative target: its path, its anchor.
var link = regexp.MustCompile(`\]\(([^)#\s:]*)(#[^)\s]*)?\)`)

// TestLinks_Resolve checks that every relative link of a tracked document has a target: a
// file or folder, and a heading if the link has an anchor.
func TestLinks_Resolve(t *testing.T) {
	tree := loaded(t)
	for _, name := range tree.tracked(t) {
		text, err := os.ReadFile(filepath.Join(tree.root, name))
		if err != nil || path.Ext(name) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(withoutCode(string(text)), -1) {
			if fault := tree.unresolved(name, found[1], strings.TrimPrefix(found[2], "#")); fault != "" {
				t.Errorf("%s: the link to %s%s: %s", name, found[1], found[2], fault)
			}
		}
	}
}

// unresolved returns the reason why a link from a document has no target, or "".
func (t *tree) unresolved(from, to, anchor string) string {
	target := from
	if to != "" {
		target = path.Join(path.Dir(from), to)
	}
	full := filepath.Join(t.root, target)
	if _, err := os.Stat(full); err != nil {
		return "the file does not exist"
	}
	if anchor == "" || path.Ext(target) != ".md" {
		return ""
	}
	text, err := os.ReadFile(full)
	if err != nil {
		return err.Error()
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return "the heading does not exist"
	}
	return ""
}

// anchors returns the anchors of a document's headings, as GitHub makes them: lower case,
// without punctuation, with hyphens for spaces, and numbered if they repeat.
func anchors(text string) (all []string) {
	seen := map[string]int{}
	for line := range strings.Lines(withoutCode(text)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		title = link.ReplaceAllString(strings.TrimSpace(title), "]")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		n := seen[slug]
		seen[slug]++
		if n > 0 {
			slug += "-" + strconv.Itoa(n)
		}
		all = append(all, slug)
	}
	return all
}

// withoutCode returns a document without the lines of its fenced code blocks.
func withoutCode(text string) string {
	var kept strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// listedFolders are the folders of documents of which docs/README.md lists every page.
var listedFolders = []string{"docs/tutorials", "docs/how-to", "docs/how-to/platforms", "docs/how-to/beside", "docs/reference", "docs/explanation", "docs/internals"}

func TestDocsIndex_ListsEveryPage(t *testing.T) {
	tree := loaded(t)
	text, err := os.ReadFile(filepath.Join(tree.root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tree.tracked(t) {
		page := strings.TrimPrefix(name, "docs/")
		if slices.Contains(listedFolders, path.Dir(name)) && path.Ext(name) == ".md" && !strings.Contains(string(text), "]("+page+")") {
			t.Errorf("docs/README.md does not list %s: add it, for the task that it serves", page)
		}
	}
}

func TestAnchors_FollowHeadings(t *testing.T) {
	text := "# What is `--mode`?\n\n## [Node](node.md) & pod\n\n```\n# no heading\n```\n\n#tag\n\n## Limits\n\n### Limits\n"
	want := []string{"what-is---mode", "node--pod", "limits", "limits-1"}
	if got := anchors(text); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
