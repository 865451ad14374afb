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
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"plimsoll.dev/plimsoll/internal/evictionlog"
	"plimsoll.dev/plimsoll/internal/evictionlog/store"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/test/harness/logcapture"
)

// cleaner is an expiry before a fake API server with one Node, in a bubble of virtual time.
type cleaner struct {
	*apitest.Fake
	t     *testing.T
	log   logcapture.Book
	known map[string]bool
	leads atomic.Bool
	// resigns: it leads no longer once a record was deleted.
	resigns atomic.Bool
}

// runExpiry runs an expiry that knows the Node, and leads.
func runExpiry(t *testing.T, test func(*cleaner)) {
	synctest.Test(t, func(t *testing.T) {
		c := &cleaner{Fake: apitest.NewFake(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}), t: t, known: map[string]bool{node: true}}
		c.leads.Store(true)
		x := &store.Expiry{Client: apitest.From(c), Namespace: namespace, Leads: func() bool { return c.leads.Load() && !(c.resigns.Load() && c.Called("delete configmaps") > 0) },
			Nodes: func(context.Context) (map[string]bool, error) { return c.known, nil }, Log: c.log.Logger()}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { x.Run(ctx); close(done) }()
		test(c)
		cancel()
		<-done
	})
}

// write creates the record of a node at the present time, or a ConfigMap without a record.
func (c *cleaner) write(name, key string) {
	c.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-the-record"}, Data: map[string]string{key: "{}"}}
	if _, err := c.CoreV1().ConfigMaps(namespace).Create(c.t.Context(), m, metav1.CreateOptions{FieldManager: "test"}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cleaner) names() (names []string) {
	list, err := c.CoreV1().ConfigMaps(namespace).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (c *cleaner) expect(about string, names ...string) {
	c.t.Helper()
	if got := c.names(); !slices.Equal(got, names) {
		c.t.Errorf("%s: %q are left, want %q\n%s", about, got, names, &c.log)
	}
}

// searches is longer than the time between two searches.
const searches = 7 * time.Hour

func TestExpiry_DeletesOldRecordsOfNodesThatAreGone(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		c.write(node, store.Key)
		c.write("kube-root-ca.crt", "ca.crt")
		pass(evictionlog.MaxAge - searches)
		c.write("gone-later", store.Key)
		pass(searches)
		c.expect("before its time", "gone", "gone-later", "kube-root-ca.crt", node)
		pass(time.Minute)
		c.write("writes", store.Key)
		pass(searches)
		c.expect("after its time", "gone-later", "kube-root-ca.crt", node, "writes")
		if c.log.Count("Deleted records of evictions") != 1 || c.log.Count("Failed") != 0 {
			t.Errorf("%s", &c.log)
		}
	})
}

// The record is deleted as it was listed, so that one that is written again stays.
func TestExpiry_DeletionHasPreconditions(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		pass(2 * evictionlog.MaxAge)
		c.write("writes", store.Key)
		pass(searches)
		deletions := 0
		for _, a := range c.Actions() {
			d, is := a.(clienttesting.DeleteActionImpl)
			if !is {
				continue
			}
			deletions++
			if p := d.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != "uid-of-the-record" || p.ResourceVersion == nil {
				t.Errorf("%s is deleted with %+v", d.Name, d.DeleteOptions)
			}
		}
		if deletions != 1 {
			t.Errorf("%d deletions", deletions)
		}
	})
}

// No clock alone deletes: not that of this machine, nor one that a record has.
func TestExpiry_NeedsTwoClocks(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		pass(10 * evictionlog.MaxAge) // or a clock that is ahead
		c.expect("nothing was written since", "gone")
	})
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		c.add("thief", time.Now().AddDate(80, 0, 0))
		pass(searches)
		c.expect("a record of the future", "gone", "thief")
	})
}

// The list of nodes that are known may be behind: each Node is read before its record is deleted.
func TestExpiry_ReadsNodeFirst(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.known = map[string]bool{}
		c.write(node, store.Key)
		pass(2 * evictionlog.MaxAge)
		c.write("writes", store.Key)
		pass(searches)
		c.expect("the node exists", node, "writes")
		for _, err := range []error{errors.New("connection refused"), apierrors.NewForbidden(corev1.Resource("nodes"), node, errors.New("no"))} {
			c.Fail("get nodes", err)
			pass(searches)
			c.expect(err.Error(), node, "writes")
		}
	})
}

// add adds the record of a node that was created at a time.
func (c *cleaner) add(name string, created time.Time, finalizers ...string) {
	c.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(created), Finalizers: finalizers}, Data: map[string]string{store.Key: ""}}
	if len(finalizers) > 0 {
		m.DeletionTimestamp = &m.CreationTimestamp
	}
	if err := c.Tracker().Add(m); err != nil {
		c.t.Fatal(err)
	}
}

func TestExpiry_BoundsRecordsOfNodesThatAreGone(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.leads.Store(false)
		for i := range 1003 {
			c.add(fmt.Sprintf("gone-%04d", i), time.Now().Add(time.Duration(i)*time.Second))
		}
		pass(searches)
		if n := len(c.names()); n != 1003 {
			t.Errorf("%d records are left without leadership", n)
		}
		c.leads.Store(true)
		pass(searches)
		if names := c.names(); len(names) != 1000 || names[0] != "gone-0003" {
			t.Errorf("%d records are left, the oldest is %s", len(names), names[0])
		}
	})
}

func TestExpiry_RetriesAndNamesMissingRight(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		pass(2 * evictionlog.MaxAge)
		c.write("writes", store.Key)
		for _, call := range []string{"list configmaps", "delete configmaps"} {
			c.Fail(call, apierrors.NewForbidden(configMaps, "gone", errors.New("no")))
			pass(searches)
			c.Fail("list configmaps", nil)
			c.expect(call, "gone", "writes")
			if text := c.log.String(); c.log.Count("Failed to delete records") != 1 || !strings.Contains(text, "the right to list and delete configmaps") {
				t.Errorf("%s: %s", call, text)
			}
		}
		c.Fail("delete configmaps", nil)
		pass(time.Hour)
		c.expect("it works again", "writes")
	})
}

// Without the admission policy a stolen token creates any record, of any time. Those of the future do not displace true
// ones, nor do those that a finalizer holds, which are not deleted again either.
func TestExpiry_ForgedRecordsDisplaceNone(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.write("gone", store.Key)
		for i := range 1000 {
			c.add(fmt.Sprintf("thief-%d", i), time.Now().AddDate(80, 0, i))
			c.add(fmt.Sprintf("held-%d", i), time.Now(), "thief/holds")
		}
		pass(searches)
		if names := c.names(); len(names) != 2000 || names[0] != "gone" {
			t.Errorf("%d records are left, the first is %s", len(names), names[0])
		}
		if n := c.Called("delete configmaps"); n != 1 {
			t.Errorf("%d deletions", n)
		}
	})
}

// The memory of the controller does not depend on the size of what others wrote, which is up to 1 MiB each.
func TestExpiry_PagesAreSmall(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		pass(searches)
		pages := 0
		for _, a := range c.Actions() {
			if l, is := a.(clienttesting.ListActionImpl); is {
				if pages++; l.ListOptions.Limit < 1 || l.ListOptions.Limit > 20 {
					t.Errorf("a page of %d", l.ListOptions.Limit)
				}
			}
		}
		if pages == 0 {
			t.Error("nothing was listed")
		}
	})
}

// A record that cannot be deleted preserves no other one, and many of them cost few requests.
func TestExpiry_ContinuesAfterFailure(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		c.PrependReactor("delete", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
			protected := strings.HasPrefix(a.(clienttesting.DeleteAction).GetName(), "protected")
			return protected, nil, map[bool]error{true: errors.New("denied by a webhook")}[protected]
		})
		c.write("protected", store.Key)
		pass(time.Minute)
		c.write("gone", store.Key)
		pass(2 * evictionlog.MaxAge)
		c.write("writes", store.Key)
		pass(searches)
		c.expect("behind a protected one", "protected", "writes")
		if c.log.Count("denied by a webhook") != 1 {
			t.Errorf("%s", &c.log)
		}
	})
}

// A process that no longer leads deletes nothing more.
func TestExpiry_StopsWithoutLeadership(t *testing.T) {
	runExpiry(t, func(c *cleaner) {
		for i := range 100 {
			c.write(fmt.Sprint("gone-", i), store.Key)
		}
		c.resigns.Store(true)
		pass(2 * evictionlog.MaxAge)
		c.write("writes", store.Key)
		pass(searches)
		if n := len(c.names()); n != 100 {
			t.Errorf("%d records are left, want all but one", n)
		}
	})
}
