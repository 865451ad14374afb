package core

import "time"

// deleteEvictedPods appends the deletions of evicted pods that are due; none while the
// observations may be out of date.
func (f *Fleet) deleteEvictedPods(out []Action) []Action {
	if current, _ := f.checker.ViewCurrent(f.now); !current {
		return out
	}
	for _, p := range f.evictedPods.Due(f.now) {
		f.lastID++
		a := Action{Kind: DeleteEvictedPod, Node: p.Node, Pod: p, id: f.lastID, at: f.now}
		if node := f.nodes[p.Node]; node != nil {
			a.Object = node.object
		}
		out = append(out, a)
	}
	return out
}

// nextEvictedPod returns when deleteEvictedPods could have something to append; ok is
// false if only an observation can lead to that.
func (f *Fleet) nextEvictedPod() (at time.Time, ok bool) {
	if at, ok = f.evictedPods.Next(); !ok {
		return at, false
	}
	current, from := f.checker.ViewCurrent(f.now)
	if !current {
		return latest(at, from), !from.IsZero()
	}
	return at, true
}

// evictedPodObsolete reports whether an evicted pod must not be deleted at present.
func (f *Fleet) evictedPodObsolete(a *Action) bool {
	current, _ := f.checker.ViewCurrent(f.now)
	return !current || !f.evictedPods.Wanted(a.Pod.UID, f.now)
}
