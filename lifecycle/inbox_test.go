package lifecycle

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestInbox_BatchesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInbox()
		begun := time.Now()
		for i := range 1000 {
			m.renewed(false, fmt.Sprint("n", i%10), begun.Add(time.Duration(i)))
		}
		select {
		case <-m.some:
			t.Fatal("a renewal caused an immediate wakeup")
		default:
		}
		<-m.some
		if late := time.Since(begun); late != renewalDelay {
			t.Errorf("got the wakeup after %s, want %s", late, renewalDelay)
		}
		p := m.collect()
		if len(p.nodes) != 1000 || p.nodes[999].name != "n9" || !p.nodes[999].at.Equal(begun.Add(999)) || len(p.agents) != 0 {
			t.Errorf("unexpected batch: %v", p)
		}
		m.renewed(true, "n3", time.Time{})
		<-m.some
		if p := m.collect(); len(p.nodes) != 0 || len(p.agents) != 1 {
			t.Errorf("unexpected second batch: %v", p)
		}
	})
}

func TestInbox_StoresArrivalTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Hour)
		m := newInbox()
		begun := time.Now()
		for i := range 3 {
			<-time.After(300 * time.Millisecond)
			m.renewed(i%2 == 0, "n", begun)
		}
		p := m.collect()
		for i, r := range []renewal{p.agents[0], p.nodes[0], p.agents[1]} {
			if after := m.timeOf(r.received).Sub(begun); after != time.Duration(i+1)*300*time.Millisecond {
				t.Errorf("renewal %d: got arrival after %s", i, after)
			}
		}
	})
}

func TestInbox_BoundsUncollectedRenewals(t *testing.T) {
	const leases, rounds = 1000, 1000
	m := newInbox()
	begun := time.Now()
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for round := range rounds {
		for _, name := range names {
			m.renewed(false, name, begun.Add(time.Duration(round)))
		}
	}
	p := m.collect()
	if len(p.nodes) > 2*maxRenewals || cap(p.nodes) > 4*maxRenewals {
		t.Errorf("%d leases: got %d stored renewals with capacity %d", leases, len(p.nodes), cap(p.nodes))
	}
	last := map[string]time.Time{}
	for _, r := range p.nodes {
		if r.at.Before(last[r.name]) {
			t.Fatalf("renewals of %s are out of order", r.name)
		}
		last[r.name] = r.at
	}
	for _, name := range names {
		if !last[name].Equal(begun.Add(rounds - 1)) {
			t.Fatalf("the last renewal of %s is lost", name)
		}
	}
}

func TestInbox_EventsWakeAtOnceInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInbox()
		m.renewed(false, "n", time.Now())
		for i := range 100 {
			m.put(podGone(fmt.Sprint(i)))
		}
		begun := time.Now()
		<-m.some
		if time.Since(begun) != 0 {
			t.Error("the event was delayed")
		}
		p := m.collect()
		for i, l := range p.events {
			if l != podGone(fmt.Sprint(i)) {
				t.Fatalf("event %d: got %v", i, l)
			}
		}
		if len(p.nodes) != 1 {
			t.Error("the renewal was not collected with the events")
		}
		<-time.After(2 * renewalDelay)
		select {
		case <-m.some:
			t.Error("the collected renewal caused another wakeup")
		default:
		}
		m.put(listed{})
		if p := m.collect(); len(p.events) != 1 || len(p.nodes) != 0 {
			t.Errorf("got collected events again: %v", p)
		}
	})
}

func BenchmarkRenewals(b *testing.B) {
	names := make([]string, 150_000)
	for i := range names {
		names[i] = fmt.Sprint("node-", i)
	}
	m := newInbox()
	now := time.Now()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.renewed(false, names[i%len(names)], now)
		if i%(len(names)/10) == 0 { // number of arrivals within renewalDelay
			m.collect()
		}
	}
}
