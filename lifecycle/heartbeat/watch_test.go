package heartbeat

import (
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/model"
)

var (
	policy = Policy{Grace: 40 * time.Second, StartupGrace: 60 * time.Second, Renewal: 10 * time.Second}
	start  = time.Unix(1_700_000_000, 0)
	never  time.Time
)

// at returns n seconds after the start.
func at(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// node returns the node a, created at 0, with this status, heartbeat and transition of Ready.
func node(status model.Status, heartbeat, transition time.Time) *model.Node {
	n := &model.Node{Name: "a", UID: "1", Created: at(0)}
	n.Conditions[model.Ready] = model.Condition{Status: status, Heartbeat: heartbeat, Transition: transition}
	if status == model.Unknown {
		n.Conditions[model.Ready].Reason = model.ReasonStatusUnknown
	}
	return n
}

func absent() *model.Node { return node(model.Absent, never, never) }

// scenario is a sequence of events, and the time at which the node is silent after them.
type scenario struct {
	name   string
	events func(w *Watch)
	want   time.Time // silent at this time, and not a nanosecond before
}

var scenarios = []scenario{
	{"no renewal after registration", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
	}, at(40)},
	{"no report: startup grace", func(w *Watch) {
		w.Node(absent(), at(0))
	}, at(60)},
	{"renewed lease, no status", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(0), at(0))
		w.Renewed("a", at(30), at(30))
	}, at(70)},
	{"renewed lease, never a report", func(w *Watch) {
		w.Node(absent(), at(0))
		w.Renewed("a", at(0), at(0))
		w.Renewed("a", at(30), at(31))
	}, at(91)},
	{"status, no lease", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Node(node(model.True, at(35), at(0)), at(36))
	}, at(76)},
	{"renewal by a slow clock", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(-7200), at(1))
		w.Renewed("a", at(-7190), at(30))
	}, at(70)},
	{"clock set back", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(20), at(20))
		w.Renewed("a", at(-3600), at(30))
	}, at(70)},
	{"unchanged lease", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(10), at(10))
		w.Renewed("a", at(10), at(30))
	}, at(50)},
	{"unchanged status, other labels", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		n := node(model.True, at(0), at(0))
		n.Labels.Zone = "z"
		w.Node(n, at(30))
	}, at(40)},
	{"deleted lease", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(0), at(0))
		w.Unleased("a", at(30))
	}, at(40)},
	{"reported fault", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Node(node(model.False, at(0), at(30)), at(30))
	}, at(70)},
	{"first report: shorter grace", func(w *Watch) {
		w.Node(absent(), at(0))
		w.Node(node(model.True, at(5), at(5)), at(5))
	}, at(45)},
	{"removed report: startup grace", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Node(absent(), at(30))
	}, at(60)},
	{"Unknown written by the controller", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Node(node(model.Unknown, at(0), at(30)), at(30))
	}, at(40)},
	{"Unknown reported by the node", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		n := node(model.Unknown, at(0), at(30))
		n.Conditions[model.Ready].Reason = "KubeletSaysSo"
		w.Node(n, at(30))
	}, at(70)},
	{"Unknown reported by the node, first observation", func(w *Watch) {
		n := node(model.Unknown, at(0), at(0))
		n.Conditions[model.Ready].Reason = "KubeletSaysSo"
		w.Node(n, at(5))
	}, at(40)},
	{"Unknown written without a report: shorter grace", func(w *Watch) {
		w.Node(absent(), at(0))
		w.Node(node(model.Unknown, at(0), at(30)), at(30))
	}, at(40)},
	{"takeover, lease first", func(w *Watch) {
		w.Renewed("a", at(50), at(60))
		w.Node(node(model.True, at(0), at(0)), at(60))
	}, at(90)},
	{"takeover, node first", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(60))
		w.Renewed("a", at(50), at(60))
	}, at(90)},
	{"takeover, expired lease: one renewal interval", func(w *Watch) {
		w.Renewed("a", at(0), at(300))
		w.Node(node(model.True, at(0), at(0)), at(300))
	}, at(310)},
	{"takeover, expired lease renewed", func(w *Watch) {
		w.Renewed("a", at(0), at(300))
		w.Node(node(model.True, at(0), at(0)), at(300))
		w.Renewed("a", at(10), at(309))
	}, at(349)},
	{"times in the future", func(w *Watch) {
		w.Renewed("a", at(9000), at(300))
		w.Node(node(model.True, at(9000), at(0)), at(300))
	}, at(340)},
	{"outage", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.NotBefore(at(100))
		w.NotBefore(at(90))
	}, at(100)},
	{"another node of the same name", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		n := absent()
		n.UID, n.Created = "2", at(30)
		w.Node(n, at(30))
	}, at(90)},
	{"node recreated after Forget", func(w *Watch) {
		w.Node(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(20), at(20))
		w.Forget("a")
		w.Node(absent(), at(25))
	}, at(60)},
	{"lease deleted before the first observation", func(w *Watch) {
		w.Renewed("a", at(50), at(60))
		w.Unleased("a", at(61))
		w.Node(node(model.True, at(30), at(0)), at(62))
	}, at(72)},
}

func TestSilent_ReturnsNodeExactlyAtDeadline(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			w := New(policy)
			s.events(w)
			if next, ok := w.Next(); !ok || next.After(s.want) {
				t.Errorf("next: got %v, %v, want at most %v", next.Sub(start), ok, s.want.Sub(start))
			}
			if got := w.Expired(s.want.Add(-1)); len(got) != 0 || w.IsExpired("a") {
				t.Errorf("silent before %v: %v", s.want.Sub(start), got)
			}
			if next, ok := w.Next(); !ok || !next.Equal(s.want) {
				t.Errorf("next: got %v, %v, want %v", next.Sub(start), ok, s.want.Sub(start))
			}
			if got := w.Expired(s.want); !slices.Equal(got, []string{"a"}) || !w.IsExpired("a") {
				t.Errorf("not silent at %v: %v", s.want.Sub(start), got)
			}
			if got := w.Expired(s.want.Add(time.Hour)); len(got) != 0 {
				t.Errorf("returned twice: %v", got)
			}
		})
	}
}

func TestSilent_UnknownAtFirstObservation(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(w *Watch)
		ends  bool
	}{
		{"first lease", func(w *Watch) { w.Renewed("a", at(295), at(300)) }, false},
		{"outage", func(w *Watch) { w.NotBefore(at(400)) }, false},
		{"Unknown written again", func(w *Watch) { w.Node(node(model.Unknown, at(0), at(300)), at(300)) }, false},
		{"renewal", func(w *Watch) {
			w.Renewed("a", at(295), at(300))
			w.Renewed("a", at(300), at(300))
		}, true},
		{"report", func(w *Watch) { w.Node(node(model.True, at(300), at(300)), at(300)) }, true},
		{"reported fault", func(w *Watch) { w.Node(node(model.False, at(0), at(300)), at(300)) }, true},
		{"new heartbeat, still Unknown", func(w *Watch) { w.Node(node(model.Unknown, at(300), at(40)), at(300)) }, true},
		{"deleted node", func(w *Watch) { w.Forget("a") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(policy)
			w.Node(node(model.Unknown, at(0), at(40)), at(300))
			if !w.IsExpired("a") {
				t.Error("not silent at its first observation")
			}
			c.after(w)
			if got := w.Expired(at(300)); (len(got) == 0) != c.ends || w.IsExpired("a") == c.ends {
				t.Errorf("silent: got %v, %v, want %v", got, w.IsExpired("a"), !c.ends)
			}
		})
	}
}

func TestSilent_ReturnsNodeAgainAfterRenewal(t *testing.T) {
	w := New(policy)
	w.Node(node(model.True, at(0), at(0)), at(0))
	w.Renewed("a", at(0), at(0))
	if got := w.Expired(at(40)); len(got) != 1 {
		t.Fatalf("silent: got %v, want a", got)
	}
	w.Renewed("a", at(45), at(45))
	if w.IsExpired("a") {
		t.Error("silent after a renewal")
	}
	if last, ok := w.Last("a"); !ok || !last.Equal(at(45)) {
		t.Errorf("last sign of life: got %v, %v, want %v", last, ok, at(45))
	}
	if got := w.Expired(at(85)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("silent again: got %v, want a", got)
	}
}

func TestRenewed_FreshFirstLeaseEndsSilence(t *testing.T) {
	w := New(policy)
	w.Node(absent(), at(0))
	if got := w.Expired(at(60)); len(got) != 1 {
		t.Fatalf("silent: got %v, want a", got)
	}
	w.Renewed("a", at(-20), at(61))
	if !w.IsExpired("a") {
		t.Error("an old lease ended the silence")
	}
	w.Unleased("a", at(62))
	w.Renewed("a", at(63), at(63))
	if w.IsExpired("a") {
		t.Error("a new lease did not end the silence")
	}
	if got := w.Expired(at(123)); len(got) != 1 {
		t.Errorf("silent again: got %v, want a", got)
	}
}

func TestSilent_SortsByName(t *testing.T) {
	w := New(policy)
	for i, name := range []string{"c", "a", "b"} {
		n := absent()
		n.Name = name
		w.Node(n, at(i))
	}
	if got := w.Expired(at(100)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("silent: got %v, want a, b, c", got)
	}
}

func TestWatch_ReleasesStateOfDeletedNode(t *testing.T) {
	w := New(policy)
	w.Node(absent(), at(0))
	w.Renewed("a", at(0), at(0))
	w.Forget("a")
	w.Renewed("a", at(1), at(1)) // its kubelet still runs
	if _, ok := w.Last("a"); ok || w.IsExpired("a") {
		t.Error("a lease without a node created a node")
	}
	w.Unleased("a", at(2))
	w.Unleased("b", at(2))
	if len(w.signs) != 0 || w.due.Len() != 0 {
		t.Errorf("%d names and %d deadlines are left", len(w.signs), w.due.Len())
	}
	if _, ok := w.Next(); ok {
		t.Error("Next returned a deadline without nodes")
	}
}

// TestNext_WakesAboutOncePerSecond checks that deadlines are updated ahead of time: a thousand
// living nodes must not cause a thousand wake-ups per grace period.
func TestNext_WakesAboutOncePerSecond(t *testing.T) {
	const nodes, seconds = 1000, 400
	w := New(policy)
	names := make([]string, nodes)
	for i := range nodes {
		n := node(model.True, at(0), at(0))
		n.Name = "n" + time.Duration(i).String()
		names[i] = n.Name
		w.Node(n, start.Add(time.Duration(i)*10*time.Millisecond))
		w.Renewed(n.Name, at(0), at(0).Add(time.Duration(i)*10*time.Millisecond))
	}
	now, wakes := at(10), 0
	for i := 0; now.Before(at(seconds)); i++ {
		now = now.Add(10 * time.Millisecond)
		w.Renewed(names[i%nodes], now, now)
		if next, _ := w.Next(); !next.After(now) {
			wakes++
			if got := w.Expired(now); len(got) != 0 {
				t.Fatalf("silent: %v", got)
			}
		}
	}
	if wakes < 10 || wakes > 2*seconds {
		t.Errorf("got %d wakeups in %d s, want 10 to %d", wakes, seconds, 2*seconds)
	}
}

func TestSetPolicy_CountsFromLastSign(t *testing.T) {
	longer, shorter := Policy{Grace: 100 * time.Second, StartupGrace: 100 * time.Second, Renewal: 10 * time.Second}, Policy{Grace: 20 * time.Second, StartupGrace: 20 * time.Second, Renewal: 10 * time.Second}
	for _, tc := range []struct {
		about   string
		node    *model.Node
		expired bool // reported before the change, at 60
		policy  Policy
		revived bool
		want    time.Time // silent at this time
	}{
		{"longer", node(model.True, at(0), at(0)), false, longer, false, at(100)},
		{"shorter", node(model.True, at(0), at(0)), false, shorter, false, at(20)},
		{"longer, silent", node(model.True, at(0), at(0)), true, longer, true, at(100)},
		{"shorter, silent", node(model.True, at(0), at(0)), true, shorter, false, never},
		{"without a report", absent(), false, shorter, false, at(20)},
		{"Unknown in the API", node(model.Unknown, at(0), at(0)), true, longer, false, never},
		{"equal, silent", node(model.True, at(0), at(0)), true, policy, false, never},
	} {
		w := New(policy)
		w.Node(tc.node, at(0))
		now := at(10)
		if tc.expired {
			now = at(60)
			if got := w.Expired(now); !slices.Equal(got, []string{"a"}) {
				t.Fatalf("%s: expired %v", tc.about, got)
			}
		}
		if got := len(w.SetPolicy(tc.policy, now)) == 1; got != tc.revived || w.IsExpired("a") == got && tc.expired {
			t.Errorf("%s: revived %t, want %t", tc.about, got, tc.revived)
		}
		if tc.want.IsZero() {
			if got := w.Expired(at(1000)); got != nil {
				t.Errorf("%s: reported again", tc.about)
			}
			continue
		}
		if got := w.Expired(tc.want.Add(-1)); got != nil {
			t.Errorf("%s: silent before %s", tc.about, tc.want.Sub(start))
		}
		if got := w.Expired(tc.want); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: not silent at %s", tc.about, tc.want.Sub(start))
		}
	}
}
