package nodestatus

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// armSwitch is an Armed that a test switches, with a call of Kick.
type armSwitch struct{ off atomic.Bool }

func (s *armSwitch) armed() bool { return !s.off.Load() }

func (s *armSwitch) to(c *Conditions, armed bool) {
	s.off.Store(!armed)
	c.Kick()
	synctest.Wait()
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func TestConditions_WithdrawsWhenDisarmed(t *testing.T) {
	var s armSwitch
	run(t, ConditionParts{Armed: s.armed, Taint: true}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		a.Change(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "team", Effect: corev1.TaintEffectNoSchedule})
		})
		c.Set(memory, Crossings{})
		synctest.Wait()
		if a.status(ownMemory) != yes || !hasTaint(a.Node(), "plimsoll.dev/memory-pressure") {
			t.Fatalf("armed: %+v", a.Node())
		}
		s.to(c, false)
		if a.status(ownMemory) != "" || hasTaint(a.Node(), "plimsoll.dev/memory-pressure") || !hasTaint(a.Node(), "team") || !c.Withdrawn() {
			t.Errorf("disarmed: %+v", a.Node())
		}
		written := a.Called("patch nodes/status") + a.Called("patch nodes")
		c.Set(0, Crossings{})
		c.Set(memory, Crossings{})
		pass(time.Hour)
		if n := a.Called("patch nodes/status") + a.Called("patch nodes"); n != written {
			t.Errorf("%d writes while disarmed", n-written)
		}
		s.to(c, true)
		if a.status(ownMemory) != yes || !hasTaint(a.Node(), "plimsoll.dev/memory-pressure") || c.Withdrawn() {
			t.Errorf("armed again: %+v", a.Node())
		}
	})
}

func TestConditions_DisarmedWritesNothingOnCleanNode(t *testing.T) {
	run(t, ConditionParts{Armed: func() bool { return false }}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		c.Set(memory, Crossings{})
		pass(time.Hour)
		if n := a.Called("patch nodes/status") + a.Called("patch nodes"); n > 0 || !c.Withdrawn() {
			t.Errorf("%d writes, withdrawn %v", n, c.Withdrawn())
		}
	})
}

func TestConditions_RetriesFailedWithdrawal(t *testing.T) {
	var s armSwitch
	run(t, ConditionParts{Armed: s.armed}, func(a *fakeAPI, c *Conditions, log *logcapture.Book) {
		c.Set(memory, Crossings{})
		synctest.Wait()
		a.Fail("patch nodes/status", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", nil))
		s.to(c, false)
		pass(writeBackoff.Max)
		if c.Withdrawn() || a.status(ownMemory) != yes {
			t.Errorf("withdrawn despite the refused write: %+v", a.Node())
		}
		a.Fail("patch nodes/status", nil)
		pass(writeBackoff.Max)
		if !c.Withdrawn() || a.status(ownMemory) != "" {
			t.Errorf("not withdrawn:\n%s", log)
		}
	})
}

// A standard condition with True may belong to another program.
func TestLedger_WithdrawsOnlyOwnStandardConditions(t *testing.T) {
	standing := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: standardMemory, Status: yes, LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon)}}
	}
	for name, tc := range map[string]struct {
		owner     Owner
		inherited bool
		wrote     bool // by this ledger
		want      corev1.ConditionStatus
	}{
		"own write":                               {StandardTypes, false, true, no},
		"own write, new kubelet":                  {KubeletReports, false, true, no},
		"write of an armed predecessor":           {StandardTypes, true, false, no},
		"foreign write":                           {StandardTypes, false, false, yes},
		"condition of a reporting kubelet":        {KubeletReports, true, false, yes},
		"condition of a kubelet beside own types": {OwnTypes, true, false, yes},
	} {
		l, n := newLedger(period), nodeOf()
		if standing(n); tc.wrote {
			n.Status.Conditions = nil
			d := l.decide(noon, n, memoryOnly(StandardTypes), &wanted{set: memory})
			l.sent(d, n, noon)
			l.accepted(d)
			n.Status.Conditions = d.set
		}
		d := l.withdraw(noon.Add(time.Minute), n, memoryOnly(tc.owner), tc.inherited)
		got := yes
		if i := slices.IndexFunc(d.set, func(c corev1.NodeCondition) bool { return c.Type == standardMemory }); i >= 0 {
			got = d.set[i].Status
		}
		if got != tc.want || len(d.changes) > 0 {
			t.Errorf("%s: %s, want %s; %+v", name, got, tc.want, d)
		}
	}
}
