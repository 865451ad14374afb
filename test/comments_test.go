package test

import (
	"regexp"
	"strings"
	"testing"
)

// dialect lists words to avoid in comments of the product, with the maximum per 1,000 words.
// Identifiers of the code count too where a comment names them.
var dialect = []struct {
	words          *regexp.Regexp
	maxPerThousand float64
	why            string
}{
	{regexp.MustCompile(`(?i)\b(who|whose|whom)\b`), 0.2, "software is no person"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|everybody)\b`), 0.1, "software is no person"},
	{regexp.MustCompile(`(?i)\b(tells?|told|telling|says?|said|saying)\b`), 0.3, "software reports, returns or logs"},
	{regexp.MustCompile(`(?i)\b(what is|that is)\b`), 1.5, "the subject of a sentence is a noun"},
}

// TestComments_UsePlainEnglish counts the dialect in the comments of the product.
func TestComments_UsePlainEnglish(t *testing.T) {
	tree := loaded(t)
	total, found := 0, make([]int, len(dialect))
	for s := range tree.product {
		if strings.HasPrefix(s.dir, "test") {
			continue
		}
		for _, group := range s.file.Comments {
			text := group.Text()
			total += len(strings.Fields(text))
			for i := range dialect {
				found[i] += len(dialect[i].words.FindAllString(text, -1))
			}
		}
	}
	if total < 50_000 {
		t.Fatalf("got %d words of comments, want at least 50,000", total)
	}
	for i, d := range dialect {
		per := 1000 * float64(found[i]) / float64(total)
		t.Logf("%s: %.2f per 1,000 words", d.words, per)
		if per > d.maxPerThousand {
			t.Errorf("%s: %.2f per 1,000 words of comments, at most %.1f: %s (list them with git grep -nwE)", d.words, per, d.maxPerThousand, d.why)
		}
	}
}
