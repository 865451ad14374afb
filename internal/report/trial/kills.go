package trial

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// kill is an OOM kill of the kernel: a line of the decision log, or kills that only a counter shows.
type kill struct {
	span      // equal ends for a line
	uid, pod  string
	container string
	limitOf   string
	processes int64
	counted   bool // only a counter shows it
	recorded  bool // in a recording
	place     Place
}

// Limits of which the kernel reports that they were met.
const (
	limitOfContainer = "container"
	limitOfPod       = "pod"
	limitOfPods      = "pods"
	limitOfNode      = "node"
)

// ofNode reports whether the memory of the node, or of all pods, was exhausted: evictions free it.
func (k *kill) ofNode() bool { return k.limitOf == limitOfNode || k.limitOf == limitOfPods }

// ofPod reports whether a limit of the pod was met.
func (k *kill) ofPod() bool { return k.limitOf == limitOfContainer || k.limitOf == limitOfPod }

// counter is the last value of a counter of OOM kills.
type counter struct {
	at    time.Time
	value int64
}

// increment is an increase of a counter of OOM kills. The UID is empty for that of the machine.
type increment struct {
	span
	uid, pod string
	by       int64
	place    Place
}

// addKill adds the line of an OOM kill.
func (n *node) addKill(l *line, t time.Time, at Place) {
	if n.full(len(n.kills), 1) {
		return
	}
	n.kills = append(n.kills, kill{span: span{t, t}, uid: uidOf(l.UID), pod: printableName(l.Pod), container: printableName(l.Container),
		limitOf: cmp.Or(printable(l.LimitOf), unknown), processes: max(l.Kills, 1), place: at, recorded: n.run.header != nil})
}

// count compares a counter with its last value.
func (n *node) count(uid, pod string, value int64, t time.Time, at Place) {
	if value < 0 {
		return
	}
	before, known := n.counters[uid]
	switch {
	case !known && (len(n.counters) >= maxUIDs || n.full(0, 1)):
		return
	case known && value > before.value && t.After(before.at):
		if n.full(len(n.increments), 1) {
			return
		}
		n.increments = append(n.increments, increment{span{before.at, t}, uid, printableName(pod), value - before.value, at})
	}
	n.counters[uid] = counter{t, value}
}

// sum returns the sum of two amounts, at most the maximum.
func sum(a, b int64) int64 { return int64(signals.Amount(a).Plus(signals.Amount(b))) }

// addCounted adds the kills that have no line: those that the counter of a pod shows, and the rest of the machine's
// counter. Lines before the first usage and after the last one are in no counter.
func (n *node) addCounted() {
	if len(n.increments) == 0 {
		return
	}
	slices.SortFunc(n.increments, func(a, b increment) int {
		return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.uid, b.uid), cmp.Compare(a.by, b.by))
	})
	n.increments = slices.CompactFunc(n.increments, func(a, b increment) bool { return a.to.Equal(b.to) && a.uid == b.uid && a.by == b.by })
	of, lines := map[string]*kill{}, map[string]int64{}
	for i := range n.increments {
		x := &n.increments[i]
		k := of[x.uid]
		if k == nil {
			k = &kill{span: x.span, uid: x.uid, pod: cmp.Or(x.pod, unknown), limitOf: unknown, counted: true, place: x.place}
			of[x.uid] = k
		}
		k.processes, k.to = sum(k.processes, x.by), x.to
	}
	var named int64 // processes with a pod
	first, last := n.usages[0].from, n.usages[len(n.usages)-1].to
	for i := range n.kills {
		if k := &n.kills[i]; k.to.After(first) && !k.to.After(last) {
			lines[k.uid], named = sum(lines[k.uid], k.processes), sum(named, k.processes)
		}
	}
	machine := of[""]
	delete(of, "")
	for _, uid := range slices.Sorted(maps.Keys(of)) {
		k := of[uid]
		if k.processes -= lines[uid]; k.processes > 0 {
			named = sum(named, k.processes)
			n.kills = append(n.kills, *k)
		}
	}
	if machine != nil && machine.processes > named {
		machine.processes -= named
		n.kills = append(n.kills, *machine)
	}
}
