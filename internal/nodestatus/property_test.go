package nodestatus

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
)

// world is an API server's Node, a ledger that writes to it over an unreliable connection, and the
// facts that the assertions need.
type world struct {
	t      *testing.T
	r      *rand.Rand
	now    time.Time
	node   *corev1.Node
	owners Owners
	want   *wanted
	ledger *ledger

	rose    map[corev1.NodeConditionType]time.Time // when we last made it True, in nanoseconds
	wrote   map[corev1.NodeConditionType]time.Time // when the last write of this ledger arrived
	foreign map[corev1.NodeConditionType]bool      // changed by another program since then
	trials  struct{ drops, yields, standOffs int }
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), now: noon.Add(123456789), node: nodeOf(), want: pressed(), owners: OwnTypes.All(), rose: map[corev1.NodeConditionType]time.Time{}}
	w.restart()
	return w
}

// restart replaces the ledger by an empty one.
func (w *world) restart() {
	w.ledger = newLedger(period)
	w.wrote, w.foreign = map[corev1.NodeConditionType]time.Time{}, map[corev1.NodeConditionType]bool{}
}

// round decides and writes. The request or its response may be lost.
func (w *world) round(reliable bool) *draft {
	d := w.ledger.decide(w.now, w.node, w.owners, w.want)
	w.judge(d)
	if d.empty() {
		return d
	}
	w.ledger.sent(d, w.node, w.now)
	for _, kind := range d.remove { // removed: the next write is a new beginning
		delete(w.wrote, kind)
		delete(w.foreign, kind)
	}
	if !reliable && w.r.IntN(4) == 0 {
		return d // the request is lost
	}
	for _, c := range d.set {
		w.wrote[c.Type], w.foreign[c.Type] = w.now, false
		if p := find(w.node, c.Type); c.Status == corev1.ConditionTrue && statusOf(p) != corev1.ConditionTrue {
			w.rose[c.Type] = w.now
		}
	}
	w.store(d)
	if reliable || w.r.IntN(4) > 0 { // otherwise the response is lost
		w.ledger.taken(d)
	}
	return d
}

// store applies the draft's patch like the API server (see TestWhatToWriteNext, applied), at a
// lower cost.
func (w *world) store(d *draft) {
	w.node = w.node.DeepCopy()
	all := w.node.Status.Conditions
	for _, set := range d.set {
		set.LastTransitionTime.Time = set.LastTransitionTime.Truncate(time.Second)
		set.LastHeartbeatTime.Time = set.LastHeartbeatTime.Truncate(time.Second)
		if p := find(w.node, set.Type); p != nil {
			*p = set
		} else {
			all = append(all, set)
		}
	}
	w.node.Status.Conditions = slices.DeleteFunc(all, func(c corev1.NodeCondition) bool { return slices.Contains(d.remove, c.Type) })
}

func (w *world) judge(d *draft) {
	if d.empty() && !d.next.After(w.now) {
		w.t.Fatalf("nothing to do, but looks again at once")
	}
	for c, owner := range w.owners {
		c := signals.Condition(c)
		for _, set := range d.set {
			if owner == KubeletReports && (set.Type == standardType(c) || set.Type == ownType(c)) {
				w.t.Fatalf("%s is the kubelet's, but %v is written", c, set)
			}
			if owner == OwnTypes && set.Type == standardType(c) {
				w.t.Fatalf("%s is told by our own type, but %v is written", c, set)
			}
		}
	}
	for _, set := range d.set {
		w.judgeWrite(set)
	}
}

func (w *world) judgeWrite(set corev1.NodeCondition) {
	p := find(w.node, set.Type)
	if statusOf(p) == corev1.ConditionTrue && set.Status == corev1.ConditionFalse {
		if since, ours := w.rose[set.Type]; ours && !w.foreign[set.Type] && w.now.Sub(since) < period {
			w.t.Fatalf("%s: cleared %s after it was set", set.Type, w.now.Sub(since))
		}
	}
	if last, known := w.wrote[set.Type]; known && w.foreign[set.Type] {
		w.trials.standOffs++
		if w.now.Sub(last) < period {
			w.t.Fatalf("%s: fought for, %s after the last write", set.Type, w.now.Sub(last))
		}
		if p != nil && p.Status != corev1.ConditionUnknown && string(set.Type) == standardName(set.Type) {
			w.t.Fatalf("%s: a stranger's, but written", set.Type)
		}
	}
}

func standardName(kind corev1.NodeConditionType) string {
	for c := range signals.Condition(signals.ConditionCount) {
		if kind == standardType(c) {
			return string(kind)
		}
	}
	return ""
}

// meddle changes one of the conditions like another program.
func (w *world) meddle() {
	if len(w.node.Status.Conditions) == 0 {
		return
	}
	w.node = w.node.DeepCopy()
	p := &w.node.Status.Conditions[w.r.IntN(len(w.node.Status.Conditions))]
	statuses := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}
	status := statuses[w.r.IntN(3)]
	if p.Status != status {
		p.LastTransitionTime = metav1.NewTime(w.now.Truncate(time.Second))
	}
	p.Status, p.Reason, p.LastHeartbeatTime = status, "Stranger", metav1.NewTime(w.now.Truncate(time.Second))
	w.foreign[p.Type] = true
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.r.Int64N(int64(period) / 3)))
	switch w.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		w.want = &wanted{set: signals.ConditionSet(w.r.IntN(1 << signals.ConditionCount))}
	case 5:
		w.restart()
	case 6:
		w.meddle()
	case 7:
		w.owners[w.r.IntN(signals.ConditionCount)] = Owner(w.r.IntN(3))
	}
	before := w.ledger.yielded
	d := w.round(false)
	for c, yielded := range w.ledger.yielded {
		if kind := standardType(signals.Condition(c)); yielded && !before[c] {
			w.trials.yields++
			if !w.foreign[kind] {
				w.t.Fatalf("%s: given up, but nobody else has written it", kind)
			}
		}
	}
	for _, set := range d.set {
		if set.Status != statusOf(find(w.node, set.Type)) {
			w.trials.drops++
		}
	}
}

// settle advances time on a reliable connection: the desired conditions have to be reached.
func (w *world) settle() {
	for end := w.now.Add(3*period + time.Minute); w.now.Before(end); {
		d := w.round(true)
		w.now = w.now.Add(max(min(d.next.Sub(w.now), 10*time.Second), time.Millisecond))
	}
	for c, owner := range w.owners {
		c := signals.Condition(c)
		if owner == StandardTypes && w.ledger.yielded[c] {
			owner = OwnTypes
		}
		kinds := [...]corev1.NodeConditionType{OwnTypes: ownType(c), StandardTypes: standardType(c)}
		if owner != OwnTypes && find(w.node, ownType(c)) != nil {
			w.t.Fatalf("%s is still there, owner %s", ownType(c), owner)
		}
		if owner == KubeletReports {
			continue
		}
		if got := statusOf(find(w.node, kinds[owner])) == corev1.ConditionTrue; got != w.want.set.Has(c) {
			w.t.Fatalf("%s: True is %t, wanted %t", kinds[owner], got, w.want.set.Has(c))
		}
	}
}

func TestConditionsNeverFlapAndNeverFight(t *testing.T) {
	worlds, steps := 2000, 60
	if testing.Short() {
		worlds = 200
	}
	var drops, yields, standOffs int
	for seed := range worlds {
		w := newWorld(t, uint64(seed))
		for range steps {
			w.step()
		}
		w.settle()
		drops, yields, standOffs = drops+w.trials.drops, yields+w.trials.yields, standOffs+w.trials.standOffs
	}
	if drops == 0 || yields == 0 || standOffs == 0 {
		t.Errorf("nothing was tried: %d lost writes, %d types given up, %d writes after a stranger's", drops, yields, standOffs)
	}
}

// TestTrueIsWrittenAtOnce: True is written at once in every state, as long as no other program
// writes.
func TestTrueIsWrittenAtOnce(t *testing.T) {
	for seed := range uint64(500) {
		w := newWorld(t, seed)
		for range 20 {
			w.now = w.now.Add(time.Duration(w.r.Int64N(int64(period))))
			w.want = &wanted{set: signals.ConditionSet(w.r.IntN(1 << signals.ConditionCount))}
			w.round(true)
			for c := range signals.Condition(signals.ConditionCount) {
				if w.want.set.Has(c) && statusOf(find(w.node, ownType(c))) != corev1.ConditionTrue {
					t.Fatalf("seed %d: %s is not True at once", seed, c)
				}
			}
		}
	}
}
