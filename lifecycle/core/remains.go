package core

import "time"

// clear returns the evicted pods whose objects are to be deleted now. None is while
// what is observed may be out of date.
func (f *Fleet) clear(out []Action) []Action {
	if sees, _ := f.evidence.Sees(f.now); !sees {
		return out
	}
	for _, p := range f.remains.Due(f.now) {
		f.lastID++
		a := Action{Kind: ClearPod, Node: p.Node, Pod: p, id: f.lastID, at: f.now}
		if h := f.hosts[p.Node]; h != nil {
			a.Object = h.object
		}
		out = append(out, a)
	}
	return out
}

// clears is when clear could have something to return; ok is false if only an
// observation can lead to that.
func (f *Fleet) clears() (at time.Time, ok bool) {
	if at, ok = f.remains.Next(); !ok {
		return at, false
	}
	sees, from := f.evidence.Sees(f.now)
	if !sees {
		return latest(at, from), !from.IsZero()
	}
	return at, true
}

// kept reports whether an evicted pod may stay for the time being after all.
func (f *Fleet) kept(a *Action) bool {
	sees, _ := f.evidence.Sees(f.now)
	return !sees || !f.remains.Wanted(a.Pod.UID, f.now)
}
