package taints

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/facts"
)

// Execution compares a node's NoExecute taints with the one that is wanted:
// [facts.KeyNotReady], [facts.KeyUnreachable], or "" for neither. A taint that is
// there stays as it is, its moment included. A new one has been there since now,
// or since the one that it replaces where that is known.
func Execution(n *facts.Node, want string, now time.Time) (c Change) {
	for _, key := range [...]string{facts.KeyNotReady, facts.KeyUnreachable} {
		if key != want && find(n, key, facts.NoExecute) != nil {
			c.Remove = append(c.Remove, facts.Taint{Key: key, Effect: facts.NoExecute})
		}
	}
	if want == "" || find(n, want, facts.NoExecute) != nil {
		return c
	}
	since := now
	if old := find(n, facts.Opposite(want), facts.NoExecute); old != nil && !old.Added.IsZero() {
		since = old.Added
	}
	c.Add = []facts.Taint{{Key: want, Effect: facts.NoExecute, Added: since}}
	return c
}

// Swap reports whether the node has the other of the two NoExecute taints: what
// is wanted then drives nobody off who was not being driven off before, and
// needs no token.
func Swap(n *facts.Node, want string) bool {
	return want != "" && find(n, facts.Opposite(want), facts.NoExecute) != nil
}
