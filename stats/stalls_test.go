package stats

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/cgroup"
)

// waiting returns the counters of a pod with one container.
func waiting(at time.Duration, waited signals.Measured[time.Duration], pod, app tally) *snapshot {
	return &snapshot{at: noon.Add(at), waited: waited, groups: map[string]tally{"pod": pod, "pod/app": app}}
}

const s = time.Second

var uncounted signals.Measured[time.Duration]

func after(d time.Duration) signals.Measured[time.Duration] { return signals.Of(d) }

// attributions are events of a pod and the resulting stalls.
var attributions = map[string]struct {
	before, now   *snapshot
	want          signals.Stall
	reported, own bool
}{
	"no change": {
		waiting(0, after(5*s), tally{atMax: 7}, tally{}), waiting(10*s, after(5*s), tally{atMax: 7}, tally{}),
		signals.Stall{Waited: after(0), Over: 10 * s}, false, false},
	"wait without own limit": {
		waiting(0, after(5*s), tally{}, tally{}), waiting(10*s, after(8*s), tally{}, tally{}),
		signals.Stall{Waited: after(3 * s), Over: 10 * s}, true, false},
	"wait below the kernel's resolution": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(900*time.Microsecond), tally{}, tally{}),
		signals.Stall{Waited: after(900 * time.Microsecond), Over: 10 * s}, false, false},
	"pod at its limit": {
		waiting(0, after(0), tally{atMax: 7, oom: 1}, tally{}), waiting(10*s, after(s), tally{atMax: 9, oom: 1}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s, AtMax: 2}, true, true},
	"container at its limit, unknown wait": {
		waiting(0, uncounted, tally{}, tally{atMax: 1}), waiting(10*s, uncounted, tally{}, tally{atMax: 5}),
		signals.Stall{Over: 10 * s, AtMax: 4}, true, true},
	"pod above memory.high": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(s), tally{atHigh: 3}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s, AtHigh: 3}, true, true},
	"OOM kill at own limit": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(s), tally{atMax: 4, oom: 1, oomKills: 2}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s, AtMax: 4, OOMKills: 2}, true, true},
	"OOM kill for the node": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(s), tally{oomKills: 1}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s}, true, false},
	"OOM kill after an earlier limit hit": {
		waiting(0, after(0), tally{atMax: 4, oom: 1}, tally{}), waiting(10*s, after(s), tally{atMax: 4, oom: 1}, tally{oomKills: 1}),
		signals.Stall{Waited: after(s), Over: 10 * s}, true, false},
	"uncounted limit hits, OOM kill in a container": {
		waiting(0, uncounted, tally{wasFull: true}, tally{}), waiting(10*s, uncounted, tally{wasFull: true}, tally{oomKills: 1}),
		signals.Stall{Over: 10 * s, AtMax: 1, OOMKills: 1}, true, true},
	"uncounted limit hits, first time full": {
		waiting(0, uncounted, tally{}, tally{}), waiting(10*s, uncounted, tally{}, tally{wasFull: true}),
		signals.Stall{Over: 10 * s, AtMax: 1}, true, true},
	"uncounted limit hits, full in the past": {
		waiting(0, uncounted, tally{}, tally{wasFull: true}), waiting(10*s, uncounted, tally{}, tally{wasFull: true}),
		signals.Stall{Over: 10 * s}, false, false},
	"uncounted limit hits, full now": {
		waiting(0, uncounted, tally{wasFull: true}, tally{}), waiting(10*s, uncounted, tally{wasFull: true, isFull: true}, tally{}),
		signals.Stall{Over: 10 * s, AtMax: 1}, true, true},
	"throttled for longer than the wait": {
		waiting(0, after(0), tally{}, tally{throttled: s}), waiting(10*s, after(s), tally{throttled: s / 2}, tally{throttled: 4 * s}),
		signals.Stall{Waited: after(s), Over: 10 * s, Throttled: 3 * s}, true, true},
	"throttled for less than the wait": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(s), tally{throttled: s / 2}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s}, true, false},
	"throttled without a wait": {
		waiting(0, after(0), tally{}, tally{}), waiting(10*s, after(0), tally{throttled: s}, tally{}),
		signals.Stall{Waited: after(0), Over: 10 * s, Throttled: s}, false, true},
	"recreated pod": {
		waiting(0, after(50*s), tally{atMax: 900, throttled: 99 * s}, tally{}), waiting(10*s, after(s), tally{atMax: 3}, tally{}),
		signals.Stall{Waited: after(s), Over: 10 * s, AtMax: 3}, true, true},
	"first observation": {
		nil, &snapshot{at: noon, waited: after(500 * s), recent: 2 * s, groups: map[string]tally{"pod": {atMax: 900}}},
		signals.Stall{Waited: after(2 * s), Over: 10 * s}, true, false},
	"first observation, unknown wait": {
		nil, &snapshot{at: noon, groups: map[string]tally{"pod": {atMax: 900}}},
		signals.Stall{Over: 10 * s}, false, false},
	"first known wait": {
		waiting(0, uncounted, tally{}, tally{}), waiting(10*s, after(500*s), tally{}, tally{}),
		signals.Stall{Over: 10 * s}, false, false},
}

// TestStalls_AttributesToPodOrNode checks the attribution of stalls to a pod or the node.
func TestStalls_AttributesToPodOrNode(t *testing.T) {
	for name, c := range attributions {
		t.Run(name, func(t *testing.T) {
			got := c.now.since(c.before)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			got.Pod = &signals.Pod{}
			if reported := stalled(&got); reported != c.reported || got.Own() != c.own {
				t.Errorf("got stalled %t, own %t, want %t, %t", reported, got.Own(), c.reported, c.own)
			}
		})
	}
}

// fakeTree is a version 2 tree of plain files.
type fakeTree struct {
	t    *testing.T
	root string
}

func (p fakeTree) set(cgroup string, files map[string]string) {
	p.t.Helper()
	dir := filepath.Join(p.root, cgroup)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a fixture
		p.t.Fatal(err)
	}
	for name, text := range files {
		write(p.t, dir, name, text)
	}
}

func idleFiles() map[string]string {
	return map[string]string{
		"memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n", "memory.events.local": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", "cpu.stat": "usage_usec 5\n",
		"memory.current": "1048576\n", "memory.max": "max\n", "memory.high": "max\n",
	}
}

func newFakeTree(t *testing.T, pods ...string) (fakeTree, *Stalls, []signals.Pod) {
	p := fakeTree{t, t.TempDir()}
	p.set("kubepods", idleFiles())
	var list []signals.Pod
	for _, uid := range pods {
		p.set("kubepods/pod"+uid, idleFiles())
		p.set("kubepods/pod"+uid+"/app", idleFiles())
		list = append(list, signals.Pod{UID: uid, Name: uid})
	}
	return p, OpenStalls(cgroup.At(cgroup.V2, p.root), "/"), list
}

func namesOf(stalls []signals.Stall) (names []string) {
	for i := range stalls {
		names = append(names, stalls[i].Name())
	}
	return names
}

func pressureOf(avg10, total string) map[string]string {
	return map[string]string{"memory.pressure": "some avg10=" + avg10 + " avg60=0.00 avg300=0.00 total=" + total + "\n"}
}

func TestStalls_SortsByShareOfTime(t *testing.T) {
	p, s, pods := newFakeTree(t, "a", "b", "c", "d")
	p.set("kubepods/podb", pressureOf("12.00", "9000000"))
	p.set("kubepods/podc", pressureOf("30.00", "5000000"))
	p.set("kubepods/podd/app", map[string]string{"memory.high": "1050000\n", "memory.max": "2000000\n"})
	first := s.Since(pods, noon)
	if diff := cmp.Diff([]string{"/c", "/b", "/d"}, namesOf(first)); diff != "" {
		t.Fatalf("%s %+v", diff, first)
	}
	if c := first[0]; c.Waited != signals.Of(3*time.Second) || c.Over != 10*time.Second || c.Own() || c.Pod != &pods[2] {
		t.Errorf("%+v", c)
	}
	if d := first[2]; d.AtHigh != 1 || d.AtMax != 0 || d.Limit != 2000000 || !d.Own() {
		t.Errorf("%+v", d)
	}
	p.set("kubepods/podb", pressureOf("12.00", "13000000"))
	p.set("kubepods/podc", pressureOf("0.00", "5000000"))
	p.set("kubepods/poda", pressureOf("0.00", "20000"))
	p.set("kubepods/poda/app", map[string]string{"cpu.stat": "nr_periods 5\nnr_throttled 4\nthrottled_usec 40000\n"})
	later := s.Since(pods, noon.Add(20*time.Second))
	if diff := cmp.Diff([]string{"/b", "/a"}, namesOf(later)); diff != "" {
		t.Fatalf("%s %+v", diff, later)
	}
	if b, a := later[0], later[1]; b.Waited != signals.Of(4*time.Second) || b.Over != 20*time.Second || a.Throttled != 40*time.Millisecond || !a.Own() || b.Own() {
		t.Errorf("%+v", later)
	}
}

// TestStalls_OmitsUnreadablePod checks that an unreadable pod is omitted, and later compared
// with its last counters.
func TestStalls_OmitsUnreadablePod(t *testing.T) {
	for file, broken := range map[string]string{"memory.events": "max 5\n", "cpu.stat": "nr_throttled 1\n", "memory.max": "much\n"} {
		t.Run(file, func(t *testing.T) {
			p, s, pods := newFakeTree(t, "a", "b")
			s.Since(pods, noon)
			p.set("kubepods/poda", pressureOf("0.00", "2000000"))
			p.set("kubepods/podb", pressureOf("0.00", "1000000"))
			complete := idleFiles()[file]
			p.set("kubepods/poda", map[string]string{file: broken})
			if got := s.Since(pods, noon.Add(10*time.Second)); len(got) != 1 || got[0].Name() != "/b" {
				t.Errorf("%+v", got)
			}
			p.set("kubepods/poda", map[string]string{file: complete})
			p.set("kubepods/poda", pressureOf("0.00", "3000000"))
			got := s.Since(pods, noon.Add(20*time.Second))
			if len(got) != 1 || got[0].Name() != "/a" || got[0].Waited.Value < time.Second {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestStalls_ReportsEventsWithoutPressure checks that unreadable pressure is unknown, and
// events are reported all the same.
func TestStalls_ReportsEventsWithoutPressure(t *testing.T) {
	p, s, pods := newFakeTree(t, "a", "b")
	if err := os.Remove(filepath.Join(p.root, "kubepods/poda/memory.pressure")); err != nil {
		t.Fatal(err)
	}
	s.Since(pods, noon)
	p.set("kubepods/poda", map[string]string{"memory.events": "low 0\nhigh 1\nmax 3\noom 1\noom_kill 1\n", "memory.max": "4096\n"})
	got := s.Since(pods, noon.Add(10*time.Second))
	want := []signals.Stall{{Pod: &pods[0], Over: 10 * time.Second, AtHigh: 1, AtMax: 3, OOMKills: 1, Limit: 4096}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStalls_ReportsOwnLimitOfKubepods checks that kubepods is reported for a limit of its own,
// and not for limits or waits of its pods.
func TestStalls_ReportsOwnLimitOfKubepods(t *testing.T) {
	p, s, _ := newFakeTree(t)
	s.Since(nil, noon)
	p.set("kubepods", pressureOf("50.00", "7000000"))
	p.set("kubepods", map[string]string{"memory.events": "low 0\nhigh 9\nmax 9\noom 9\noom_kill 9\n"})
	if got := s.Since(nil, noon.Add(10*time.Second)); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	p.set("kubepods", pressureOf("50.00", "8000000"))
	p.set("kubepods", map[string]string{"memory.events.local": "low 0\nhigh 0\nmax 2\noom 0\noom_kill 0\n"})
	got := s.Since(nil, noon.Add(20*time.Second))
	if len(got) != 1 || got[0].Name() != "/kubepods" || got[0].AtMax != 2 || got[0].Own() || got[0].Waited != signals.Of(time.Second) {
		t.Errorf("%+v", got)
	}
}

// TestStalls_DropsOldCounters checks that old changes are not reported, because they
// explain no current wakeup.
func TestStalls_DropsOldCounters(t *testing.T) {
	p, s, pods := newFakeTree(t, "a")
	s.Since(pods, noon)
	p.set("kubepods/poda", pressureOf("0.00", "2000000"))
	if got := s.Since(pods, noon.Add(maxCounterAge)); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	p.set("kubepods/poda", pressureOf("0.00", "4000000"))
	if got := s.Since(pods, noon.Add(2*maxCounterAge+1)); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
