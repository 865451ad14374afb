package lifecycle

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/kube/api"
)

// cable is the connection of one replica to the server, which can be cut.
type cable struct {
	*server
	cut atomic.Bool
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return hanging(r)
	}
	return c.server.RoundTrip(r)
}

// replica is one of several controllers of a rig.
type replica struct {
	*Controller
	cable  *cable
	cancel context.CancelFunc
	done   chan struct{}
}

func (r *rig) replica(identity string) *replica {
	r.t.Helper()
	one := &replica{cable: &cable{server: r.server}, done: make(chan struct{})}
	client, err := api.New(testConfig(), &http.Client{Transport: one.cable})
	if err != nil {
		r.t.Fatal(err)
	}
	electing, err := api.New(testConfig(), &http.Client{Transport: one.cable, Timeout: 5 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	settings, parts := r.settings, r.parts()
	settings.Election.Enabled, settings.Election.Identity = true, identity
	parts.Watching, parts.Writing, parts.Electing = client, client, electing
	one.Controller = New(settings, r.policy, parts)
	var ctx context.Context
	ctx, one.cancel = context.WithCancel(r.t.Context())
	go func() {
		defer close(one.done)
		one.Run(ctx)
	}()
	r.t.Cleanup(func() { one.cancel(); <-one.done })
	synctest.Wait()
	return one
}

func TestAStandbyTakesOver(t *testing.T) {
	for name, lose := range map[string]func(*replica){
		"when the leader ends":    func(one *replica) { one.cancel(); <-one.done },
		"when the leader is lost": func(one *replica) { one.cable.cut.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web", tolerating(60))
				r.beat(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				first := r.replica("first")
				r.until(5 * time.Second)
				second := r.replica("second")
				r.until(60 * time.Second)
				if !first.Leads() || second.Leads() || second.Ready() != nil {
					t.Fatalf("the first leads: %v, the second: %v, ready: %v", first.Leads(), second.Leads(), second.Ready())
				}
				before := r.live("a")
				lose(first)
				r.until(90 * time.Second)
				if !second.Leads() || first.Leads() {
					t.Fatalf("30 s later the first leads: %v, the second: %v", first.Leads(), second.Leads())
				}
				if after := r.live("a"); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("the new leader wrote to a node that was as it should be: %+v", after)
				}
				r.until(110*time.Second - 100*time.Millisecond)
				if r.livePod("web") == nil {
					t.Error("a pod is gone too early")
				}
				r.until(111 * time.Second)
				if r.livePod("web") != nil {
					t.Error("a pod stays longer than without the change")
				}
				if got := r.lines("evict"); strings.Count(got, "\n") != 1 {
					t.Errorf("evicted:\n%s", got)
				}
			})
		})
	}
}

func TestALostLeaderGoesOnAsAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.node("a")
		r.node("b")
		r.beat(t.Context(), corev1.NamespaceNodeLease, "a", "b")
		first := r.replica("first")
		r.until(5 * time.Second)
		second := r.replica("second")
		first.cable.cut.Store(true)
		r.until(35 * time.Second)
		if first.Leads() || !second.Leads() {
			t.Fatalf("the first leads: %v, the second: %v", first.Leads(), second.Leads())
		}
		first.cable.cut.Store(false)
		r.until(5 * time.Minute)
		if first.Live() != nil || first.Ready() != nil {
			t.Errorf("it is not ready as a standby: %v", first.Ready())
		}
		second.cancel()
		<-second.done
		r.until(5*time.Minute + 20*time.Second)
		if !first.Leads() {
			t.Error("it does not lead again")
		}
		if got := r.lines("mark-unknown", "taint"); got != "" {
			t.Errorf("all nodes are well, and there was:\n%s", got)
		}
	})
}

func TestWhenTheFormerLeaderWasAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := New(withElections(r.settings), r.policy, r.parts()).lock
		if err := l.read(t.Context()); err != nil || !l.before().IsZero() {
			t.Errorf("nobody has led, and the former leader was there at %s (%v)", l.before(), err)
		}
		if l.holds(time.Now()) {
			t.Error("it leads from the start")
		}
		r.renew(system, "plimsoll-controller")
		r.until(time.Hour)
		if err := l.read(t.Context()); err != nil || !l.before().Equal(r.begun) {
			t.Errorf("it was there at %s (%v), not at %s", l.before(), err, r.begun)
		}
	})
}

func withElections(s Settings) Settings {
	s.Election.Enabled = true
	return s
}
