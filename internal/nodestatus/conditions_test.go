package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/kubeletconfig"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

const (
	ownMemory      = "plimsoll.dev/MemoryPressure"
	standardMemory = "MemoryPressure"
	yes, no        = corev1.ConditionTrue, corev1.ConditionFalse
)

// only returns the set of one condition.
func only(c signals.Condition) signals.ConditionSet {
	var set signals.ConditionSet
	set.Add(c)
	return set
}

var memory = only(signals.MemoryPressure)

// run runs a writer of conditions in a bubble of virtual time.
func run(t *testing.T, p ConditionParts, test func(a *fakeAPI, c *Conditions, log *logcapture.Book)) {
	synctest.Test(t, func(t *testing.T) {
		n := nodeOf()
		a, log := newAPI(t, n), &logcapture.Book{}
		p.Client, p.NodeName, p.Transition, p.Log = apitest.From(a), "n", period, log.Logger()
		if p.Owner == nil {
			p.Owner = func(*corev1.Node) Owners { return memoryOnly(OwnTypes) }
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := NewConditions(p)
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		synctest.Wait()
		test(a, c, log)
		cancel()
		<-done
	})
}

func TestConditions_SetAtOnceClearedAfterTransition(t *testing.T) {
	run(t, ConditionParts{}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		pass(time.Minute)
		if got := a.status(ownMemory); got != "" {
			t.Errorf("%s before the first Set", got)
		}
		c.Set(0, Crossings{})
		pass(comparePeriod)
		if got := a.status(ownMemory); got != no {
			t.Errorf("%q at the start, want False", got)
		}
		c.Set(memory, Crossings{})
		synctest.Wait()
		if got := a.status(ownMemory); got != yes {
			t.Errorf("%q at once, want True", got)
		}
		set := time.Now()
		c.Set(0, Crossings{})
		for pass(time.Second); a.status(ownMemory) == yes; pass(time.Second) {
		}
		if lasted := time.Since(set); lasted < period || lasted > period+comparePeriod {
			t.Errorf("cleared after %s, want %s", lasted, period)
		}
		if written, failed := c.Counts(); written < 16 || written > 18 || failed != 0 { // False, True, renewed every 20 s, False
			t.Errorf("%d written, %d failed, want 17 and 0", written, failed)
		}
	})
}

// A True of our own type is renewed while the agent checks its node. A False causes no writes.
func TestConditions_RenewsOwnTrueWhileAlive(t *testing.T) {
	var hung atomic.Bool
	alive := func(time.Time) error {
		if hung.Load() {
			return errors.New("the agent hangs")
		}
		return nil
	}
	for owner, want := range map[Owner][3]int64{ // writes in three times two minutes
		OwnTypes:      {1, 6, 0},
		StandardTypes: {1, 0, 0},
	} {
		run(t, ConditionParts{Alive: alive, Owner: func(*corev1.Node) Owners { return memoryOnly(owner) }}, func(_ *fakeAPI, c *Conditions, _ *logcapture.Book) {
			hung.Store(false)
			since := func() (n int64) {
				before, _ := c.Counts()
				pass(2*time.Minute + comparePeriod/2)
				n, _ = c.Counts()
				return n - before
			}
			c.Set(0, Crossings{})
			got := [3]int64{since()}
			c.Set(memory, Crossings{})
			synctest.Wait()
			got[1] = since()
			hung.Store(true)
			got[2] = since()
			if got != want {
				t.Errorf("%s types: %d writes while False, while True and while the agent hangs, want %d", owner, got, want)
			}
		})
	}
}

func TestConditions_SuccessorHonoursTransition(t *testing.T) {
	run(t, ConditionParts{}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		a.Change(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: ownMemory, Status: yes,
				LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Minute)), LastHeartbeatTime: metav1.NewTime(time.Now())}}
		})
		c.Set(0, Crossings{}) // the state file is lost: the agent does not know of the pressure
		pass(period - time.Minute - comparePeriod)
		if got := a.status(ownMemory); got != yes {
			t.Errorf("%q after less than the period", got)
		}
		pass(3 * comparePeriod)
		if got := a.status(ownMemory); got != no {
			t.Errorf("%q after the period", got)
		}
	})
}

func TestConditions_RetriesAfterAPIErrors(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for _, test := range []struct {
		name    string
		fault   error
		hang    bool
		wantLog string
	}{
		{"429", apierrors.NewTooManyRequests("slow down", 1), false, "slow down"},
		{"409", apierrors.NewConflict(nodes, "n", errors.New("changed")), false, "changed"},
		{"500", apierrors.NewInternalError(errors.New("broken")), false, "broken"},
		{"403", apierrors.NewForbidden(nodes, "n", errors.New("no")), false, "right to patch nodes/status"},
		{"unreachable", fmt.Errorf("dial: refused"), false, "refused"},
		{"no response", nil, true, "did not answer within 8s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run(t, ConditionParts{}, func(a *fakeAPI, c *Conditions, log *logcapture.Book) {
				a.Fail("patch nodes/status", test.fault)
				a.hang(test.hang)
				c.Set(memory, Crossings{})
				pass(10 * time.Minute)
				if tries := a.Called("patch nodes/status"); tries > 35 {
					t.Errorf("%d tries in 10 minutes", tries)
				}
				if n := log.Count(test.wantLog); n != 1 {
					t.Errorf("logged %d times, want once: %s", n, log)
				}
				c.Set(0, Crossings{})
				a.Fail("patch nodes/status", nil)
				a.hang(false)
				pass(writeBackoff.Max + api.RequestTimeout)
				if got := a.status(ownMemory); got != no {
					t.Errorf("%q after recovery, want the latest state, False", got)
				}
				if log.Count("Resumed writing") != 1 {
					t.Error("the recovery was not logged")
				}
				if _, failed := c.Counts(); failed == 0 {
					t.Error("no failure counted")
				}
			})
		})
	}
}

func TestConditions_RecognisesOwnWriteAfterLostResponse(t *testing.T) {
	owner := func(*corev1.Node) Owners { return memoryOnly(StandardTypes) }
	run(t, ConditionParts{Owner: owner}, func(a *fakeAPI, c *Conditions, log *logcapture.Book) {
		c.Set(0, Crossings{})
		pass(comparePeriod)
		a.loseAnswers(true)
		c.Set(memory, Crossings{})
		pass(time.Minute)
		a.loseAnswers(false)
		pass(time.Minute)
		if got := a.status(standardMemory); got != yes {
			t.Errorf("%q, want True", got)
		}
		if log.Count("another program writes") != 0 || a.status(ownMemory) != "" {
			t.Error("an own write was attributed to another program")
		}
	})
}

func TestConditions_UsesOwnTypesBesideNewKubelet(t *testing.T) {
	owner := func(n *corev1.Node) Owners {
		return Auto.Owners(n, nil, []kubeletconfig.Threshold{{Signal: signals.MemoryAvailable, Amount: 1}})
	}
	run(t, ConditionParts{Owner: owner}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		c.Set(memory, Crossings{})
		synctest.Wait()
		pass(comparePeriod)
		if a.status(standardMemory) != yes || a.status(ownMemory) != "" {
			t.Errorf("without a kubelet: %v", a.Node().Status.Conditions)
		}
		a.Change(func(n *corev1.Node) {
			n.Status.NodeInfo.KubeletVersion = "v1.36.3"
			find(n, standardMemory).Status = no
		})
		before := a.Node()
		pass(2 * comparePeriod)
		if a.status(ownMemory) != yes || *find(a.Node(), standardMemory) != *find(before, standardMemory) {
			t.Errorf("beside a kubelet: %v", a.Node().Status.Conditions)
		}
	})
}

func TestConditions_TaintsFollowOwnConditions(t *testing.T) {
	foreign := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Taint{Key: "plimsoll.dev/memory-pressure", Effect: corev1.TaintEffectNoSchedule}
	has := func(a *fakeAPI, want ...corev1.Taint) {
		t.Helper()
		if got := a.Node().Spec.Taints; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("taints %v, want %v", got, want)
		}
	}
	run(t, ConditionParts{Taint: true}, func(a *fakeAPI, c *Conditions, log *logcapture.Book) {
		a.Change(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{foreign} })
		c.Set(memory, Crossings{})
		pass(comparePeriod)
		has(a, foreign, ours)
		a.Fail("patch nodes", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n", errors.New("no")))
		c.Set(0, Crossings{})
		pass(period + 2*comparePeriod)
		if a.status(ownMemory) != no || log.Count("right to patch nodes") != 1 {
			t.Errorf("conditions wait for taints, or the error was not logged once: %s", log)
		}
		a.Fail("patch nodes", nil)
		pass(2 * comparePeriod)
		has(a, foreign)
	})
	run(t, ConditionParts{}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		a.Change(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{ours, foreign} })
		c.Set(memory, Crossings{})
		pass(comparePeriod)
		has(a, foreign) // taints are disabled now
	})
}

func TestTaints_PreservesForeignTaints(t *testing.T) {
	evicting := corev1.Taint{Key: "plimsoll.dev/memory-pressure", Effect: corev1.TaintEffectNoExecute}
	ours := corev1.Taint{Key: "plimsoll.dev/memory-pressure", Effect: corev1.TaintEffectNoSchedule}
	for _, test := range []struct {
		name    string
		present []corev1.Taint
		pressed signals.ConditionSet
		want    []corev1.Taint
		changed bool
	}{
		{"no change", []corev1.Taint{evicting}, 0, []corev1.Taint{evicting}, false},
		{"foreign taint with another effect", []corev1.Taint{evicting}, memory, []corev1.Taint{evicting, ours}, true},
		{"present already", []corev1.Taint{ours, evicting}, memory, []corev1.Taint{ours, evicting}, false},
		{"last taint removed", []corev1.Taint{ours}, 0, []corev1.Taint{}, true},
	} {
		got, changed := taints(test.present, test.pressed)
		if fmt.Sprint(got) != fmt.Sprint(test.want) || changed != test.changed {
			t.Errorf("%s: got %v, %t, want %v, %t", test.name, got, changed, test.want, test.changed)
		}
	}
}

func TestConditions_SetNeitherBlocksNorAllocates(t *testing.T) {
	c := NewConditions(ConditionParts{Transition: period}) // Run is never called
	for i := range 1000 {
		c.Set(signals.ConditionSet(i%8), Crossings{})
	}
	if w := <-c.latest; w.set != 999%8 {
		t.Errorf("latest set %v, want %v", w.set, signals.ConditionSet(999%8))
	}
	calls := 0
	if n := testing.AllocsPerRun(1000, func() {
		calls++
		c.Set(signals.ConditionSet(calls%8), Crossings{})
	}); n != 0 {
		t.Errorf("Set allocates %v times, want 0", n)
	}
}

func TestNewer_ReturnsNewerVersion(t *testing.T) {
	at := func(version string) *corev1.Node {
		n := nodeOf()
		n.ResourceVersion = version
		return n
	}
	for _, test := range []struct {
		seen, answer *corev1.Node
		want         string
		ok           bool
	}{
		{nil, at("7"), "", false}, {at("7"), nil, "7", true}, {at("9"), at("10"), "10", true}, {at("10"), at("9"), "10", true}, {at(""), at("9"), "", false},
	} {
		n, ok := newer(test.seen, test.answer)
		if ok != test.ok || ok && n.ResourceVersion != test.want {
			t.Errorf("newer(%v, %v) = %v, %t", test.seen, test.answer, n, ok)
		}
	}
}

// TestConditions_BackoffUnaffectedByNewState: the Node is read from the API server, new desired
// conditions do not shorten the backoff, and after recovery they are written at once again.
func TestConditions_BackoffUnaffectedByNewState(t *testing.T) {
	stale := nodeOf()
	run(t, ConditionParts{Node: func() *corev1.Node { return stale }}, func(a *fakeAPI, c *Conditions, _ *logcapture.Book) {
		a.Fail("patch nodes/status", errors.New("refused"))
		for i := range 600 { // a minute of checks at the threshold
			c.Set(signals.ConditionSet(i%2)*memory, Crossings{})
			pass(100 * time.Millisecond)
		}
		if tries := a.Called("patch nodes/status"); tries > 12 || a.Called("get nodes") < tries-1 {
			t.Errorf("%d tries in a minute, and the Node was read %d times", tries, a.Called("get nodes"))
		}
		a.Fail("patch nodes/status", nil)
		c.Set(0, Crossings{})
		pass(2 * writeBackoff.Max)
		c.Set(memory, Crossings{})
		synctest.Wait()
		if got := a.status(ownMemory); got != yes {
			t.Errorf("%q at once after the recovery, want True", got)
		}
	})
}
