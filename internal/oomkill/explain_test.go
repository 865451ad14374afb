package oomkill_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/oomkill"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// three are pods of one node; the first two share a namespace.
var three = []signals.Pod{
	{UID: "a", Namespace: "shop", Name: "cart", Containers: []signals.Container{{Name: "app", ID: "a1"}, {Name: "cache", ID: "a2"}}},
	{UID: "b", Namespace: "shop", Name: "db", Containers: []signals.Container{{Name: "main", ID: "b1"}}},
	{UID: "c", Namespace: "other", Name: "batch", Containers: []signals.Container{{Name: "main", ID: "c1"}}},
}

// holdings returns a complete reading, in MiB, of the three pods in a class or of the containers of pod
// a, and the total below a cgroup.
func holdings(at time.Time, within string, total int, held ...int) *signals.Holdings {
	h := &signals.Holdings{At: at, Complete: true, Totals: []signals.CgroupHoldings{{Path: within, Held: amount(total)}}}
	if within == "/kubepods/poda" {
		h.Pods = []signals.PodHoldings{{UID: "a", Path: within, Held: amount(total)}}
		for i, n := range held {
			h.Pods[0].Containers = append(h.Pods[0].Containers, signals.ContainerHoldings{Name: []string{"a1", "a2"}[i], Held: amount(n)})
		}
		return h
	}
	for i, n := range held {
		if n >= 0 {
			h.Pods = append(h.Pods, signals.PodHoldings{UID: three[i].UID, Path: "/kubepods/pod" + three[i].UID, Held: amount(n)})
		}
	}
	return h
}

func amount(mebibytes int) signals.Measured[signals.Bytes] {
	return signals.Of(signals.Bytes(mebibytes) * mib)
}

// incomplete returns a reading that may lack pods, as those of the loop.
func incomplete(h *signals.Holdings) *signals.Holdings {
	h.Complete, h.Totals = false, nil
	return h
}

// ramp returns a reading for each of the last eight seconds, from the amounts of first to those of last:
// the total, and what the pods or the containers held.
func ramp(within string, first, last []int) (all []signals.Holdings) {
	const seconds = 8
	for i := range seconds {
		now := make([]int, len(first))
		for j := range first {
			now[j] = first[j] + (last[j]-first[j])*i/(seconds-1)
		}
		all = append(all, *holdings(noon.Add(time.Duration(i-seconds)*time.Second), within, now[0], now[1:]...))
	}
	return all
}

// partly makes readings such as those of the loop: they may lack pods, and have no total.
func partly(all []signals.Holdings) []signals.Holdings {
	for i := range all {
		incomplete(&all[i])
	}
	return all
}

// changed changes one reading.
func changed(all []signals.Holdings, i int, change func(*signals.Holdings)) []signals.Holdings {
	change(&all[i])
	return all
}

func explain(limit, task string, held, freed int, e oomkill.Evidence) oomkill.Report {
	n := oomkill.Node{Cgroup: "/", Root: "/kubepods", Pods: three}
	k := oomkill.Kill{TaskCgroup: task, LimitCgroup: limit, Process: oomkill.Process{PID: 1, Name: "p", Anon: signals.Bytes(freed) * mib}}
	if limit != "" {
		k.Used, k.Limit, k.Held = amount(held), amount(held), amount(held)
	} else {
		k.PagesKnown = true
	}
	e.At, e.Capacity, e.PageSize, e.Freed = noon, amount(held), 4096, k.Process.Anon
	p, _ := n.Locate(&k)
	return oomkill.Explain(&n, &k, &p, &e)
}

// explained is a kill with its evidence, in MiB, and what is reported.
type explained struct {
	limit, task string
	held, freed int
	before      []signals.Holdings
	after       *signals.Holdings
	others      []oomkill.Place
	want        string
}

const kubepods, pod = "/kubepods", "/kubepods/poda"

// after returns a reading shortly after the kill.
func after(within string, total int, held ...int) *signals.Holdings {
	return holdings(noon.Add(2*time.Millisecond), within, total, held...)
}

// in returns the first container of a pod.
func in(uid string) string { return kubepods + "/pod" + uid + "/" + uid + "1" }

type of = []int

// growing are readings before a kill of pod b, which grows.
var growing = ramp(kubepods, of{500, 200, 100, 200}, of{900, 200, 500, 200})

// ofPods are kills at a limit of all pods, ofOthers those at other limits.
var (
	ofPods = map[string]explained{
		"victim held more than half, without readings before": {kubepods, in("b"), 1000, 600,
			nil, after(kubepods, 300, 100, 100, 100), nil, "pods: shop/db, unknown"},
		"victim held most, without readings before": {kubepods, in("b"), 1000, 500,
			nil, after(kubepods, 300, 100, 100, 100), nil, "pods: unknown, unknown"},
		"victim held and grew most": {kubepods, in("b"), 1000, 550,
			ramp(kubepods, of{500, 200, 100, 200}, of{900, 200, 500, 200}), after(kubepods, 400, 200, 0, 200), nil, "pods: shop/db, shop/db"},
		"another pod held and grew most": {kubepods, in("b"), 1000, 100,
			ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750}), after(kubepods, 960, 100, 0, 800), nil, "pods: other/batch, other/batch"},
		"one held most, another one grew most": {kubepods, in("a"), 1000, 600,
			ramp(kubepods, of{620, 580, 10, 30}, of{960, 600, 10, 350}), after(kubepods, 400, 10, 10, 380), nil, "pods: shop/cart, other/batch"},
		"another pod held most, without readings before": {kubepods, in("b"), 1000, 100,
			nil, after(kubepods, 900, 100, 0, 800), nil, "pods: unknown, unknown"},
		"too few readings": {kubepods, in("b"), 1000, 100,
			ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750})[5:], after(kubepods, 960, 100, 0, 800), nil, "pods: unknown, unknown"},
		"readings that end too early": {kubepods, in("b"), 1000, 100,
			ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750})[:6], after(kubepods, 960, 100, 0, 800), nil, "pods: unknown, unknown"},
		"readings with a gap": {kubepods, in("b"), 1000, 100,
			append(ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750})[:3:3], ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750})[6:]...), after(kubepods, 960, 100, 0, 800), nil, "pods: unknown, unknown"},
		"two held nearly the same": {kubepods, in("b"), 980, 480,
			ramp(kubepods, of{900, 480, 400, 0}, of{960, 480, 470, 0}), after(kubepods, 480, 480, 0, 0), nil, "pods: unknown, shop/db"},
		"two grew the same": {kubepods, in("b"), 1000, 600,
			ramp(kubepods, of{400, 100, 300, 0}, of{980, 390, 590, 0}), after(kubepods, 400, 400, 0, 0), nil, "pods: shop/db, unknown"},
		"three grew, none of them more than half": {kubepods, in("b"), 1000, 500,
			ramp(kubepods, of{300, 100, 200, 0}, of{950, 300, 490, 200}), after(kubepods, 450, 310, 0, 200), nil, "pods: shop/db, unknown"},
		"most of the memory was not in pods": {kubepods, in("b"), 1000, 100,
			ramp(kubepods, of{900, 100, 100, 0}, of{990, 100, 100, 0}), after(kubepods, 900, 100, 0, 0), nil, "pods: unknown, unknown"},
		"a member fell before": {kubepods, in("b"), 1000, 100,
			changed(ramp(kubepods, of{500, 100, 100, 300}, of{950, 100, 100, 750}), 5, func(h *signals.Holdings) { h.Pods[2].Held = amount(90) }), after(kubepods, 960, 100, 0, 800), nil, "pods: unknown, unknown"},
		"a pod that grew until the kill and freed that at once": {kubepods, in("b"), 1000, 400,
			ramp(kubepods, of{600, 100, 400, 100}, of{600, 100, 400, 100}), after(kubepods, 200, 100, 0, 100), nil, "pods: unknown, unknown"},
		"an unreadable member": {kubepods, in("b"), 1000, 500,
			growing, &changed([]signals.Holdings{*after(kubepods, 400, 200, 0, 200)}, 0, func(h *signals.Holdings) { h.Pods[2].Held.Known = false })[0], nil, "pods: unknown, unknown"},
		"a late reading": {kubepods, in("b"), 1000, 500,
			growing, holdings(noon.Add(2*time.Second), kubepods, 400, 200, 0, 200), nil, "pods: unknown, unknown"},
		"a late reading, and a victim that alone held more than half": {kubepods, in("b"), 1000, 600,
			nil, holdings(noon.Add(2*time.Second), kubepods, 300, 100, 100, 100), nil, "pods: shop/db, unknown"},
		"a timely reading": {kubepods, in("b"), 1000, 500,
			growing, after(kubepods, 400, 200, 0, 200), nil, "pods: shop/db, shop/db"},
		"a reading before the kill": {kubepods, in("b"), 1000, 500,
			growing, holdings(noon.Add(-time.Millisecond), kubepods, 400, 200, 0, 200), nil, "pods: unknown, unknown"},
		"a reading of another cgroup": {kubepods, in("b"), 1000, 500,
			growing, after("/", 400, 200, 0, 200), nil, "pods: unknown, unknown"},
		"an incomplete reading after the kill": {kubepods, in("b"), 1000, 500,
			growing, incomplete(after(kubepods, 400, 200, 0, 200)), nil, "pods: unknown, unknown"},
		"incomplete readings before": {kubepods, in("b"), 1000, 600,
			partly(ramp(kubepods, of{0, 200, 100, 200}, of{0, 200, 500, 200})), after(kubepods, 400, 200, 0, 200), nil, "pods: shop/db, shop/db"},
		"a pod that the readings lack may have grown": {kubepods, in("b"), 1000, 600,
			partly(ramp(kubepods, of{0, 0, 100, -1}, of{0, 0, 500, -1})), after(kubepods, 400, 0, 0, 399), nil, "pods: shop/db, unknown"},
		"a pod ended meanwhile": {kubepods, in("b"), 1000, 300,
			ramp(kubepods, of{800, 100, 300, 400}, of{900, 100, 300, 500}), after(kubepods, 100, 100, 0, -1), nil, "pods: unknown, unknown"},
		"another kill without a known place": {kubepods, in("b"), 1000, 500,
			growing, after(kubepods, 400, 200, 0, 200), []oomkill.Place{{}}, "pods: unknown, unknown"},
		"another kill in a pod that may have held more": {kubepods, in("b"), 1000, 450,
			ramp(kubepods, of{900, 100, 400, 400}, of{900, 100, 400, 400}), after(kubepods, 200, 100, 0, 100), []oomkill.Place{{Cgroup: in("c"), UID: "c"}}, "pods: unknown, unknown"},
		"another kill elsewhere": {kubepods, in("b"), 1000, 600,
			nil, after(kubepods, 300, 100, 100, 100), []oomkill.Place{{Cgroup: "/system.slice/daemon"}}, "pods: shop/db, unknown"},
	}

	ofOthers = map[string]explained{
		"limit of a container": {pod + "/a1", pod + "/a1", 64, 60, nil, nil, nil, "container: shop/cart/app, shop/cart/app"},
		"memory of the node in a pod": {"", in("b"), 1000, 700,
			nil, after("/", 250, 50, 0, 50), nil, "node: shop/db, unknown"},
		"memory of the node outside of pods": {"", in("b"), 1000, 50,
			ramp("/", of{400, 50, 50, 50}, of{980, 50, 50, 50}), after("/", 930, 50, 0, 50), nil, "node: outside of pods, outside of pods"},
		"a process outside of pods": {"", "/system.slice/daemon", 970, 700,
			ramp("/", of{400, 50, 50, 50}, of{900, 50, 50, 50}), after("/", 250, 50, 50, 50), nil, "node: outside of pods, outside of pods"},
		"container of a pod": {pod, pod + "/a1", 430, 300,
			ramp(pod, of{150, 100, 50}, of{400, 350, 50}), after(pod, 60, 10, 50), nil, "pod: shop/cart/app, shop/cart/app"},
		"files in memory of another container of the pod": {pod, pod + "/a1", 512, 60,
			ramp(pod, of{160, 60, 100}, of{480, 60, 420}), after(pod, 440, 0, 440), nil, "pod: shop/cart/cache, shop/cart/cache"},
		"files in memory of a container that has ended": {pod, pod + "/a1", 512, 60,
			ramp(pod, of{480, 60, 0}, of{510, 90, 0}), after(pod, 420, 0, 0), nil, "pod: unknown, shop/cart/app"},
		"a fork tree": {pod, pod + "/a1", 512, 10,
			ramp(pod, of{60, 10, 50}, of{490, 440, 50}), after(pod, 505, 455, 50), nil, "pod: shop/cart/app, shop/cart/app"},
		"a fork tree that ends with its first process": {pod, pod + "/a1", 512, 10,
			ramp(pod, of{60, 10, 50}, of{490, 440, 50}), after(pod, 50, 0, 50), nil, "pod: shop/cart/app, shop/cart/app"},
		"a process of a pod in no container": {pod, pod, 512, 300, nil, after(pod, 60, 10, 50), nil, "pod: unknown, unknown"},
		"an unknown limit":                   {pod + "/a1/own", pod + "/a1/own", 512, 300, nil, after(pod, 60, 10, 50), nil, "unknown: unknown, unknown"},
	}
)

func TestExplain_NamesWhatHeldAndGrewMost(t *testing.T) {
	all := maps.Clone(ofPods)
	maps.Copy(all, ofOthers)
	for name, c := range all {
		r := explain(c.limit, c.task, c.held, c.freed, oomkill.Evidence{Before: c.before, After: c.after, Others: c.others})
		if got := r.Place.Level.String() + ": " + r.HeldMost.Key() + ", " + r.GrewMost.Key(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if r.GrewMost.Known != (r.Window > 0) && r.Place.Level != oomkill.ContainerLevel {
			t.Errorf("%s: grew most: %+v over %s", name, r.GrewMost, r.Window)
		}
	}
}

func TestReport_Sentences(t *testing.T) {
	const app = `Process "java" of container app`
	own, sibling, foreign := oomkill.Party{Known: true, Pod: &three[0]}, oomkill.Party{Known: true, Pod: &three[1]}, oomkill.Party{Known: true, Pod: &three[2]}
	stranger := oomkill.Party{Known: true, Pod: &signals.Pod{UID: "d", Namespace: "third", Name: "web"}}
	container := oomkill.Party{Known: true, Pod: &three[0], Container: "cache"}
	outside := oomkill.Party{Known: true}
	java := oomkill.Kill{Process: oomkill.Process{PID: 1, Name: "java"}, Limit: amount(512), Used: amount(512)}
	files := java
	files.FilesInMemory = amount(300)
	quoted := java
	quoted.Process.Name = `a" of x`
	for _, c := range []struct {
		kill       oomkill.Kill
		level      oomkill.Level
		held, grew oomkill.Party
		message    string
		reason     string // empty: like the message, with the pod
	}{
		{java, oomkill.ContainerLevel, own, own, app + " was OOM-killed at the memory limit of its container (512Mi)", ""},
		{files, oomkill.ContainerLevel, own, own, app + " was OOM-killed at the memory limit of its container (512Mi), mostly by files in memory (tmpfs) or shared memory", ""},
		{quoted, oomkill.ContainerLevel, own, own, `Process "a' of x" of container app was OOM-killed at the memory limit of its container (512Mi)`, ""},
		{java, oomkill.PodLevel, container, container, app + " was OOM-killed at the memory limit of its pod (512Mi); container cache held most of it and grew most before", ""},
		{java, oomkill.QoSLevel, own, oomkill.Party{}, app + " was OOM-killed at the memory limit of all pods of its QoS class (512Mi); this pod held most of it",
			app + " of pod shop/cart was OOM-killed at the memory limit of all pods of its QoS class (512Mi); pod shop/cart held most of it"},
		{java, oomkill.PodsLevel, sibling, foreign, app + " was OOM-killed at the memory limit of all pods of the node (512Mi); pod db held most of it, and a pod of another namespace grew most before",
			app + " of pod shop/cart was OOM-killed at the memory limit of all pods of the node (512Mi); pod shop/db held most of it, and pod other/batch grew most before"},
		{java, oomkill.PodsLevel, stranger, foreign, app + " was OOM-killed at the memory limit of all pods of the node (512Mi); a pod of another namespace held most of it, and a pod of another namespace grew most before",
			app + " of pod shop/cart was OOM-killed at the memory limit of all pods of the node (512Mi); pod third/web held most of it, and pod other/batch grew most before"},
		{oomkill.Kill{}, oomkill.NodeLevel, outside, outside, "A process of container app was OOM-killed because the memory of the node was exhausted; memory outside of pods held most of it and grew most before",
			"A process of container app of pod shop/cart was OOM-killed because the memory of the node was exhausted; memory outside of pods held most of it and grew most before"},
		{java, oomkill.PodsLevel, oomkill.Party{}, sibling, app + " was OOM-killed at the memory limit of all pods of the node (512Mi); it is not clear what held most of it, and pod db grew most before",
			app + " of pod shop/cart was OOM-killed at the memory limit of all pods of the node (512Mi); it is not clear what held most of it, and pod shop/db grew most before"},
		{java, oomkill.PodsLevel, oomkill.Party{}, oomkill.Party{}, app + " was OOM-killed at the memory limit of all pods of the node (512Mi); it is not clear what held most of it and what grew most before", ""},
		{java, oomkill.UnknownLevel, oomkill.Party{}, oomkill.Party{}, app + " was OOM-killed at a limit that is not known", ""},
	} {
		r := oomkill.Report{Kill: c.kill, Place: oomkill.Place{Level: c.level, Pod: &three[0], UID: "a", Container: "app", Cgroup: "/x"}, HeldMost: c.held, GrewMost: c.grew}
		if got := r.Message(); got != c.message {
			t.Errorf("message\n%s, want\n%s", got, c.message)
		}
		want := c.reason
		if want == "" {
			want = strings.Replace(c.message, " of container app was", " of container app of pod shop/cart was", 1)
		}
		if got := r.Reason(); got != want {
			t.Errorf("reason\n%s, want\n%s", got, want)
		}
	}
	for want, r := range map[string]oomkill.Report{
		"A process was OOM-killed at a limit that is not known: why":            {Kill: oomkill.Kill{Cause: "why"}},
		"A process outside of pods was OOM-killed at a limit that is not known": {Place: oomkill.Place{Cgroup: "/x"}},
		"A process of an unknown pod with UID u was OOM-killed because the memory of the node was exhausted; it is not clear what held most of it and what grew most before": {
			Place: oomkill.Place{Cgroup: "/x", UID: "u", Level: oomkill.NodeLevel}},
	} {
		if got := r.Reason(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestHistory_StoresReadingsOfLastSeconds(t *testing.T) {
	var h oomkill.History
	if got := h.Before(noon); len(got) != 0 {
		t.Errorf("readings from nowhere: %v", got)
	}
	at := func(millis int) time.Time { return noon.Add(time.Duration(millis) * time.Millisecond) }
	for millis := 0; millis <= 60_000; millis += 130 {
		h.Note(holdings(at(millis), "/", 1, millis, 2, 3))
		h.Note(holdings(at(millis-50), "/", 9, 9)) // older: ignored
		got := h.Before(at(millis + 100))
		first, last := got[0], got[len(got)-1]
		if !last.At.Equal(at(millis)) || first.At.Before(at(millis+100-15_000)) || first.At.After(at(max(millis-11_500, 0))) || millis > 5000 && len(got) < 9 {
			t.Fatalf("at %d ms: %d readings, %s to %s", millis, len(got), first.At, last.At)
		}
		if held := int(last.Pods[0].Held.Value / mib); held != millis || len(last.Pods) != 3 {
			t.Fatalf("at %d ms: %+v", millis, last)
		}
		if got := h.Before(at(millis + 99)); len(got) > 0 && !got[len(got)-1].At.Before(at(millis)) {
			t.Fatalf("at %d ms: a reading that may be one after the kill", millis)
		}
	}
	if got := h.Before(at(80_000)); len(got) != 0 {
		t.Errorf("old readings: %v", got)
	}
	reading := holdings(at(90_000), "/", 1, 1, 2, 3)
	for i := range 100 {
		reading.At = at(90_000 + 1000*i)
		h.Note(reading)
	}
	if n := testing.AllocsPerRun(100, func() { reading.At = reading.At.Add(300 * time.Millisecond); h.Note(reading) }); n != 0 {
		t.Errorf("%g allocations per reading", n)
	}
}

func TestPace_BoundsReports(t *testing.T) {
	p := oomkill.Pace{Burst: 3, Refill: time.Second, PerKey: 10 * time.Second}
	admit := func(key string, at time.Duration, want int) {
		t.Helper()
		total, admitted := p.Admit(key, 1, noon.Add(at))
		if !admitted {
			total = 0
		}
		if total != want {
			t.Errorf("%s at %s: %d, want %d", key, at, total, want)
		}
	}
	admit("a", 0, 1)
	admit("a", time.Second, 0)
	admit("a", 9*time.Second, 0)
	admit("a", 10*time.Second, 3)
	admit("b", 10*time.Second, 1)
	admit("c", 10*time.Second, 1)
	admit("d", 10*time.Second, 0) // the burst is used up
	admit("d", 11*time.Second, 2)
	admit("e", 11*time.Second, 0)
	admit("e", 60*time.Second, 2)
	reports := 0
	for i := range 5000 { // a storm of many keys
		if _, admitted := p.Admit(strings.Repeat("x", i%3000), 1, noon.Add(time.Hour+time.Duration(i)*time.Millisecond)); admitted {
			reports++
		}
	}
	if reports > 3+5 {
		t.Errorf("%d reports of 5000 kills in 5 s", reports)
	}
	// A storm of one key leaves reports to others.
	p = oomkill.Pace{Burst: 4, Refill: time.Second, Repeats: 2, PerKey: time.Minute}
	for i, want := range []int{1, 1, 0, 0} {
		admit("storm", time.Duration(i), want)
	}
	admit("a", 10, 1)
	admit("b", 10, 1)
	admit("c", 10, 0)
	admit("storm", 2*time.Second, 0)
	admit("c", 2*time.Second, 2)
	admit("storm", 6*time.Second, 4)
}
