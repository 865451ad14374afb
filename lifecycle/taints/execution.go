package taints

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Execution compares a node's NoExecute taints with the one that is wanted:
// [model.KeyNotReady], [model.KeyUnreachable], or "" for neither. A taint that is
// there stays as it is, its moment included. A new one has been there since now,
// or since the one that it replaces where that is known.
func Execution(n *model.Node, want string, now time.Time) (c Change) {
	for _, key := range [...]string{model.KeyNotReady, model.KeyUnreachable} {
		if key != want && find(n, key, model.NoExecute) != nil {
			c.Remove = append(c.Remove, model.Taint{Key: key, Effect: model.NoExecute})
		}
	}
	if want == "" || find(n, want, model.NoExecute) != nil {
		return c
	}
	since := now
	if old := find(n, model.Opposite(want), model.NoExecute); old != nil && !old.Added.IsZero() {
		since = old.Added
	}
	c.Add = []model.Taint{{Key: want, Effect: model.NoExecute, Added: since}}
	return c
}

// Swap reports whether the node has the other of the two NoExecute taints: what
// is wanted then drives nobody off who was not being driven off before, and
// needs no token.
func Swap(n *model.Node, want string) bool {
	return want != "" && find(n, model.Opposite(want), model.NoExecute) != nil
}
