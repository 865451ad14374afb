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

// env is an API server's Node, a ledger that writes to it over an unreliable connection, and the
// facts that the assertions need.
type env struct {
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
	covered struct{ drops, yields, standOffs int }
}

func newEnv(t *testing.T, seed uint64) *env {
	e := &env{t: t, r: rand.New(rand.NewPCG(seed, 7)), now: noon.Add(123456789), node: nodeOf(), want: pressed(), owners: OwnTypes.All(), rose: map[corev1.NodeConditionType]time.Time{}}
	e.restart()
	return e
}

// restart replaces the ledger by an empty one.
func (e *env) restart() {
	e.ledger = newLedger(period)
	e.wrote, e.foreign = map[corev1.NodeConditionType]time.Time{}, map[corev1.NodeConditionType]bool{}
}

// round decides and writes. The request or its response may be lost.
func (e *env) round(reliable bool) *draft {
	d := e.ledger.decide(e.now, e.node, e.owners, e.want)
	e.check(d)
	if d.empty() {
		return d
	}
	e.ledger.sent(d, e.node, e.now)
	for _, kind := range d.remove { // removed: the next write is a new beginning
		delete(e.wrote, kind)
		delete(e.foreign, kind)
	}
	if !reliable && e.r.IntN(4) == 0 {
		return d // the request is lost
	}
	for _, c := range d.set {
		e.wrote[c.Type], e.foreign[c.Type] = e.now, false
		if p := find(e.node, c.Type); c.Status == corev1.ConditionTrue && statusOf(p) != corev1.ConditionTrue {
			e.rose[c.Type] = e.now
		}
	}
	e.store(d)
	if reliable || e.r.IntN(4) > 0 { // otherwise the response is lost
		e.ledger.accepted(d)
	}
	return d
}

// store applies the draft's patch like the API server (see applied), at a
// lower cost.
func (e *env) store(d *draft) {
	e.node = e.node.DeepCopy()
	all := e.node.Status.Conditions
	for _, set := range d.set {
		set.LastTransitionTime.Time = set.LastTransitionTime.Truncate(time.Second)
		set.LastHeartbeatTime.Time = set.LastHeartbeatTime.Truncate(time.Second)
		if p := find(e.node, set.Type); p != nil {
			*p = set
		} else {
			all = append(all, set)
		}
	}
	e.node.Status.Conditions = slices.DeleteFunc(all, func(c corev1.NodeCondition) bool { return slices.Contains(d.remove, c.Type) })
}

func (e *env) check(d *draft) {
	if d.empty() && !d.next.After(e.now) {
		e.t.Fatalf("nothing to do, but the next decision is due at once")
	}
	for c, owner := range e.owners {
		c := signals.Condition(c)
		for _, set := range d.set {
			if owner == KubeletReports && (set.Type == standardType(c) || set.Type == ownType(c)) {
				e.t.Fatalf("%s belongs to the kubelet, but %v is written", c, set)
			}
			if owner == OwnTypes && set.Type == standardType(c) {
				e.t.Fatalf("%s is reported by a type of our own, but %v is written", c, set)
			}
		}
	}
	for _, set := range d.set {
		e.checkWrite(set)
	}
}

func (e *env) checkWrite(set corev1.NodeCondition) {
	p := find(e.node, set.Type)
	if statusOf(p) == corev1.ConditionTrue && set.Status == corev1.ConditionFalse {
		if since, ours := e.rose[set.Type]; ours && !e.foreign[set.Type] && e.now.Sub(since) < period {
			e.t.Fatalf("%s: cleared %s after it was set", set.Type, e.now.Sub(since))
		}
	}
	if last, known := e.wrote[set.Type]; known && e.foreign[set.Type] {
		e.covered.standOffs++
		if e.now.Sub(last) < period {
			e.t.Fatalf("%s: rewritten over another writer %s after the last write", set.Type, e.now.Sub(last))
		}
		if p != nil && p.Status != corev1.ConditionUnknown && string(set.Type) == standardName(set.Type) {
			e.t.Fatalf("%s: written over another writer", set.Type)
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

// interfere changes one of the conditions like another program.
func (e *env) interfere() {
	if len(e.node.Status.Conditions) == 0 {
		return
	}
	e.node = e.node.DeepCopy()
	p := &e.node.Status.Conditions[e.r.IntN(len(e.node.Status.Conditions))]
	statuses := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}
	status := statuses[e.r.IntN(3)]
	if p.Status != status {
		p.LastTransitionTime = metav1.NewTime(e.now.Truncate(time.Second))
	}
	p.Status, p.Reason, p.LastHeartbeatTime = status, "OtherWriter", metav1.NewTime(e.now.Truncate(time.Second))
	e.foreign[p.Type] = true
}

func (e *env) step() {
	e.now = e.now.Add(time.Duration(e.r.Int64N(int64(period) / 3)))
	switch e.r.IntN(12) {
	case 0, 1, 2, 3, 4:
		e.want = &wanted{set: signals.ConditionSet(e.r.IntN(1 << signals.ConditionCount))}
	case 5:
		e.restart()
	case 6:
		e.interfere()
	case 7:
		e.owners[e.r.IntN(signals.ConditionCount)] = Owner(e.r.IntN(3))
	}
	before := e.ledger.yielded
	d := e.round(false)
	for c, yielded := range e.ledger.yielded {
		if kind := standardType(signals.Condition(c)); yielded && !before[c] {
			e.covered.yields++
			if !e.foreign[kind] {
				e.t.Fatalf("%s: given up without a foreign write", kind)
			}
		}
	}
	for _, set := range d.set {
		if set.Status != statusOf(find(e.node, set.Type)) {
			e.covered.drops++
		}
	}
}

// settle advances time on a reliable connection: the desired conditions have to be reached.
func (e *env) settle() {
	for end := e.now.Add(3*period + time.Minute); e.now.Before(end); {
		d := e.round(true)
		e.now = e.now.Add(max(min(d.next.Sub(e.now), 10*time.Second), time.Millisecond))
	}
	for c, owner := range e.owners {
		c := signals.Condition(c)
		if owner == StandardTypes && e.ledger.yielded[c] {
			owner = OwnTypes
		}
		kinds := [...]corev1.NodeConditionType{OwnTypes: ownType(c), StandardTypes: standardType(c)}
		if owner != OwnTypes && find(e.node, ownType(c)) != nil {
			e.t.Fatalf("%s still exists, owner %s", ownType(c), owner)
		}
		if owner == KubeletReports {
			continue
		}
		if got := statusOf(find(e.node, kinds[owner])) == corev1.ConditionTrue; got != e.want.set.Has(c) {
			e.t.Fatalf("%s: True is %t, wanted %t", kinds[owner], got, e.want.set.Has(c))
		}
	}
}

func TestLedger_NeverFlapsNorFights(t *testing.T) {
	envs, steps := 2000, 60
	if testing.Short() {
		envs = 200
	}
	var drops, yields, standOffs int
	for seed := range envs {
		e := newEnv(t, uint64(seed))
		for range steps {
			e.step()
		}
		e.settle()
		drops, yields, standOffs = drops+e.covered.drops, yields+e.covered.yields, standOffs+e.covered.standOffs
	}
	if drops == 0 || yields == 0 || standOffs == 0 {
		t.Errorf("cases without coverage: %d lost writes, %d types given up, %d writes after a foreign one", drops, yields, standOffs)
	}
}

// TestLedger_WritesTrueAtOnce: True is written at once in every state, as long as no other program
// writes.
func TestLedger_WritesTrueAtOnce(t *testing.T) {
	for seed := range uint64(500) {
		e := newEnv(t, seed)
		for range 20 {
			e.now = e.now.Add(time.Duration(e.r.Int64N(int64(period))))
			e.want = &wanted{set: signals.ConditionSet(e.r.IntN(1 << signals.ConditionCount))}
			e.round(true)
			for c := range signals.Condition(signals.ConditionCount) {
				if e.want.set.Has(c) && statusOf(find(e.node, ownType(c))) != corev1.ConditionTrue {
					t.Fatalf("seed %d: %s is not True at once", seed, c)
				}
			}
		}
	}
}
