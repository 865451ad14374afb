package stats

import (
	"cmp"
	"path"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// Stalls finds out who waits for memory, and who is at a limit of their own, by
// what the kernel has counted in the pods' cgroups since it was asked before. It
// keeps no file open. Where pressure is kept by cgroup it reads one file of a pod
// that has not waited; else all, which takes three times as long as reading the
// memory of the same pods from files that are kept open: 8 ms of CPU time for 110
// pods of two containers each, 12 ms the first time. So nobody asks but after a
// wake that waiting explains. It is not safe for concurrent use.
type Stalls struct {
	counters counters
	node     string
	places   *cgroup.PodPlaces
	before   map[string]*standing // by UID, and by path for what is no pod's
	asked    time.Time
}

// OpenStalls prepares to find out who waits below the node's cgroup. There may
// be no pod yet.
func OpenStalls(h cgroup.Hierarchy, nodeCgroup string) *Stalls {
	return OpenStallsAt(h, nodeCgroup, cgroup.NewPodPlaces(h, nodeCgroup))
}

// OpenStallsAt is [OpenStalls] where the pods' cgroup is searched in these places.
func OpenStallsAt(h cgroup.Hierarchy, nodeCgroup string, places *cgroup.PodPlaces) *Stalls {
	return &Stalls{
		places:   places,
		counters: counters{h, cgroup.NewBuffer()},
		node:     path.Join("/", nodeCgroup),
		before:   map[string]*standing{},
	}
}

// remembered is how long counters are something to compare with: what was long
// ago explains no wake now.
const remembered = time.Minute

// Since returns who waited for memory, or met a limit of their own, since the
// last call: those first who waited for the largest part of that time,
// and after them, where waiting is not counted, those who met their limit most
// often. Of a pod that is seen for the first time in a minute it is estimated: by
// its average over the last 10 s, and by whether it is at a limit now.
//
// The kubepods cgroup, and the node's, are among them if they met a limit of
// their own, which is pressure of the node. A pod that can not be read is left
// out. The stalls point into pods.
func (s *Stalls) Since(pods []signals.Pod, at time.Time) (found []signals.Stall) {
	for _, c := range s.round(pods, at) {
		if stall, ok := s.stallOf(c); ok {
			found = append(found, stall)
		}
	}
	slices.SortStableFunc(found, func(a, b signals.Stall) int {
		return cmp.Or(cmp.Compare(share(&b), share(&a)), cmp.Compare(b.AtMax+b.AtHigh, a.AtMax+a.AtHigh))
	})
	return found
}

func (s *Stalls) stallOf(c comparison) (stall signals.Stall, ok bool) {
	stall = c.now.since(c.before)
	if c.before != nil && !stalled(&stall) {
		return stall, false
	}
	near, err := s.counters.nearest(c.watched)
	if err != nil {
		return stall, false
	}
	stall.Limit = near.limit
	if c.before == nil {
		stall.AtMax, stall.AtHigh = near.atMax, near.atHigh
	}
	if stall.Pod = c.pod; c.pod == nil {
		stall.Where = c.path
		return stall, stall.AtMax > 0 || stall.AtHigh > 0
	}
	return stall, stalled(&stall)
}

// A watched cgroup is a pod's, or a part of the node.
type watched struct {
	pod        *signals.Pod // nil for a part of the node
	path       string
	inode      uint64 // 0 for a part of the node
	containers []cgroup.Container
}

// A comparison is where a cgroup stood before, nil if that is not known, and
// where it stands now.
type comparison struct {
	watched
	before, now *standing
}

// A round reads where everybody stands.
type round struct {
	*counters
	at           time.Time
	before, next map[string]*standing
	all          []comparison
}

// round reads where everybody stands and returns who may have waited.
func (s *Stalls) round(pods []signals.Pod, at time.Time) []comparison {
	if at.Sub(s.asked) > remembered {
		s.before = nil
	}
	r := round{counters: &s.counters, at: at, before: s.before, next: make(map[string]*standing, len(pods)+2)}
	s.asked, s.before = at, r.next
	if s.node != "/" {
		r.visit(s.node, func() (watched, error) { return watched{path: s.node}, nil })
	}
	tree, err := s.places.Open()
	if err != nil {
		return r.all
	}
	r.visit(tree.Root(), func() (watched, error) { return watched{path: tree.Root()}, nil })
	for i := range pods {
		r.visit(pods[i].UID, func() (watched, error) {
			found, err := tree.Find(pods[i].UID)
			return watched{&pods[i], found.Path, found.Inode, found.Containers}, err
		})
	}
	return r.all
}

// visit reads where one stands, and finds its cgroup only if it must. Who can
// not be read stands where it stood; who has no cgroup is forgotten.
func (r *round) visit(key string, find func() (watched, error)) {
	before := r.before[key]
	if r.calm(before) {
		now := *before
		now.at = r.at
		r.next[key] = &now
		return
	}
	w, err := find()
	var now *standing
	if err == nil {
		now, err = r.standing(w)
	}
	switch {
	case err == nil:
	case before != nil && !cgroup.IsGone(err):
		r.next[key] = before
		return
	default:
		return
	}
	now.at = r.at
	r.next[key] = now
	if before != nil && before.inode != now.inode {
		before = nil
	}
	r.all = append(r.all, comparison{w, before, now})
}

// minShare of the time counts as waiting: what memory.pressure itself writes
// as 0.00 % does not.
const minShare = 1e-4

func stalled(s *signals.Stall) bool {
	return s.AtMax > 0 || s.AtHigh > 0 || s.OOMKills > 0 || share(s) >= minShare
}

// share is the part of the time in which a task waited for memory, 0 if that is
// not known.
func share(s *signals.Stall) float64 {
	if !s.Waited.Known || s.Over <= 0 {
		return 0
	}
	return float64(s.Waited.Value) / float64(s.Over)
}
