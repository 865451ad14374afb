package screen

import (
	"regexp"
	"strconv"
)

// Mebibytes formats an amount of memory, rounded down: 243Mi.
func Mebibytes(bytes int64) string {
	if bytes > 0 && bytes < 1<<20 {
		return "<1Mi"
	}
	return strconv.FormatInt(bytes/(1<<20), 10) + "Mi"
}

// quantity matches an amount of memory as Kubernetes writes it.
var quantity = regexp.MustCompile(`\b([0-9]+)(Ki|Mi|Gi|Ti)\b`)

// oneNotation rewrites the amounts of memory in a text as Mebibytes does.
func oneNotation(text string) string {
	return quantity.ReplaceAllStringFunc(text, func(found string) string {
		parts := quantity.FindStringSubmatch(found)
		n, err := strconv.ParseInt(parts[1], 10, 64)
		shift := map[string]int{"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[parts[2]]
		if err != nil || n<<shift>>shift != n {
			return found
		}
		return Mebibytes(n << shift)
	})
}
