package natural

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCompare_OrdersByNumbers(t *testing.T) {
	ordered := strings.Fields("10.0.0.2 10.0.0.10 node node-0 node-00 node-01 node-1 node-1a node-2 node-9 node-10 node-99999999999999999999998 node-99999999999999999999999 node-a node.1 node1 nodes")
	for range 20 {
		names := slices.Clone(ordered)
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		slices.SortFunc(names, Compare)
		if !slices.Equal(names, ordered) {
			t.Fatalf("got  %q\nwant %q", names, ordered)
		}
	}
}

// The order is total: antisymmetric, transitive, and 0 for equal names only.
func TestCompare_IsTotal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	name := func() string {
		text := make([]byte, random.IntN(6))
		for i := range text {
			text[i] = "019a-.z"[random.IntN(7)]
		}
		return string(text)
	}
	for range 20_000 {
		a, b, c := name(), name(), name()
		if Compare(a, b) != -Compare(b, a) || (Compare(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q: %d and %d", a, b, Compare(a, b), Compare(b, a))
		}
		if Compare(a, b) < 0 && Compare(b, c) < 0 && Compare(a, c) >= 0 {
			t.Fatalf("%q < %q < %q, and the first is not before the last", a, b, c)
		}
	}
}
