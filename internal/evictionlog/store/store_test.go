package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

const namespace, node = "records", "n"

var configMaps = schema.GroupResource{Resource: "configmaps"}

// env is a store before a fake API server, in a bubble of virtual time.
type env struct {
	*apitest.Fake
	t         *testing.T
	store     *store.Store
	log       *logcapture.Book
	unwritten atomic.Value // string
	owned     bool         // by the Node
	stop      func()
}

// run runs a store that continues with the records of an earlier run.
func run(t *testing.T, earlier string, test func(*env)) {
	synctest.Test(t, func(t *testing.T) {
		owner := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}}
		e := &env{Fake: apitest.NewFake(t, owner), t: t, log: &logcapture.Book{}, owned: true}
		e.start(owner, earlier)
		test(e)
		e.stop()
	})
}

// start starts a store.
func (e *env) start(owner *corev1.Node, earlier string) {
	parts := store.Parts{Client: apitest.From(e), Namespace: namespace, NodeName: node, Log: e.log.Logger(),
		Unwritten: func(text string, _ int) { e.unwritten.Store(text) }}
	if e.owned {
		parts.Node = func() *corev1.Node { return owner }
	}
	e.store = store.New(parts)
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan struct{})
	go func() { e.store.Run(ctx, earlier); close(done) }()
	synctest.Wait()
	e.stop = func() { cancel(); <-done }
}

// pass advances virtual time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func eviction(pod string) *decisionlog.Record {
	return &decisionlog.Record{Time: time.Now(), Decision: "evict", Conditions: []string{}, Pod: "shop/" + pod, UID: pod}
}

// evict adds the record of an eviction.
func (e *env) evict(pod string) {
	e.store.Add(eviction(pod))
	synctest.Wait()
}

// object returns the ConfigMap, or nil without one.
func (e *env) object() *corev1.ConfigMap {
	e.t.Helper()
	object, err := e.Tracker().Get(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return object.(*corev1.ConfigMap)
}

// expect compares the pods of the ConfigMap, each with the end of its eviction, and those of unwritten records.
func (e *env) expect(written, unwritten string) {
	e.t.Helper()
	text := ""
	if m := e.object(); m != nil {
		text = m.Data[store.Key]
	}
	if got := pods(text); got != written {
		e.t.Errorf("after %s: written %q, want %q", e.log, got, written)
	}
	if got := pods(e.waiting()); got != unwritten {
		e.t.Errorf("after %s: unwritten %q, want %q", e.log, got, unwritten)
	}
}

func pods(text string) string {
	records, unreadable := evictionlog.Parse(text).Records()
	var all []string
	for _, r := range records {
		all = append(all, strings.TrimSpace(r.UID+" "+r.End))
	}
	if unreadable > 0 {
		all = append(all, fmt.Sprintf("%d unreadable", unreadable))
	}
	return strings.Join(all, ", ")
}

// waiting returns the records that are not written yet.
func (e *env) waiting() string {
	text, _ := e.unwritten.Load().(string)
	return text
}

func (e *env) writes() int { return e.Called("create configmaps") + e.Called("update configmaps") }

func TestStore_WritesSoonThenTogether(t *testing.T) {
	run(t, "", func(e *env) {
		pass(time.Hour)
		if n := e.Called("get configmaps"); n != 0 {
			t.Errorf("%d requests without an eviction", n)
		}
		e.evict("a")
		e.expect("", "a")
		pass(time.Second)
		e.expect("a", "")
		if owners := e.object().OwnerReferences; len(owners) != 1 || owners[0].Kind != "Node" || owners[0].UID != "node-uid" {
			t.Errorf("owners %v, want the Node", owners)
		}
		e.store.Change("a", func(r *decisionlog.Record) bool { r.End = "recovered"; return true })
		e.evict("b")
		e.store.Change("b", func(r *decisionlog.Record) bool { r.End = "freed"; return true })
		synctest.Wait()
		e.expect("a", "a recovered, b freed")
		pass(10 * time.Second)
		e.expect("a recovered, b freed", "")
		if n := e.writes(); n != 2 {
			t.Errorf("%d writes, want 2", n)
		}
		for i := range 200 { // evictions in quick succession do not postpone the write
			e.evict(fmt.Sprint(i))
			pass(time.Second / 2)
		}
		if n := e.writes() - 2; n != 2 {
			t.Errorf("%d writes in 100 s, want one after 20 and one after 40 more", n)
		}
		pass(time.Hour)
		n := e.writes()
		e.evict("c")
		pass(time.Second)
		e.evict("d")
		pass(10 * time.Second)
		if n = e.writes() - n; n != 2 {
			t.Errorf("%d writes in 11 s after an hour without an eviction, want 2", n)
		}
	})
}

func TestStore_ChangesOnlyRecentEvictions(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		<-time.After(time.Millisecond)
		e.evict("a") // again: the last one counts
		e.store.Change("a", func(*decisionlog.Record) bool { return false })
		e.store.Change("a", func(r *decisionlog.Record) bool { r.End = "freed"; return true })
		e.store.Change("unknown", func(*decisionlog.Record) bool { t.Error("changed"); return true })
		pass(time.Second)
		e.expect("a, a freed", "")
	})
}

// A record is kept while the API server does not accept it, and its cause is logged once.
func TestStore_RetriesUntilWritten(t *testing.T) {
	for about, test := range map[string]struct {
		call string
		err  error
		log  string
	}{
		"no right":          {"get configmaps", apierrors.NewForbidden(configMaps, node, errors.New("no")), "right to get, create and update configmaps in the namespace records"},
		"no namespace":      {"create configmaps", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace), "the namespace records has to exist"},
		"refused by policy": {"create configmaps", apierrors.NewForbidden(configMaps, node, errors.New("ValidatingAdmissionPolicy")), "ValidatingAdmissionPolicy"},
		"overloaded":        {"get configmaps", apierrors.NewTooManyRequests("slow down", 1), "slow down"},
		"no server":         {"get configmaps", errors.New("connection refused"), "connection refused"},
		"always changing":   {"create configmaps", apierrors.NewAlreadyExists(configMaps, node), "let one agent run on a node"},
	} {
		t.Run(about, func(t *testing.T) {
			run(t, "", func(e *env) {
				e.Fail(test.call, test.err)
				e.evict("a")
				pass(time.Hour)
				e.evict("b")
				pass(time.Hour)
				e.expect("", "a, b")
				if n := e.Called(test.call); n < 200 || n > 1200 || e.log.Count("Failed to record") != 1 || e.log.Count(test.log) != 1 {
					t.Errorf("%d attempts in two hours: %s", n, e.log)
				}
				e.Fail(test.call, nil)
				pass(30 * time.Second)
				e.expect("a, b", "")
				if e.log.Count("Resumed recording") != 1 {
					t.Errorf("the recovery is not logged: %s", e.log)
				}
			})
		})
	}
}

// An unreachable server costs bounded memory, and drops are logged.
func TestStore_UnwrittenRecordsAreBounded(t *testing.T) {
	run(t, "", func(e *env) {
		e.Fail("get configmaps", errors.New("connection refused"))
		for i := range evictionlog.MaxRecords + 10 {
			e.evict(fmt.Sprint(i))
			<-time.After(time.Millisecond)
		}
		if n := evictionlog.Parse(e.waiting()).Len(); n != evictionlog.MaxRecords || e.log.Count("Dropped records") != 10 {
			t.Errorf("%d unwritten records: %s", n, e.log)
		}
	})
}

// The next agent continues the object, and writes what the one before could not. What others wrote stays.
func TestStore_ContinuesAfterRestart(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		pass(time.Second)
		changed := e.object()
		changed.Data["other"], changed.Data[store.Key] = "kept", "a line of a later version\n"+changed.Data[store.Key]
		changed.Annotations = map[string]string{"note": "kept"}
		if err := e.Tracker().Update(corev1.SchemeGroupVersion.WithResource("configmaps"), changed, namespace); err != nil {
			t.Fatal(err)
		}
		e.Fail("update configmaps", errors.New("connection refused"))
		e.evict("b")
		pass(time.Minute)
		e.stop()
		e.expect("a, 1 unreadable", "b")

		e.Fail("update configmaps", nil)
		e.start(nil, e.waiting()+"a line of a later version, not written yet\n")
		pass(time.Second)
		e.evict("c")
		pass(10 * time.Second)
		e.expect("a, b, c, 2 unreadable", "")
		m := e.object()
		if m.Data["other"] != "kept" || m.Annotations["note"] != "kept" || len(m.OwnerReferences) != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// The last records are written when the agent ends.
func TestStore_WritesAtEnd(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		e.stop()
		e.expect("a", "")
	})
}

// A write that was served, and whose answer was lost, is repeated without a second record.
func TestStore_LostAnswerWritesOnce(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		pass(time.Second)
		written := e.object()
		e.stop()
		e.start(nil, written.Data[store.Key])
		pass(time.Minute)
		e.expect("a", "")
	})
}

func TestStore_RepeatsAfterConflict(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		pass(time.Second)
		e.Fail("update configmaps", apierrors.NewConflict(configMaps, node, errors.New("changed")))
		e.evict("b")
		pass(10 * time.Second)
		if n := e.Called("update configmaps"); n != 3 {
			t.Errorf("%d attempts, want 3 at once", n)
		}
		e.Fail("update configmaps", nil)
		pass(2 * time.Second)
		e.expect("a, b", "")
		if err := e.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), namespace, node); err != nil {
			t.Fatal(err)
		}
		e.evict("c") // the owner of the records has deleted them
		pass(20 * time.Second)
		e.expect("c", "")
	})
}

// A soft eviction that a hard one of the same pod replaced leaves no record, although it had one already.
func TestStore_WithdrawnEvictionGivesWay(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		first := time.Now()
		pass(time.Second)
		e.expect("a", "")
		e.evict("a")
		e.store.Change("a", func(r *decisionlog.Record) bool {
			if r.Time.After(first) {
				return false
			}
			r.End = evictionlog.Withdrawn
			return true
		})
		pass(10 * time.Second)
		e.expect("a", "")
		if records, _ := evictionlog.Parse(e.object().Data[store.Key]).Records(); !records[0].Time.After(first) {
			t.Error("the withdrawn eviction is recorded, and not the later one")
		}
	})
}

// Without its owner the record would outlive its Node for good.
func TestStore_WaitsForOwner(t *testing.T) {
	run(t, "", func(e *env) {
		e.stop()
		e.start(nil, "")
		e.evict("a")
		pass(time.Minute)
		e.expect("", "a")
		if e.log.Count("its owner, is not known yet") != 1 {
			t.Errorf("%s", e.log)
		}
	})
}

// The node's clock drops no record for its age, however far ahead it is: that of the API server does, as of the write
// before. After two months without one, the first write drops nothing.
func TestStore_AgeIsThatOfLastWrite(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		pass(time.Second)
		pass(2 * evictionlog.MaxAge) // or a clock that was set
		e.evict("b")
		pass(time.Second)
		e.expect("a, b", "")
		e.evict("c")
		pass(10 * time.Second)
		e.expect("b, c", "")
	})
}

// What could not be written is not dropped for its age.
func TestStore_UnwrittenRecordsDoNotExpire(t *testing.T) {
	run(t, "", func(e *env) {
		e.Fail("get configmaps", errors.New("connection refused"))
		e.evict("a")
		pass(2 * evictionlog.MaxAge)
		e.evict("b")
		e.expect("", "a, b")
		e.stop()
		e.start(nil, e.waiting())
		e.expect("", "a, b")
		e.Fail("get configmaps", nil)
	})
}

// Without an owner the record outlives its Node, and none has to be known.
func TestStore_RecordWithoutOwner(t *testing.T) {
	run(t, "", func(e *env) {
		e.stop()
		e.owned = false
		e.start(nil, "")
		e.evict("a")
		pass(time.Second)
		e.expect("a", "")
		if owners := e.object().OwnerReferences; len(owners) != 0 {
			t.Errorf("owners %v", owners)
		}
	})
}

// A record that others filled up is neither read nor replaced.
func TestStore_RefusesHugeRecord(t *testing.T) {
	run(t, "", func(e *env) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}, Data: map[string]string{store.Key: strings.Repeat("{}\n", 300_000)}}
		if err := e.Tracker().Add(m); err != nil {
			t.Fatal(err)
		}
		e.evict("a")
		pass(time.Minute)
		if e.writes() != 0 || e.log.Count("at most 131072 are read: delete it") != 1 {
			t.Errorf("%d writes: %s", e.writes(), e.log)
		}
		if n, _, err := store.Get(t.Context(), apitest.From(e), namespace, node); err != nil || n.Unreadable != 300_000 || len(n.Records) != 0 {
			t.Errorf("%d unreadable, %d records, %v", n.Unreadable, len(n.Records), err)
		}
	})
}

// Nothing is written where it would be at the expense of what this version cannot read.
func TestStore_RefusesToDropUnknownContent(t *testing.T) {
	run(t, "", func(e *env) {
		unknown := strings.Repeat(strings.Repeat("x", 1023)+"\n", 40)
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node}, Data: map[string]string{store.Key: unknown}}
		if err := e.Tracker().Add(m); err != nil {
			t.Fatal(err)
		}
		e.evict("a")
		pass(time.Hour)
		e.expect("40 unreadable", "a")
		if e.writes() != 0 || e.log.Count("delete it, or let a newer agent write it") != 1 {
			t.Errorf("%d writes: %s", e.writes(), e.log)
		}
	})
}

func TestRead_NodesWithRecords(t *testing.T) {
	run(t, "", func(e *env) {
		e.evict("a")
		pass(time.Second)
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "x"}}
		if err := e.Tracker().Add(other); err != nil {
			t.Fatal(err)
		}
		client := apitest.From(e)
		n, found, err := store.Get(t.Context(), client, namespace, node)
		if err != nil || !found || n.Name != node || len(n.Records) != 1 || n.Records[0].Pod != "shop/a" {
			t.Errorf("%+v, %t, %v", n, found, err)
		}
		if _, found, err := store.Get(t.Context(), client, namespace, "another"); found || err != nil {
			t.Errorf("another node: %t, %v", found, err)
		}
		var all []string
		if err := store.Each(t.Context(), client, namespace, func(n store.Node) { all = append(all, n.Name) }); err != nil || !slices.Equal(all, []string{node}) {
			t.Errorf("%q, %v", all, err)
		}
		for call, read := range map[string]func() error{
			"get configmaps":  func() error { _, _, err := store.Get(t.Context(), client, namespace, node); return err },
			"list configmaps": func() error { return store.Each(t.Context(), client, namespace, func(store.Node) {}) },
		} {
			e.Fail(call, apierrors.NewForbidden(configMaps, node, errors.New("no")))
			verb, _, _ := strings.Cut(call, " ")
			if err := read(); err == nil || !strings.Contains(err.Error(), "needs the right to "+verb+" configmaps") {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}
