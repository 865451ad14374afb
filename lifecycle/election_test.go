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

// transport is the connection of one replica to the server, which can be cut.
type transport struct {
	*server
	cut atomic.Bool
}

func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut.Load() {
		return hanging(r)
	}
	return c.server.RoundTrip(r)
}

// replica is one of several controllers of an env.
type replica struct {
	*Controller
	transport *transport
	cancel    context.CancelFunc
	done      chan struct{}
}

func (r *env) replica(identity string) *replica {
	r.t.Helper()
	one := &replica{transport: &transport{server: r.server}, done: make(chan struct{})}
	client, err := api.New(testConfig(), &http.Client{Transport: one.transport})
	if err != nil {
		r.t.Fatal(err)
	}
	electing, err := api.New(testConfig(), &http.Client{Transport: one.transport, Timeout: 5 * time.Second})
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

func TestElection_StandbyTakesOver(t *testing.T) {
	for name, disconnect := range map[string]func(*replica){
		"leader stopped":      func(one *replica) { one.cancel(); <-one.done },
		"leader disconnected": func(one *replica) { one.transport.cut.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newEnv(t)
				for _, name := range []string{"a", "b", "c"} {
					r.node(name)
				}
				r.pod("a", "web", tolerating(60))
				r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "b", "c")
				first := r.replica("first")
				r.until(5 * time.Second)
				second := r.replica("second")
				r.until(60 * time.Second)
				if !first.Leads() || second.Leads() || second.Ready() != nil {
					t.Fatalf("the first leads: %v, the second: %v, ready: %v", first.Leads(), second.Leads(), second.Ready())
				}
				before := r.live("a")
				disconnect(first)
				r.until(90 * time.Second)
				if !second.Leads() || first.Leads() {
					t.Fatalf("30 s later the first leads: %v, the second leads: %v", first.Leads(), second.Leads())
				}
				if after := r.live("a"); after.ResourceVersion != before.ResourceVersion {
					t.Errorf("the new leader wrote to an up-to-date node: %+v", after)
				}
				r.until(110*time.Second - 100*time.Millisecond)
				if r.livePod("web") == nil {
					t.Error("the pod was deleted before its time")
				}
				r.until(111 * time.Second)
				if r.livePod("web") != nil {
					t.Error("the takeover delayed the deletion of the pod")
				}
				if got := r.lines("evict"); strings.Count(got, "\n") != 1 {
					t.Errorf("got decisions, want one evict:\n%s", got)
				}
			})
		})
	}
}

func TestElection_LostLeaderBecomesStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		r.node("a")
		r.node("b")
		r.renewEvery10s(t.Context(), corev1.NamespaceNodeLease, "a", "b")
		first := r.replica("first")
		r.until(5 * time.Second)
		second := r.replica("second")
		first.transport.cut.Store(true)
		r.until(35 * time.Second)
		if first.Leads() || !second.Leads() {
			t.Fatalf("the first leads: %v, the second leads: %v", first.Leads(), second.Leads())
		}
		first.transport.cut.Store(false)
		r.until(5 * time.Minute)
		if first.Live() != nil || first.Ready() != nil {
			t.Errorf("the standby is not ready: %v", first.Ready())
		}
		second.cancel()
		<-second.done
		r.until(5*time.Minute + 20*time.Second)
		if !first.Leads() {
			t.Error("the first replica does not lead again")
		}
		if got := r.lines("mark-unknown", "taint"); got != "" {
			t.Errorf("got decisions about healthy nodes:\n%s", got)
		}
	})
}

func TestLock_ReportsFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t)
		l := New(withElections(r.settings), r.policy, r.parts()).lock
		if err := l.read(t.Context()); err != nil || !l.before().IsZero() {
			t.Errorf("got a former leader at %s, %v, want none", l.before(), err)
		}
		if l.holds(time.Now()) {
			t.Error("the lock is held from the start")
		}
		r.renew(system, "plimsoll-controller")
		r.until(time.Hour)
		if err := l.read(t.Context()); err != nil || !l.before().Equal(r.begun) {
			t.Errorf("got a former leader at %s, %v, want %s", l.before(), err, r.begun)
		}
	})
}

func withElections(s Settings) Settings {
	s.Election.Enabled = true
	return s
}
