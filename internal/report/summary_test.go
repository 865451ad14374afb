package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

func TestSummary_Sentences(t *testing.T) {
	a, b := podOf("a", 0), podOf("b", 0)
	for _, tc := range []struct {
		about string
		data  []byte
		want  []string
	}{
		{"a leak", leak(t), []string{
			"The threshold memory.available<100Mi was crossed once, at 12:00:40, for 10s; the least available was 78Mi.",
			"By the agent's checks the condition MemoryPressure was True from 12:00:40 on, for 10s in all.",
			"The agent evicted 1 pod: shop/leaky at 12:00:40.",
			"1 pod ended as evicted without a recorded eviction by this agent, the first at 12:00:51: shop/batch.",
			"The kernel's OOM killer ended 2 processes.",
			"Between 12:00:11 and 12:00:21 it ended 1 process of shop/batch; held most: unknown, grew most before: unknown.",
			"Between 12:00:00 and 12:01:00 it ended 1 process of an unknown pod; held most: unknown, grew most before: unknown."}},
		{"a quiet time", recorded(t, header(), check(0, 2<<30), usage(1, 7, used(a, 5*mib, 0)), check(10, 2<<30), usage(11, 7, used(a, 5*mib, 0))), []string{
			"No recorded check was below a threshold.", "The agent evicted no pod.", "The kernel's OOM killer ended no process."}},
		{"crossed twice, and at the end", recorded(t, header(), check(0, 50*mib), check(10, 99*mib), check(20, 100*mib), check(30, 40*mib)), []string{
			"The threshold memory.available<100Mi was crossed twice, first at 12:00:00, and still at the end; the least available was 40Mi.",
			"Whether the kernel's OOM killer ended processes is not recorded."}},
		{"crossed three times", recorded(t, header(), check(0, 50*mib), check(10, 1<<30), check(20, 90*mib), check(30, 1<<30), check(40, 90*mib), check(45, 1<<30)), []string{
			"The threshold memory.available<100Mi was crossed 3 times, first at 12:00:00 and last until 12:00:45, for 25s in all; the least available was 50Mi."}},
		{"a gap does not end a crossing", recorded(t, header(), check(0, 50*mib), check(100, 60*mib), check(110, 1<<30)), []string{
			"The threshold memory.available<100Mi was crossed once, at 12:00:00, for 10s; the least available was 50Mi.",
			"Parts of this time are not recorded: see what is missing."}},
		{"no configuration", recorded(t, recording.Header{Started: started, Node: "n"}, check(0, 1)), []string{"The thresholds are not known."}},
		{"a dry run, repeated", recorded(t, header(), wouldEvict(t, 0), dry(evicting(check(0, 50*mib), a, candidate(a, mib))), wouldEvict(t, 30), dry(evicting(check(30, 50*mib), a, candidate(a, mib)))), []string{
			"The agent evicted no pod.", "Being disarmed, it would have evicted 1 pod: shop/a at 12:00:00."}},
		{"many evictions", recorded(t, header(), evictions(5)...), []string{
			"The agent evicted 5 pods: shop/p-0 at 12:00:00, shop/p-1 at 12:00:10, shop/p-2 at 12:00:20 and 2 more."}},
		{"more evictions than are listed", recorded(t, header(), evictions(maxEvictions+1)...), []string{
			"The agent evicted 41 pods.", "The first decision was about shop/p-0 at 12:00:00."}},
		{"more dry runs than are listed", recorded(t, header(), dryRuns(maxEvictions+1)...), []string{
			"The agent evicted no pod.", "Being disarmed, it would have evicted in 41 cases.", "The first decision was about shop/p-0 at 12:00:00."}},
		{"a kubelet chooses otherwise", recorded(t, header(), logged(t, 0, keys{"decision": "evict", "pod": "shop/b", "uid": "uid-b", "choice": chosen("shop/a", place(2, b, mib, 0, ""))})), []string{
			"The agent evicted 1 pod: shop/b at 12:00:00.", "A kubelet would have chosen otherwise in 1 case."}},
		{"no eviction", recorded(t, header(), logged(t, 0, keys{"decision": "none-helps", "signal": "nodefs.available"}), logged(t, 1, keys{"decision": "none-helps", "repeated": "measured", "signal": "nodefs.available"}),
			logged(t, 2, keys{"decision": "limited", "limitedBy": "quota"}), logged(t, 3, keys{"decision": "limited", "limitedBy": "quota"}), logged(t, 4, keys{"decision": "failed"})), []string{
			"A threshold was met without an eviction in 4 decisions: no pod would have helped (1), a limit applied (2) and no pod could be ended (1)."}},
		{"explained OOM kills", recorded(t, header(), usage(0, 0, used(a, mib, 0)), usage(10, 3, used(a, mib, 1)),
			logged(t, 5, keys{"decision": "oom-kill", "reason": "why", "pod": "shop/a", "uid": "uid-a", "heldMost": "shop/b", "grewMost": "unknown", "kills": 1}),
			logged(t, 6, keys{"decision": "oom-kill", "reason": "why", "heldMost": "outside of pods", "grewMost": "outside of pods", "kills": 2})), []string{
			"The kernel's OOM killer ended 3 processes.",
			"At 12:00:05 it ended 1 process of shop/a; held most: shop/b, grew most before: unknown.",
			"At 12:00:06 it ended 2 processes outside of pods; held most: outside of pods, grew most before: outside of pods."}},
		{"OOM kills before", recorded(t, header(), usage(0, 5, used(a, mib, 2)), usage(10, 5, used(a, mib, 2), used(b, mib, 1))), []string{"The kernel's OOM killer ended no process."}},
		{"another boot", append(recorded(t, header(), usage(0, 1, used(a, mib, 1))), recorded(t, rebooted(), usage(100, 3, used(a, mib, 2)))...), []string{"The kernel's OOM killer ended no process."}},
		{"a gap in a condition", recorded(t, header(), under(check(0, 1<<30)), under(check(100, 1<<30)), under(check(110, 1<<30))), []string{
			"By the agent's checks the condition MemoryPressure was True from 12:00:00 on, for 10s in all."}},
		{"another configuration", reloaded(t), []string{
			"The threshold memory.available<100Mi was crossed once, at 12:00:10, for 10s; the least available was 90Mi.",
			"The threshold memory.available<300Mi was crossed once, at 12:00:30, and still at the end; the least available was 200Mi.",
			"The configuration of the agent changed once, first at 12:00:30: the table of thresholds has the time of each."}},
		{"another day", recorded(t, header(), check(0, 50*mib), check(10, 1<<30), check(13*3600, 1<<30)), []string{
			"The threshold memory.available<100Mi was crossed once, at 2026-03-01 12:00:00, for 10s; the least available was 50Mi."}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			i := read(t, tc.data, Options{})
			if missing := missingIn(i.summary(), tc.want...); len(missing) > 0 {
				t.Errorf("got\n%s\nwithout\n%s", plain(strings.Join(i.summary(), "\n")), strings.Join(missing, "\n"))
			}
			for _, sentence := range i.summary() {
				if n := len(strings.Fields(sentence)); n > 30 {
					t.Errorf("%d words: %s", n, plain(sentence))
				}
			}
		})
	}
}

// reloaded is a recording of a run whose threshold of memory was raised after 25 s.
func reloaded(tb testing.TB) []byte {
	h := header()
	data := recorded(tb, h, check(0, 1<<30), check(10, 90*mib), check(20, 95*mib))
	h.Segment, h.Config = 2, json.RawMessage(strings.Replace(configuration, "100Mi", "300Mi", 1))
	data = append(data, recorded(tb, h, check(30, 200*mib), check(40, 250*mib))...)
	h.Segment++
	return append(data, recorded(tb, h, check(50, 250*mib))...)
}

// Each threshold is that of its time, in the table and in the picture.
func TestThresholds_AreThoseOfTheirTime(t *testing.T) {
	i := read(t, reloaded(t), Options{})
	want := []string{"memory.available | memory.available<100Mi | 12:00:00 to 12:00:20 | once | 10s | 90Mi | 4Gi", "memory.available | memory.available<300Mi | 12:00:30 to 12:00:50 | once | 20s | 90Mi | 4Gi"}
	if got := cellsOf(i.signalTable()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for n, want := range [][]level{{{0, 20 * time.Second, 100 * mib}}, {{30 * time.Second, 50 * time.Second, 300 * mib}}} {
		if got := i.histories[signals.MemoryAvailable].crossings[n].levels; !slices.Equal(got, want) {
			t.Errorf("threshold %d: %v, want %v", n, got, want)
		}
	}
	for begin, want := range map[float64]int{0: 1, 25: 1, 35: 0} {
		if n := read(t, reloaded(t), Options{Begin: at(begin)}).changes.count(); n != want {
			t.Errorf("from %.0f s on: %d changes of the configuration, want %d", begin, n, want)
		}
	}
	if text := string(i.SVG()); strings.Count(text, `class="limit"`) != 2 {
		t.Error("the picture has not both thresholds")
	}
}

// rebooted is the header of a run after a boot.
func rebooted() recording.Header {
	h := header()
	h.Segment, h.BootID, h.Started, h.SinceBoot = 2, "next", at(100), time.Minute
	return h
}

func dry(c *recording.Check) *recording.Check {
	c.Act.Evicted.DryRun = true
	return c
}

func wouldEvict(tb testing.TB, seconds float64) *recording.Decision {
	return logged(tb, seconds, keys{"decision": "would-evict", "signal": "memory.available", "pod": "shop/a", "uid": "uid-a"})
}

// evictions are checks that evict one pod each.
func evictions(n int) (values []any) {
	for k := range n {
		p := podOf(numbered("p", k), 0)
		values = append(values, evicting(check(float64(10*k), 50*mib), p, candidate(p, mib)))
	}
	return values
}

func dryRuns(n int) (values []any) {
	for _, v := range evictions(n) {
		values = append(values, dry(v.(*recording.Check)))
	}
	return values
}

// An agent that evicted a pod before the time of the report has evicted it, and no other program.
func TestRead_OwnEvictionBeforeBegin(t *testing.T) {
	a := podOf("a", 0)
	gone := usage(20, 0)
	gone.Gone = []recording.Gone{{Pod: a, End: recording.EndEvicted}}
	data := recorded(t, header(), evicting(check(0, 50*mib), a, candidate(a, mib)), check(10, 1<<30), usage(11, 0, used(a, mib, 0)), gone)
	if n := read(t, data, Options{Begin: at(5)}).departures.count(); n != 0 {
		t.Errorf("%d pods are counted as evicted by another program", n)
	}
}

func TestRead_SelectsTime(t *testing.T) {
	data := leak(t)
	for _, tc := range []struct {
		o                 Options
		begin, end        float64
		checks, evictions int
	}{
		{Options{}, 0, 60, 8, 1},
		{Options{Begin: at(30)}, 30, 60, 5, 1},
		{Options{End: at(30)}, 0, 30, 4, 0},
		{Options{Begin: at(40), End: at(40)}, 40, 40, 1, 1},
		{Options{Begin: at(-1000), End: at(1000)}, 0, 60, 8, 1},
	} {
		i := read(t, data, tc.o)
		if !i.begin.Equal(at(tc.begin)) || !i.end.Equal(at(tc.end)) || i.periodic.count+i.early.count != tc.checks || i.evictions.count() != tc.evictions {
			t.Errorf("%+v: from %s to %s, %d checks, %d evictions", tc.o, i.begin, i.end, i.periodic.count+i.early.count, i.evictions.count())
		}
		forms(t, i)
	}
	if _, err := Read(data, Options{Begin: at(100)}); !errors.Is(err, ErrNothing) {
		t.Errorf("behind the end: %v", err)
	}
	if _, err := Read([]byte("none"), Options{}); !errors.Is(err, recording.ErrNoRecording) {
		t.Errorf("no recording: %v", err)
	}
}

// What a recording does not have is stated.
func TestMissing_IsStated(t *testing.T) {
	a := podOf("a", 0)
	other := header()
	other.Segment, other.Version, other.SinceBoot, other.Started = 2, "1.3.0", 2*time.Hour, at(200)
	lost, cut, stepped, blind := check(10, 1<<30), check(10, 1<<30), check(10, 1<<30), check(10, 1<<30)
	lost.Lost, cut.Cut, stepped.Clock = 4, true, -time.Hour
	blind.Snapshot.Node[signals.PIDAvailable] = signals.Unknown("no such file")
	blind.Unknown.Add(signals.PIDAvailable)
	unread := used(a, recording.Unknown, 0)
	torn := recorded(t, header(), check(0, 1<<30), check(10, 1<<30))
	for _, tc := range []struct {
		about string
		data  []byte
		o     Options
		want  []string
	}{
		{"no check", recorded(t, header(), usage(0, 0)), Options{}, []string{"No check is recorded."}},
		{"no usage", recorded(t, header(), check(0, 1<<30)), Options{}, []string{"The memory of pods is not recorded.", "OOM kills of the kernel are not counted in the recording."}},
		{"a gap", recorded(t, header(), check(0, 1<<30), check(31, 1<<30), check(63, 1<<30)), Options{}, []string{"No check is recorded between 12:00:31 and 12:01:03 (32s)."}},
		{"two runs", append(recorded(t, header(), check(0, 1<<30)), recorded(t, other, check(200, 1<<30))...), Options{}, []string{"Another run of an agent begins at 12:03:20. The last value before it is of 12:00:00."}},
		{"lost", recorded(t, header(), check(0, 1<<30), lost), Options{}, []string{"4 checks or decisions before 12:00:10 were not recorded: the disk was full or too slow."}},
		{"cut", recorded(t, header(), check(0, 1<<30), cut), Options{}, []string{"Checks without a part of their pods: 1. These have more containers and volumes than a recording stores."}},
		{"a step of the clock", recorded(t, header(), check(0, 1<<30), stepped), Options{}, []string{"The time of day was set by -1h0m0s before 11:00:10. Times before and after that do not follow each other."}},
		{"unknown signal", recorded(t, header(), check(0, 1<<30), blind), Options{}, []string{"pid.available was unknown in 1 check, first because: no such file."}},
		{"unread memory", recorded(t, header(), usage(0, 0, unread)), Options{}, []string{"Values of the memory of pods that could not be read: 1. They are missing in the picture and its table."}},
		{"no configuration", recorded(t, recording.Header{Version: "1", Started: started}, check(0, 1<<30)), Options{}, nil},
		{"later", recorded(t, header(), check(60, 1<<30)), Options{Begin: started}, []string{"The first recorded value is of 2026-03-01 12:01:00 UTC; the report was requested from 2026-03-01 12:00:00 UTC on."}},
		{"earlier", recorded(t, header(), check(0, 1<<30)), Options{End: at(60)}, []string{"The last recorded value is of 2026-03-01 12:00:00 UTC; the report was requested until 2026-03-01 12:01:00 UTC."}},
		{"a form of the future", recorded(t, header(), check(0, 1<<30), logged(t, 1, keys{"decision": 7})), Options{}, []string{"Decisions in a form that this version cannot read: 1."}},
		{"a torn frame", torn[:len(torn)-3], Options{}, nil},
	} {
		i := read(t, tc.data, tc.o)
		list := i.missing().List
		if missing := missingIn(list, tc.want...); len(missing) > 0 || len(list) == 0 {
			t.Errorf("%s: got\n%s\nwithout\n%s", tc.about, plain(strings.Join(list, "\n")), strings.Join(missing, "\n"))
		}
		if tc.about == "no configuration" && !strings.Contains(strings.Join(list, ""), "cannot be read, so that its thresholds are unknown") {
			t.Errorf("%s: %q", tc.about, list)
		}
		if tc.about == "a torn frame" && !strings.Contains(strings.Join(list, ""), "not readable") {
			t.Errorf("%s: %q", tc.about, list)
		}
	}
	if i := read(t, recorded(t, header(), check(0, 1<<30), usage(1, 0, used(a, mib, 0)), check(10, 1<<30)), Options{}); len(i.missing().List) > 0 {
		t.Errorf("nothing is missing: %q", i.missing().List)
	}
}

func TestAmounts_AreRoundedDown(t *testing.T) {
	for n, want := range map[signals.Amount]string{999: "999 processes", 1500: "1.5k processes", 32768: "32k processes"} {
		if got := amount(n, signals.UnitPIDs); got != want {
			t.Errorf("%d PIDs: %s, want %s", n, got, want)
		}
	}
}

// Lists keep their ends, and count the rest.
func TestEnds_KeepFirstAndLast(t *testing.T) {
	for n := range 20 {
		e := ends[int]{limit: 5}
		for k := range n {
			e.add(k)
		}
		items, gap := e.all()
		want := make([]int, 0, n)
		for k := range n {
			if k < 2 || k >= n-3 {
				want = append(want, k)
			}
		}
		if !slices.Equal(items, want) || e.count() != n || e.omitted != max(n-5, 0) || gap != min(n, 2) {
			t.Errorf("%d items: %v, gap %d, %d left out", n, items, gap, e.omitted)
		}
		if last := e.latest(); n > 0 && *last != n-1 || n == 0 && last != nil {
			t.Errorf("%d items: the last one is %s", n, fmt.Sprint(last))
		}
	}
}
