package nodestatus

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

func TestEvents_RecordConditionChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, log := newAPI(t, nodeOf()), &logcapture.Book{}
		events := NewEvents(apitest.From(a), "n", period)
		c := NewConditions(ConditionParts{Client: apitest.From(a), NodeName: "n", Transition: period, Events: events, Log: log.Logger(),
			Owner: func(*corev1.Node) Owners { return memoryOnly(OwnTypes) }})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		c.Set(0, Crossings{})
		pass(comparePeriod)
		if got := a.events(); len(got) != 0 {
			t.Errorf("events without a change: %v", got)
		}
		a.Fail("patch nodes/status", fmt.Errorf("refused"))
		c.Set(memory, Crossings{})
		pass(time.Minute)
		if got := a.events(); len(got) != 0 {
			t.Errorf("events before the first successful write: %v", got)
		}
		a.Fail("patch nodes/status", nil)
		pass(writeBackoff.Max)
		c.Set(0, Crossings{})
		pass(period + 2*comparePeriod)
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

func TestEvents_AttemptingOncePerSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		for range 20 { // three minutes and twenty seconds of memory pressure
			events.Attempting(signals.MemoryAvailable, time.Now())
			pass(10 * time.Second)
		}
		events.Attempting(signals.NodefsInodesFree, time.Now())
		pass(time.Millisecond) // two events at one instant would share a name
		events.Ineffective("the last 2 evictions freed nothing")
		pass(period)
		events.Attempting(signals.MemoryAvailable, time.Now())
		pass(time.Second)
		want := []string{
			"Warning EvictionThresholdMet Node/n/n: Attempting to reclaim memory x2",
			"Warning EvictionThresholdMet Node/n/n: Attempting to reclaim inodes x1",
			"Warning EvictionsIneffective Node/n/n: the last 2 evictions freed nothing x1",
		}
		if diff := cmp.Diff(want, a.events()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		events.Close()
	})
}

// However often the consumers change, and the signal becomes exhausted, events of other kinds are still
// recorded.
func TestEvents_NoPodHelpsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		defer events.Close()
		for i := range 24 * 60 { // a day of flapping
			for _, s := range []signals.Signal{signals.NodefsAvailable, signals.MemoryAvailable} {
				events.NoPodHelps(s, i%2 == 1, fmt.Sprint(s, " consumers ", i), time.Now())
			}
			pass(time.Minute)
		}
		if n := len(a.events()); n > 4*48 || n < 4*45 {
			t.Errorf("%d events in a day, want four in half an hour", n)
		}
		events.Attempting(signals.PIDAvailable, time.Now())
		pass(time.Second)
		if all := a.events(); !slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, "EvictionThresholdMet") }) || !slices.Contains(all, "Warning NoPodHelps Node/n/n: nodefs.available consumers 0 x1") {
			t.Errorf("events %v", all)
		}
	})
}

func TestEvents_RetryOnlyWithoutResponse(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		want  int // events after the end of the fault, of one recorded before it
	}{
		"unreachable API server": {io.ErrUnexpectedEOF, 1},
		"forbidden request":      {apierrors.NewForbidden(corev1.Resource("events"), "", nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, nodeOf())
				events := NewEvents(apitest.From(a), "n", period)
				defer events.Close()
				a.Fail("create events", c.fault)
				events.Ineffective("nothing freed")
				pass(35 * time.Second)
				a.Fail("create events", nil)
				pass(time.Minute)
				if got := a.events(); len(got) != c.want {
					t.Errorf("got events %v, want %d", got, c.want)
				}
			})
		})
	}
}

func TestEvents_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		for i := range 3 * maxQueuedEvents { // no caller waits
			events.Ineffective(fmt.Sprint(i))
		}
		pass(time.Second)
		if got := len(a.events()); got != eventBurst {
			t.Errorf("%d events at once, want %d", got, eventBurst)
		}
		for i := range 100 { // one in five minutes
			pass(6 * time.Minute)
			events.Ineffective(fmt.Sprint("later ", i))
		}
		pass(time.Second)
		events.Close()
		if got := len(a.events()); got != eventBurst+100 {
			t.Errorf("%d events, want %d", got, eventBurst+100)
		}
		if len(events.series) != maxSeries {
			t.Errorf("%d series are stored, want %d", len(events.series), maxSeries)
		}
	})
}

func TestEvents_RecreateDeletedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		defer events.Close()
		for range 2 {
			events.Ineffective("nothing freed")
			pass(time.Second)
			for _, e := range must(a.Clientset.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})).Items {
				if err := a.Clientset.CoreV1().Events(e.Namespace).Delete(t.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := a.Called("create events"); got != 2 {
			t.Errorf("%d events were created, want 2", got)
		}
	})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// TestEvents_OOMKilled checks that events of pods are in their namespaces and counted, and that many of
// them do not suppress those of the node.
func TestEvents_OOMKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, nodeOf())
		events := NewEvents(apitest.From(a), "n", period)
		cart := Pod{"shop", "cart", "uid-cart"}
		events.OOMKilled(cart, "at its limit", 3)
		pass(time.Minute)
		events.OOMKilled(cart, "at its limit", 2)
		pass(time.Minute)
		for i := range 200 {
			events.OOMKilled(Pod{"other", fmt.Sprintf("pod-%d", i), "u"}, "at its limit", 1)
			pass(time.Millisecond)
		}
		events.Ineffective("freed nothing")
		pass(time.Second)
		all := a.events()
		for _, want := range []string{"Warning OOMKilled Pod/cart/uid-cart: at its limit x5", "Warning EvictionsIneffective Node/n/n: freed nothing x1"} {
			if !slices.Contains(all, want) {
				t.Errorf("%s is missing in %v", want, all)
			}
		}
		list, err := a.Clientset.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || !strings.HasPrefix(list.Items[0].Name, "cart.") {
			t.Errorf("%v, %v", list, err)
		}
		events.Close()
	})
}
