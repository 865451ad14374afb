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

// story passes events to the watch in order. want is the time of the missed heartbeat
// afterwards.
type story struct {
	name string
	tell func(w *Watch)
	want time.Time // silent at this time, and not a nanosecond before
}

var stories = []story{
	{"a node that renews nothing after its registration", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
	}, at(40)},
	{"a node that never reports has the startup grace", func(w *Watch) {
		w.See(absent(), at(0))
	}, at(60)},
	{"a lease alone keeps it alive", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(0), at(0))
		w.Renewed("a", at(30), at(30))
	}, at(70)},
	{"a lease keeps one alive that never reports", func(w *Watch) {
		w.See(absent(), at(0))
		w.Renewed("a", at(0), at(0))
		w.Renewed("a", at(30), at(31))
	}, at(91)},
	{"status alone keeps it alive", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.See(node(model.True, at(35), at(0)), at(36))
	}, at(76)},
	{"a renewal counts when it is seen, whatever the node's clock says", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(-7200), at(1))
		w.Renewed("a", at(-7190), at(30))
	}, at(70)},
	{"a clock that is put back is a sign of life", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(20), at(20))
		w.Renewed("a", at(-3600), at(30))
	}, at(70)},
	{"the same lease once more is none", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(10), at(10))
		w.Renewed("a", at(10), at(30))
	}, at(50)},
	{"nor is the same status, with other labels", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		n := node(model.True, at(0), at(0))
		n.Labels.Zone = "z"
		w.See(n, at(30))
	}, at(40)},
	{"nor that its lease was deleted", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(0), at(0))
		w.Unleased("a", at(30))
	}, at(40)},
	{"a node that reports a fault is alive", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.See(node(model.False, at(0), at(30)), at(30))
	}, at(70)},
	{"a first report is a sign of life, and shortens the grace", func(w *Watch) {
		w.See(absent(), at(0))
		w.See(node(model.True, at(5), at(5)), at(5))
	}, at(45)},
	{"a report that vanishes is none, and the startup grace counts again", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.See(absent(), at(30))
	}, at(60)},
	{"that somebody writes Unknown is none, over True", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.See(node(model.Unknown, at(0), at(30)), at(30))
	}, at(40)},
	{"that a node says so itself is one", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		n := node(model.Unknown, at(0), at(30))
		n.Conditions[model.Ready].Reason = "KubeletSaysSo"
		w.See(n, at(30))
	}, at(70)},
	{"and no silence that is old news", func(w *Watch) {
		n := node(model.Unknown, at(0), at(0))
		n.Conditions[model.Ready].Reason = "KubeletSaysSo"
		w.See(n, at(5))
	}, at(40)},
	{"nor where nothing was reported, but the grace is shorter", func(w *Watch) {
		w.See(absent(), at(0))
		w.See(node(model.Unknown, at(0), at(30)), at(30))
	}, at(40)},
	{"taking over, the last renewal counts", func(w *Watch) {
		w.Renewed("a", at(50), at(60))
		w.See(node(model.True, at(0), at(0)), at(60))
	}, at(90)},
	{"taking over, node first", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(60))
		w.Renewed("a", at(50), at(60))
	}, at(90)},
	{"taking over, what looks expired has an interval to show itself", func(w *Watch) {
		w.Renewed("a", at(0), at(300))
		w.See(node(model.True, at(0), at(0)), at(300))
	}, at(310)},
	{"taking over, one renewal was enough", func(w *Watch) {
		w.Renewed("a", at(0), at(300))
		w.See(node(model.True, at(0), at(0)), at(300))
		w.Renewed("a", at(10), at(309))
	}, at(349)},
	{"what is written down as later than now was now", func(w *Watch) {
		w.Renewed("a", at(9000), at(300))
		w.See(node(model.True, at(9000), at(0)), at(300))
	}, at(340)},
	{"an outage gives time to everybody who is not silent", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.NotBefore(at(100))
		w.NotBefore(at(90))
	}, at(100)},
	{"another node under the name inherits nothing", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		n := absent()
		n.UID, n.Created = "2", at(30)
		w.See(n, at(30))
	}, at(90)},
	{"nor after it was deleted, lease and all", func(w *Watch) {
		w.See(node(model.True, at(0), at(0)), at(0))
		w.Renewed("a", at(20), at(20))
		w.Forget("a")
		w.See(absent(), at(25))
	}, at(60)},
	{"a lease that went before the node came does not count", func(w *Watch) {
		w.Renewed("a", at(50), at(60))
		w.Unleased("a", at(61))
		w.See(node(model.True, at(30), at(0)), at(62))
	}, at(72)},
}

func TestSilentAtTheMomentAndNotBefore(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			w := New(policy)
			s.tell(w)
			if next, ok := w.Next(); !ok || next.After(s.want) {
				t.Errorf("waits until %v, %v", next.Sub(start), ok)
			}
			if got := w.Silent(s.want.Add(-1)); len(got) != 0 || w.IsSilent("a") {
				t.Errorf("silent before %v: %v", s.want.Sub(start), got)
			}
			if next, ok := w.Next(); !ok || !next.Equal(s.want) {
				t.Errorf("waits until %v, %v instead of %v", next.Sub(start), ok, s.want.Sub(start))
			}
			if got := w.Silent(s.want); !slices.Equal(got, []string{"a"}) || !w.IsSilent("a") {
				t.Errorf("not silent at %v: %v", s.want.Sub(start), got)
			}
			if got := w.Silent(s.want.Add(time.Hour)); len(got) != 0 {
				t.Errorf("told twice: %v", got)
			}
		})
	}
}

func TestSilenceThatTheAPIKnowsOf(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(w *Watch)
		lifts bool
	}{
		{"stays when a lease is seen for the first time", func(w *Watch) { w.Renewed("a", at(295), at(300)) }, false},
		{"stays through an outage", func(w *Watch) { w.NotBefore(at(400)) }, false},
		{"stays when somebody writes Unknown again", func(w *Watch) { w.See(node(model.Unknown, at(0), at(300)), at(300)) }, false},
		{"ends with a renewal", func(w *Watch) {
			w.Renewed("a", at(295), at(300))
			w.Renewed("a", at(300), at(300))
		}, true},
		{"ends when the node reports", func(w *Watch) { w.See(node(model.True, at(300), at(300)), at(300)) }, true},
		{"ends when the node reports a fault", func(w *Watch) { w.See(node(model.False, at(0), at(300)), at(300)) }, true},
		{"ends with another heartbeat", func(w *Watch) { w.See(node(model.Unknown, at(300), at(40)), at(300)) }, true},
		{"ends with the node", func(w *Watch) { w.Forget("a") }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(policy)
			w.See(node(model.Unknown, at(0), at(40)), at(300))
			if !w.IsSilent("a") {
				t.Error("not silent at first sight")
			}
			c.after(w)
			if got := w.Silent(at(300)); (len(got) == 0) != c.lifts || w.IsSilent("a") == c.lifts {
				t.Errorf("silent: %v, %v", got, w.IsSilent("a"))
			}
		})
	}
}

func TestHeardAgainIsSilentAgain(t *testing.T) {
	w := New(policy)
	w.See(node(model.True, at(0), at(0)), at(0))
	w.Renewed("a", at(0), at(0))
	if got := w.Silent(at(40)); len(got) != 1 {
		t.Fatalf("silent: %v", got)
	}
	w.Renewed("a", at(45), at(45))
	if w.IsSilent("a") {
		t.Error("silent though it was heard")
	}
	if last, ok := w.Last("a"); !ok || !last.Equal(at(45)) {
		t.Errorf("heard last at %v, %v", last, ok)
	}
	if got := w.Silent(at(85)); !slices.Equal(got, []string{"a"}) {
		t.Errorf("not told again: %v", got)
	}
}

func TestAFreshFirstLeaseEndsSilence(t *testing.T) {
	w := New(policy)
	w.See(absent(), at(0))
	if got := w.Silent(at(60)); len(got) != 1 {
		t.Fatalf("silent: %v", got)
	}
	w.Renewed("a", at(-20), at(61))
	if !w.IsSilent("a") {
		t.Error("an old lease ended the silence")
	}
	w.Unleased("a", at(62))
	w.Renewed("a", at(63), at(63))
	if w.IsSilent("a") {
		t.Error("a new lease did not end the silence")
	}
	if got := w.Silent(at(123)); len(got) != 1 {
		t.Errorf("not silent again: %v", got)
	}
}

func TestToldInOrderOfNames(t *testing.T) {
	w := New(policy)
	for i, name := range []string{"c", "a", "b"} {
		n := absent()
		n.Name = name
		w.See(n, at(i))
	}
	if got := w.Silent(at(100)); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("told: %v", got)
	}
}

func TestNothingIsKeptOfWhoIsGone(t *testing.T) {
	w := New(policy)
	w.See(absent(), at(0))
	w.Renewed("a", at(0), at(0))
	w.Forget("a")
	w.Renewed("a", at(1), at(1)) // its kubelet still runs
	if _, ok := w.Last("a"); ok || w.IsSilent("a") {
		t.Error("a lease without a node makes a node")
	}
	w.Unleased("a", at(2))
	w.Unleased("b", at(2))
	if len(w.signs) != 0 || w.due.Len() != 0 {
		t.Errorf("left: %d names, %d moments", len(w.signs), w.due.Len())
	}
	if _, ok := w.Next(); ok {
		t.Error("waits for nobody")
	}
}

// TestWakesAboutOnceASecond checks that deadlines are updated ahead of time: a thousand living
// nodes must not cause a thousand wake-ups per grace period.
func TestWakesAboutOnceASecond(t *testing.T) {
	const nodes, seconds = 1000, 400
	w := New(policy)
	names := make([]string, nodes)
	for i := range nodes {
		n := node(model.True, at(0), at(0))
		n.Name = "n" + time.Duration(i).String()
		names[i] = n.Name
		w.See(n, start.Add(time.Duration(i)*10*time.Millisecond))
		w.Renewed(n.Name, at(0), at(0).Add(time.Duration(i)*10*time.Millisecond))
	}
	now, wakes := at(10), 0
	for i := 0; now.Before(at(seconds)); i++ {
		now = now.Add(10 * time.Millisecond)
		w.Renewed(names[i%nodes], now, now)
		if next, _ := w.Next(); !next.After(now) {
			wakes++
			if got := w.Silent(now); len(got) != 0 {
				t.Fatalf("silent: %v", got)
			}
		}
	}
	if wakes < 10 || wakes > 2*seconds {
		t.Errorf("woke %d times in %d s", wakes, seconds)
	}
}
