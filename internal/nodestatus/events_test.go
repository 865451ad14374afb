package nodestatus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// events returns all events in a short form.
func (a *fakeAPI) events() (all []string) {
	a.t.Helper()
	list, err := a.Clientset.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, e := range list.Items {
		o := e.InvolvedObject
		all = append(all, fmt.Sprintf("%s %s %s/%s/%s: %s x%d", e.Type, e.Reason, o.Kind, o.Name, o.UID, e.Message, e.Count))
	}
	return all
}

func TestEventsOfConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := newAPI(t, nodeOf()), &logcapture.Book{}
		events := NewEvents(apitest.From(a), "n", period)
		c := NewConditions(ConditionParts{Client: apitest.From(a), NodeName: "n", Transition: period, Events: events, Log: log.Logger(),
			Owner: func(*corev1.Node) Owners { return memoryOnly(OwnTypes) }})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		c.Set(0, Crossings{})
		pass(lookPeriod)
		if got := a.events(); len(got) != 0 {
			t.Errorf("nothing changed, but: %v", got)
		}
		a.fail("patch nodes/status", fmt.Errorf("refused"))
		c.Set(memory, Crossings{})
		pass(time.Minute)
		if got := a.events(); len(got) != 0 {
			t.Errorf("nobody has seen a change yet, but: %v", got)
		}
		a.fail("patch nodes/status", nil)
		pass(lastRetry)
		c.Set(0, Crossings{})
		pass(period + 2*lookPeriod)
		want := []string{
			"Normal NodeHasInsufficientMemory Node/n/n: Node n status is now: NodeHasInsufficientMemory x1",
			"Normal NodeHasSufficientMemory Node/n/n: Node n status is now: NodeHasSufficientMemory x1",
		}
		if diff := cmp.Diff(want, a.events()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		cancel()
		events.Close()
	})
}

func TestAttemptsAreToldOnceARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		for range 20 { // three minutes and twenty seconds of memory pressure
			events.Attempting(signals.MemoryAvailable, time.Now())
			pass(10 * time.Second)
		}
		events.Attempting(signals.NodefsInodesFree, time.Now())
		pass(time.Millisecond) // two events at one instant would share a name
		events.Futile("the last 2 evictions freed nothing")
		pass(period)
		events.Attempting(signals.MemoryAvailable, time.Now())
		pass(time.Second)
		want := []string{
			"Warning EvictionThresholdMet Node/n/n: Attempting to reclaim memory x2",
			"Warning EvictionThresholdMet Node/n/n: Attempting to reclaim inodes x1",
			"Warning EvictionsFutile Node/n/n: the last 2 evictions freed nothing x1",
		}
		if diff := cmp.Diff(want, a.events()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		events.Close()
	})
}
