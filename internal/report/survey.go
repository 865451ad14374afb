package report

import (
	"cmp"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/internal/recording"
)

// Bounds of what is stored about the pods of a recording.
const (
	maxLayers = 8                    // pods that are drawn and listed, the largest ones
	maxUIDs   = recording.MaxTracked // pods that are counted one by one
)

// survey is what a first pass finds: the time that is covered, and the largest pods in it.
type survey struct {
	within func(time.Time) bool
	found  bool // any header
	from   time.Time
	to     time.Time
	pods   map[string]*layer // by UID
	more   bool              // there are more pods than are counted one by one
	most   int               // pods at once
}

// window returns whether a time is between two others; a zero one bounds nothing.
func window(begin, end time.Time) func(time.Time) bool {
	return func(t time.Time) bool {
		return (begin.IsZero() || !t.Before(begin)) && (end.IsZero() || !t.After(end))
	}
}

// surveyOf reads a recording. It returns [recording.ErrNoRecording], or [ErrNothing].
func surveyOf(data []byte, o Options) (*survey, error) {
	s := &survey{within: window(o.Begin, o.End), pods: map[string]*layer{}}
	r := recording.NewReader(data)
	for e := r.Next(); e != nil; e = r.Next() {
		s.found = s.found || e.Header != nil
		t := e.Time()
		if t.IsZero() || !s.within(t) {
			continue
		}
		if s.from.IsZero() || t.Before(s.from) {
			s.from = t
		}
		if t.After(s.to) {
			s.to = t
		}
		if e.Usage != nil {
			s.add(e.Usage)
		}
	}
	switch {
	case !s.found:
		return nil, recording.ErrNoRecording
	case s.from.IsZero():
		return nil, ErrNothing
	}
	return s, nil
}

// add notes the memory of pods.
func (s *survey) add(u *recording.Usage) {
	s.most = max(s.most, len(u.Pods))
	for i := range u.Pods {
		p := &u.Pods[i]
		l := s.pods[uidOf(p.Pod.UID)]
		if l == nil {
			if len(s.pods) == maxUIDs {
				s.more = true
				continue
			}
			l = &layer{uid: uidOf(p.Pod.UID), name: printableName(p.Pod.Key())}
			s.pods[uidOf(p.Pod.UID)] = l
		}
		l.most = max(l.most, p.Values[recording.WorkingSet])
	}
}

// largest returns the pods with the most memory, the largest first.
func (s *survey) largest() []*layer {
	all := make([]*layer, 0, len(s.pods))
	for _, l := range s.pods {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *layer) int {
		return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid))
	})
	return all[:min(len(all), maxLayers)]
}
