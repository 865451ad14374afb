package report

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// The ranking of an eviction has the figures of the check, why not the next pod, and the kubelet's choice.
func TestChoice_IsExplained(t *testing.T) {
	of := func(name string, memory signals.Bytes, change func(*signals.Pod)) signals.Candidate {
		p := podOf(name, 100*mib)
		if change != nil {
			change(p)
		}
		return candidate(p, memory*mib)
	}
	priority := func(n int32) func(*signals.Pod) { return func(p *signals.Pod) { p.Priority = n } }
	protected := func(by signals.Protection) func(*signals.Pod) {
		return func(p *signals.Pod) { p.Protection = by }
	}
	unmeasured := func(name string) signals.Candidate { return signals.Candidate{Pod: podOf(name, 100*mib)} }
	for _, tc := range []struct {
		about         string
		pods          []signals.Candidate // the evicted one is a
		notNext, kube string
	}{
		{"exceeds", []signals.Candidate{of("a", 120, nil), of("b", 90, nil)}, "Not shop/b in its place: shop/a exceeds its request, and shop/b does not.", "A kubelet would have evicted the same pod."},
		{"priority", []signals.Candidate{of("a", 120, nil), of("b", 900, priority(5))}, "Not shop/b in its place: the priority of shop/a is 0, and that of shop/b is 5.", "A kubelet would have evicted the same pod."},
		{"further above", []signals.Candidate{of("a", 300, nil), of("b", 120, nil)}, "Not shop/b in its place: shop/a is further above its request: by 200Mi, and shop/b by 20Mi.", "A kubelet would have evicted the same pod."},
		{"nearer", []signals.Candidate{of("a", 90, nil), of("b", 40, nil)}, "Not shop/b in its place: shop/a is nearer to its request: 10Mi below, and shop/b 60Mi below.", "A kubelet would have evicted the same pod."},
		{"last", []signals.Candidate{of("a", 90, nil), of("b", 900, func(p *signals.Pod) { p.Last = true })}, "Not shop/b in its place: shop/b asked to go last.", "A kubelet would have evicted shop/b."},
		{"eviction priority", []signals.Candidate{of("a", 120, nil), of("b", 900, func(p *signals.Pod) { p.EvictionPriority = 3 })}, "Not shop/b in its place: at equal priority, the eviction priority of shop/a is 0, and that of shop/b is 3.", "A kubelet would have evicted shop/b."},
		{"nothing measured", []signals.Candidate{unmeasured("a"), of("b", 900, nil)}, "Not shop/b in its place: nothing was measured of shop/a.", "A kubelet would have evicted the same pod."},
		{"equal", []signals.Candidate{of("a", 120, nil), of("b", 120, nil)}, "Not shop/b in its place: all criteria are equal, and the order of the UIDs decides.", "A kubelet would have evicted the same pod."},
		{"protected ones are passed over", []signals.Candidate{of("a", 120, nil), of("b", 900, protected(signals.OptedOut)), of("c", 110, protected(signals.Static)), of("d", 90, nil)},
			"Not shop/d in its place: shop/a exceeds its request, and shop/d does not.", "A kubelet would have evicted shop/b."},
		{"alone", []signals.Candidate{of("a", 120, nil), of("b", 110, protected(signals.Critical))}, "No other pod could have been evicted in its place.", "A kubelet would have evicted the same pod."},
		{"deleted", []signals.Candidate{of("a", 120, func(p *signals.Pod) { p.EndsBy = at(60) }), of("b", 900, nil)}, "The pod was being deleted already and held what was missing. Such a pod is ended before others.", "A kubelet would have evicted shop/b."},
	} {
		x := onlyEviction(t, recorded(t, header(), evicting(check(0, 50*mib), tc.pods[0].Pod, tc.pods...)))
		if got := plain(x.notNext()); got != tc.notNext {
			t.Errorf("%s: %s\nwant %s", tc.about, got, tc.notNext)
		}
		if got := plain(x.kubeletText()); got != tc.kube {
			t.Errorf("%s: %s\nwant %s", tc.about, got, tc.kube)
		}
	}
}

func onlyEviction(t *testing.T, data []byte) *evicted {
	t.Helper()
	items, _ := read(t, data, Options{}).evictions.all()
	if len(items) != 1 {
		t.Fatalf("%d evictions", len(items))
	}
	return items[0]
}

func cellsOf(t *table) (rows []string) {
	for _, r := range t.Rows {
		rows = append(rows, plain(strings.Join(r.Cells, " | ")))
	}
	return rows
}

// A long ranking has its first places, the evicted pod and the next one, with the reasons of the line.
func TestChoice_ListsPlaces(t *testing.T) {
	var pods []signals.Candidate
	var reasons []any
	for n := range 20 {
		c := candidate(podOf(fmt.Sprintf("p%02d", n), 0), signals.Bytes(100-n)*mib)
		pods = append(pods, c)
		if n < maxListed {
			reason := fmt.Sprintf("uses %dMi, %dMi above its request, priority 0", 100-n, 100-n)
			if n < 3 {
				reason += ", too small to help"
			}
			reasons = append(reasons, keys{"pod": c.Pod.Key(), "reason": reason})
		}
	}
	c := evicting(check(0, 50*mib), pods[14].Pod, pods...)
	c.Act.Limit = "owner"
	c.Act.Failed = []recording.Failed{{Pod: pods[3].Pod, Error: "refused"}}
	x := onlyEviction(t, recorded(t, header(), logged(t, 0, keys{"decision": "evict", "signal": "memory.available", "pod": "shop/p14", "uid": "uid-p14", "ranking": reasons}), c))
	got := cellsOf(x.choice.table())
	want := []string{
		"shop/p00 | 1 | 0 | 0 | 100Mi | yes, by 100Mi | 90Mi | too small to help",
		"shop/p01 | 2 | 0 | 0 | 99Mi | yes, by 99Mi | 89Mi | too small to help",
		"shop/p02 | 3 | 0 | 0 | 98Mi | yes, by 98Mi | 88Mi | too small to help",
		"shop/p03 | 4 | 0 | 0 | 97Mi | yes, by 97Mi | 87Mi | could not be ended: refused",
		"shop/p04 | 5 | 0 | 0 | 96Mi | yes, by 96Mi | 86Mi | passed over: a limit on evictions (owner)",
	}
	if len(got) != maxPlaces+2 || strings.Join(got[:5], "\n") != strings.Join(want, "\n") {
		t.Errorf("%d places:\n%s\nwant\n%s", len(got), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got[maxPlaces] != "shop/p14 | 15 | 0 | 0 | 86Mi | yes, by 86Mi | 77Mi | chosen" || !strings.HasPrefix(got[maxPlaces+1], "shop/p15 | 16 ") {
		t.Errorf("the evicted pod and the next one: %s, %s", got[maxPlaces], got[maxPlaces+1])
	}
}

// Where a part of an eviction is not recorded, the report has the rest and states so.
func TestEviction_OfPartsOfTheRecording(t *testing.T) {
	a := podOf("a", 0)
	line := logged(t, 0, keys{"decision": "evict", "signal": "memory.available", "pod": "shop/a", "uid": "uid-a", "kubeletWouldEvict": "shop/b", "ranking": []any{keys{"pod": "shop/a", "reason": "uses 5Mi"}}})
	byLine := onlyEviction(t, recorded(t, header(), line))
	if byLine.choice != nil || !strings.Contains(byLine.notNext(), "not recorded") || plain(byLine.kubeletText()) != "A kubelet would have evicted shop/b." {
		t.Errorf("the line alone: %q, %q", byLine.notNext(), byLine.kubeletText())
	}
	i := read(t, recorded(t, header(), line), Options{})
	if got := cellsOf(i.evictionSection(1, byLine).Table); len(got) != 1 || got[0] != "shop/a | uses 5Mi" {
		t.Errorf("the line alone: ranking %q", got)
	}
	byCheck := onlyEviction(t, recorded(t, header(), evicting(check(0, 50*mib), a, candidate(a, 5*mib))))
	if byCheck.choice == nil || byCheck.cause != "memory.available" || byCheck.observed != "50Mi available of 4Gi" {
		t.Errorf("the check alone: %+v", byCheck)
	}
	cut := evicting(check(0, 50*mib), a)
	cut.Act.Measured, cut.Cut = nil, true
	if x := onlyEviction(t, recorded(t, header(), cut)); x.choice != nil || !strings.Contains(x.kubeletText(), "is not recorded") {
		t.Errorf("a check without its pods: %q", x.kubeletText())
	}
	limit := evicting(check(0, 1<<30), a, candidate(a, 5*mib))
	limit.Act.Acted, limit.Act.Evicted.Cause = false, "ephemeralpodfs.limit"
	if x := onlyEviction(t, recorded(t, header(), limit)); x.choice != nil || plain(x.because()) != "ephemeralpodfs.limit, a limit of the pod itself" || !strings.Contains(x.kubeletText(), "the same pod") {
		t.Errorf("a local-storage limit: %q, %q", plain(x.because()), x.kubeletText())
	}
}

func TestDecisions_AreListed(t *testing.T) {
	list := []any{keys{"pod": "shop/a", "reason": "refused"}, keys{"pod": "shop/b", "reason": "gone"}, keys{"pod": "shop/c", "reason": "x"}, keys{"pod": "shop/d", "reason": "x"}}
	i := read(t, recorded(t, header(), logged(t, 0, keys{"decision": "check"}),
		logged(t, 1, keys{"decision": "failed", "check": "early", "signal": "memory.available", "reason": "met", "failed": list, "kubeletWouldEvict": "shop/k"}),
		logged(t, 2, keys{"decision": "none-helps", "signal": "nodefs.available", "reason": "no pod helps; the kubelet would evict shop/k", "kubeletWouldEvict": "shop/k"}),
		logged(t, 3, keys{"decision": "none-helps", "signal": "nodefs.available", "reason": "again", "repeated": "measured"}),
		logged(t, 4, keys{"decision": "soft-evict", "signal": "memory.available", "pod": "shop/a", "uid": "u", "processes": 2, "killMillis": 1.5, "processesRemain": true, "status": "pending"}),
		logged(t, 5, keys{"decision": "conditions", "conditions": []string{"DiskPressure", "MemoryPressure"}})), Options{})
	want := []string{
		"12:00:01.000 | failed | early | memory.available |  | met; a kubelet would evict shop/k; could not end shop/a: refused; could not end shop/b: gone; could not end shop/c: x; and further pods",
		"12:00:02.000, repeated once until 12:00:03 | none-helps |  | nodefs.available |  | again",
		"12:00:04.000 | soft-evict |  | memory.available | shop/a | 2 processes got a signal after 1.5ms, some have not exited yet, its status was not reported yet",
		"12:00:05.000 | conditions |  |  |  | True now: DiskPressure, MemoryPressure",
	}
	if got := cellsOf(i.decisionTable()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A threshold far below the amounts is drawn where it can be seen, and the cut is stated.
func TestScale_ShowsThreshold(t *testing.T) {
	for available, want := range map[signals.Amount]struct {
		most int64
		cut  bool
	}{2 << 30: {400 * mib, true}, 800 * mib: {800 * mib, false}, 90 * mib: {100 * mib, false}, 900 * mib: {400 * mib, true}} {
		i := read(t, recorded(t, header(), check(0, available)), Options{})
		h := i.histories[signals.MemoryAvailable]
		if most, cut := h.scale(); most != want.most || cut != want.cut || strings.Contains(i.caption(h), "at the upper edge") != cut {
			t.Errorf("%d MiB available: up to %d MiB, cut %t", available/mib, most/mib, cut)
		}
	}
}
