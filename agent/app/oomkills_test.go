package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll.dev/plimsoll/agent"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/kmsg"
	"plimsoll.dev/plimsoll/internal/kube/api/apitest"
	"plimsoll.dev/plimsoll/internal/metrics"
	"plimsoll.dev/plimsoll/internal/nodestatus"
	"plimsoll.dev/plimsoll/internal/oomkill"
)

// A logSource is a kernel's log: records, one after the other, and waits.
type logSource struct {
	script []any // a string is a record, a duration a wait, an error is returned
	next   uint64
	began  time.Time
	late   lateness
}

// lateness is the time by which the following records of a script are read late.
type lateness time.Duration

func (s *logSource) Next(deadline time.Time) ([]byte, error) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	for len(s.script) > 0 {
		switch one := s.script[0].(type) {
		case time.Duration:
			if end := time.Now().Add(one); !deadline.IsZero() && deadline.Before(end) {
				s.script[0] = end.Sub(deadline)
				<-time.After(time.Until(deadline))
				return nil, os.ErrDeadlineExceeded
			}
			<-time.After(one)
		case error:
			s.script = s.script[1:]
			return nil, one
		case lateness:
			s.late = one
		case string:
			s.script = s.script[1:]
			s.next++
			return fmt.Appendf(nil, "6,%d,%d,-;%s\n", s.next, (time.Since(s.began) - time.Duration(s.late)).Microseconds(), one), nil
		}
		s.script = s.script[1:]
	}
	return nil, os.ErrClosed
}

const inKubepods = "/kubepods/pod"

// oomLines are the kernel's lines about a kill at the limit of a cgroup.
func oomLines(limit, task string, pid, anonKiB int) []any {
	return []any{
		"leak invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
		"memory: usage 65536kB, limit 65536kB, failcnt 96",
		fmt.Sprintf("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=%s,task_memcg=%s,task=leak,pid=%d,uid=0", limit, task, pid),
		killedLine(pid, anonKiB),
	}
}

func killedLine(pid, anonKiB int) string {
	return fmt.Sprintf("Memory cgroup out of memory: Killed process %d (leak) total-vm:1350604kB, anon-rss:%dkB, file-rss:1916kB, shmem-rss:0kB, UID:0 pgtables:216kB oom_score_adj:0", pid, anonKiB)
}

var killedPods = []signals.Pod{
	{UID: "a", Namespace: "shop", Name: "cart", FromAPI: true, Containers: []signals.Container{{Name: "app", ID: "a1"}}},
	{UID: "b", Namespace: "shop", Name: "db", FromAPI: true, Containers: []signals.Container{{Name: "main", ID: "b1"}}},
}

// watched runs a watcher over a log, and returns the lines of the decision log and the metrics.
func watched(t *testing.T, after map[string]signals.Bytes, script ...any) (lines []agent.OOMKill, w *oomWatcher, served string) {
	t.Helper()
	var out bytes.Buffer
	log := decisionlog.NewLines(&out)
	m := metrics.New(metrics.Settings{LinesDropped: log.Lost, OOMLimits: oomkill.LevelNames()})
	reports := newOOMReports(log, m, func() bool { return true })
	w = &oomWatcher{
		node: func() oomkill.Node { return oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: killedPods} },
		read: func() signals.Holdings {
			h, total := signals.Holdings{At: time.Now(), Complete: true}, signals.Bytes(0)
			for uid, held := range after {
				h.Pods = append(h.Pods, signals.PodHoldings{UID: uid, Path: inKubepods + uid, Held: signals.Of(held)})
				total += held
			}
			h.Totals = []signals.CgroupHoldings{{Path: "/kubepods", Held: signals.Of(total)}}
			return h
		},
		report: reports.report, history: &heldHistory{},
	}
	end, noted := make(chan struct{}), make(chan struct{})
	go func() { // readings of the loop
		defer close(noted)
		tick := time.NewTicker(time.Second / 4)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				reading := w.read()
				w.history.use(func(h *oomkill.History) { h.Note(&reading) })
			}
		}
	}()
	err := w.watch(&logSource{script: script})
	close(end)
	<-noted
	if !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	log.Close()
	for line := range strings.Lines(out.String()) {
		var one agent.OOMKill
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, one)
	}
	return lines, w, scraped(m)
}

// short returns a line in a short form.
func short(l agent.OOMKill) string {
	return fmt.Sprintf("%s %s %s/%s %s: %s, %s x%d", l.Decision, l.LimitOf, l.Pod, l.Container, l.Process, l.HeldMost, l.GrewMost, l.Kills)
}

func TestOOMWatcher_ReportsKills(t *testing.T) {
	const a, b = inKubepods + "a/a1", inKubepods + "b/b1"
	with := func(all ...any) (script []any) {
		script = []any{"booted", time.Minute}
		for _, one := range all {
			if several, is := one.([]any); is {
				script = append(script, several...)
			} else {
				script = append(script, one)
			}
		}
		return append(script, time.Second)
	}
	for name, c := range map[string]struct {
		script []any
		want   []string
		seen   uint64
	}{
		"container": {with(oomLines(a, a, 7, 60_000)), []string{"oom-kill container shop/cart/app leak: shop/cart/app, shop/cart/app x1"}, 1},
		"all pods":  {with(oomLines("/kubepods", b, 7, 1000)), []string{"oom-kill pods shop/db/main leak: shop/cart, unknown x1"}, 1},
		"all pods, beside a kill anywhere": {with(killedLine(9, 1000), time.Second, oomLines("/kubepods", b, 7, 1000)),
			[]string{"oom-kill unknown unknown/ leak: unknown, unknown x1", "oom-kill pods shop/db/main leak: unknown, unknown x1"}, 2},
		"all pods, before a kill anywhere": {with(oomLines("/kubepods", b, 7, 1000), 100*time.Millisecond, killedLine(9, 1000)),
			[]string{"oom-kill pods shop/db/main leak: shop/cart, unknown x1", "oom-kill unknown unknown/ leak: unknown, unknown x1"}, 2},
		"all pods, and a kill anywhere until the reading, after the report about an earlier one": {with(oomLines(a, a, 6, 60_000), 199*time.Millisecond, oomLines("/kubepods", b, 7, 1000), 5*time.Millisecond, killedLine(9, 1000)),
			[]string{"oom-kill container shop/cart/app leak: shop/cart/app, shop/cart/app x1", "oom-kill pods shop/db/main leak: unknown, unknown x1", "oom-kill unknown unknown/ leak: unknown, unknown x1"}, 3},
		"all pods, read late":     {with(lateness(300*time.Millisecond), oomLines("/kubepods", b, 7, 1000)), []string{"oom-kill pods shop/db/main leak: unknown, unknown x1"}, 1},
		"all pods, before a loss": {with(oomLines("/kubepods", b, 7, 1000), kmsg.ErrLost), []string{"oom-kill pods shop/db/main leak: unknown, unknown x1"}, 1},
		"all pods, after a loss":  {with(kmsg.ErrLost, time.Minute, "noted", time.Second, oomLines("/kubepods", b, 7, 1000)), []string{"oom-kill pods shop/db/main leak: unknown, unknown x1"}, 1},
		"memory.oom.group": {with(oomLines(a, a, 7, 60_000), "Tasks in "+a+" are going to be killed due to memory.oom.group set",
			killedLine(7, 60_000), killedLine(8, 1000), time.Millisecond, killedLine(9, 1000)), []string{"oom-kill container shop/cart/app leak: shop/cart/app, shop/cart/app x3"}, 4},
		"two kills at once": {with(oomLines(a, a, 7, 60_000), oomLines(b, b, 8, 60_000)), []string{"oom-kill container shop/cart/app leak: shop/cart/app, shop/cart/app x1",
			"oom-kill container shop/db/main leak: shop/db/main, shop/db/main x1"}, 2},
		"after a loss":    {with(oomLines(a, a, 7, 60_000)[:3], kmsg.ErrLost, killedLine(7, 60_000)), []string{"oom-kill unknown unknown/ leak: unknown, unknown x1"}, 1},
		"outside of pods": {with(oomLines("/system.slice/cron", "/system.slice/cron", 7, 60_000)), []string{"oom-kill unknown / leak: unknown, unknown x1"}, 0},
		"in a cgroup with unprintable characters": {with(oomLines(a+`/\xe2\x80\xae`, a+`/\xe2\x80\xae/\xc2\x9b31m`, 7, 60_000)),
			[]string{"oom-kill unknown shop/cart/app leak: unknown, unknown x1"}, 1},
		"of another node": {with(oomLines("/docker/1/kubepods/podx", "/docker/1/kubepods/podx/y", 7, 60_000)), nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			lines, w, _ := watched(t, map[string]signals.Bytes{"a": 50 << 20, "b": 2 << 20}, c.script...)
			var got []string
			for _, l := range lines {
				got = append(got, short(l))
				if l.Cgroup != signals.Printable(l.Cgroup) || l.LimitCgroup != signals.Printable(l.LimitCgroup) {
					t.Errorf("%s: unprintable characters in %q, %q", name, l.Cgroup, l.LimitCgroup)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if w.seen.Load() != c.seen {
				t.Errorf("%s: %d kills seen, want %d", name, w.seen.Load(), c.seen)
			}
		})
	}
}

// TestOOMWatcher_ReportsPromptly checks that a kill is reported without a further record, and that a
// storm of kills does not delay its first reports.
func TestOOMWatcher_ReportsPromptly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a = inKubepods + "a/a1"
		script := oomLines(a, a, 7, 60_000)
		for i := range 40 { // a kill every 10 ms
			script = append(script, 10*time.Millisecond)
			script = append(script, oomLines(a, a, 8+i, 60_000)...)
		}
		began := time.Now()
		script = append(script, time.Hour)
		lines, w, served := watched(t, nil, script...)
		if len(lines) != 41 || !lines[0].Time.Equal(began) || len(w.pending) != 0 {
			t.Errorf("%d lines", len(lines))
		}
		if want := `plimsoll_oom_kills_total{limit="container"} 41`; !strings.Contains(served, want+"\n") {
			t.Errorf("%s is not served", want)
		}
		if want := `plimsoll_oom_kills_total{limit="node"} 0`; !strings.Contains(served, want+"\n") {
			t.Errorf("%s is not served", want)
		}
	})
}

// TestOOMWatcher_UsesReadings checks that what the loop measured before a kill explains it.
func TestOOMWatcher_UsesReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a = inKubepods + "a/a1"
		w := &oomWatcher{history: &heldHistory{}, node: func() oomkill.Node { return oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: killedPods} }}
		held := func(a, b signals.Bytes) signals.Holdings {
			return signals.Holdings{At: time.Now(), Complete: true, Totals: []signals.CgroupHoldings{{Path: "/kubepods", Held: signals.Of(a + b)}}, Pods: []signals.PodHoldings{
				{UID: "a", Path: inKubepods + "a", Held: signals.Of(a)}, {UID: "b", Path: inKubepods + "b", Held: signals.Of(b)}}}
		}
		for i := range 8 {
			w.history.use(func(h *oomkill.History) { r := held(4<<20, signals.Bytes(8+5*i)<<20); h.Note(&r) })
			<-time.After(time.Second)
		}
		w.read = func() signals.Holdings { return held(0, 60<<20) }
		var got []string
		w.report = func(r *oomkill.Report, kills int, _ time.Time) {
			got = append(got, fmt.Sprintf("%s, %s %s x%d", r.HeldMost.Key(), r.GrewMost.Key(), r.Window, kills))
		}
		_ = w.watch(&logSource{script: append(oomLines("/kubepods", a, 7, 4000), time.Second)})
		if len(got) != 1 || got[0] != "shop/db, shop/db 8s x1" {
			t.Error(got)
		}
	})
}

// TestOOMWatcher_BoundsReadings checks that a pod that is killed without end causes a tenth of the time to be
// spent on readings, and that a kill is reported at the end of the log.
func TestOOMWatcher_BoundsReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, reports := 0, 0
		w := &oomWatcher{history: &heldHistory{}, node: func() oomkill.Node { return oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: killedPods} },
			read: func() signals.Holdings {
				readings++
				<-time.After(20 * time.Millisecond)
				return signals.Holdings{At: time.Now()}
			},
			report: func(*oomkill.Report, int, time.Time) { reports++ }}
		var script []any
		for i := range 1000 {
			script = append(script, oomLines(inKubepods+"a", inKubepods+"a/a1", 1+i, 4000)...)
			script = append(script, 10*time.Millisecond)
		}
		_ = w.watch(&logSource{script: script})
		if readings < 40 || readings > 60 || reports != 1000 {
			t.Errorf("%d readings, %d reports", readings, reports)
		}
	})
}

func TestHeldHistory_NeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none *heldHistory
		none.note(nil, nil, time.Now())
		h := &heldHistory{}
		h.use(func(*oomkill.History) { h.note(nil, nil, time.Now()) }) // the loop drops its reading
		h.note(nil, nil, time.Now().Add(-oomkill.MaxReadingTime-1))
		if got := h.history.Before(time.Now().Add(time.Second)); len(got) != 0 {
			t.Errorf("a reading that was dropped, or took too long: %+v", got)
		}
		h.note(nil, nil, time.Now().Add(-oomkill.MaxReadingTime))
		if got := h.history.Before(time.Now().Add(time.Second)); len(got) != 1 {
			t.Errorf("%d readings", len(got))
		}
	})
}

func TestLostKills_Missing(t *testing.T) {
	var l lostKills
	for i, c := range []struct{ counted, seen, want uint64 }{
		{10, 5, 0},  // kills before the start
		{10, 5, 0},  //
		{12, 7, 0},  // both show two
		{13, 7, 0},  // the line may follow
		{13, 7, 1},  // it did not
		{13, 7, 0},  // returned once
		{13, 9, 0},  // kills of others
		{20, 9, 0},  //
		{20, 10, 4}, // 7 counted, 3 seen since 13
		{3, 10, 0},  // another cgroup
		{4, 10, 0},  //
		{4, 10, 1},  //
	} {
		if got := l.missing(c.counted, c.seen); got != c.want {
			t.Errorf("call %d: %d missing, want %d", i, got, c.want)
		}
	}
}

// TestOOMReports_WritesEvents checks that only an armed agent writes an event, about a pod of the API server
// and without the name of a pod of another namespace, and that kills count that follow at once.
func TestOOMReports_WritesEvents(t *testing.T) {
	cart, file := killedPods[0], killedPods[1]
	file.FromAPI = false
	foreign := signals.Pod{UID: "c", Namespace: "other", Name: "batch"}
	for name, c := range map[string]struct {
		armed bool
		pod   *signals.Pod
		want  []string
	}{
		"armed": {true, &cart, []string{
			"shop cart a: A process of container app was OOM-killed at the memory limit of all pods of the node; a pod of another namespace held most of it x1",
			"shop cart a: A process of container app was OOM-killed at the memory limit of all pods of the node; a pod of another namespace held most of it x6"}},
		"disarmed":        {false, &cart, nil},
		"manifest":        {true, &file, nil},
		"outside of pods": {true, nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := apitest.NewFake(t, &corev1.Node{})
			log := decisionlog.NewLines(io.Discard)
			defer log.Close()
			reports := newOOMReports(log, metrics.New(metrics.Settings{LinesDropped: log.Lost}), func() bool { return c.armed })
			reports.events = nodestatus.NewEvents(apitest.From(fake), "n", time.Minute)
			defer reports.events.Close()
			r := oomkill.Report{Place: oomkill.Place{Level: oomkill.PodsLevel, Pod: c.pod, Container: "app", Cgroup: "/x"}, HeldMost: oomkill.Party{Known: true, Pod: &foreign}}
			var got []string
			for i, wait := range []time.Duration{0, time.Second, time.Minute} { // the second one is too early
				<-time.After(wait)
				reports.report(&r, 1+i, time.Now())
				synctest.Wait()
				list, err := fake.Clientset.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range list.Items {
					text := fmt.Sprintf("%s %s %s: %s x%d", e.Namespace, e.InvolvedObject.Name, e.InvolvedObject.UID, e.Message, e.Count)
					if !slices.Contains(got, text) {
						got = append(got, text)
					}
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestOOMReports_ReportsLostKills(t *testing.T) {
	var out bytes.Buffer
	var m *metrics.Metrics
	synctest.Test(t, func(*testing.T) { // the wait of Close does not end while lines are written
		log := decisionlog.NewLines(&out)
		m = metrics.New(metrics.Settings{LinesDropped: log.Lost})
		r := newOOMReports(log, m, func() bool { return true })
		r.setUnreadable(errors.New("no device"))
		r.reportLost(3, time.Now())
		log.Close()
	})
	var line agent.OOMKill
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if short(line) != "oom-kill unknown unknown/ : unknown, unknown x3" || !strings.Contains(line.Reason, "no device") {
		t.Errorf("%+v", line)
	}
	if want := `plimsoll_oom_kills_total{limit="unknown"} 3`; !strings.Contains(scraped(m), want+"\n") {
		t.Errorf("%s is not served", want)
	}
}
