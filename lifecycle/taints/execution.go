package taints

import (
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

// Execution compares a node's NoExecute taints with the wanted one: [model.KeyNotReady],
// [model.KeyUnreachable], or "" for neither. An existing taint stays as it is, with its time. A
// new one has the time of its predecessor if known, and now otherwise.
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
