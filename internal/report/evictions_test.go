package report

import (
	"strings"
	"testing"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

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

// factsOf returns the facts about the only eviction, without its time, and the rows of its table.
func factsOf(t *testing.T, data []byte) (facts, rows string) {
	t.Helper()
	i, x := read(t, data, Options{}), onlyEviction(t, data)
	s := i.evictionSection(1, x)
	for _, f := range s.Facts[1:] {
		facts += f[0] + ": " + plain(f[1]) + "\n"
	}
	for _, p := range s.Paragraphs {
		facts += p + "\n"
	}
	if s.Table != nil {
		for n, r := range s.Table.Rows {
			if rows += cellsOf(s.Table)[n]; r.Chosen {
				rows += " *"
			}
			rows += "\n"
		}
	}
	return facts, rows
}

// An eviction is explained by what the decision recorded. What is not recorded is not stated.
func TestEviction_IsExplainedByItsRecord(t *testing.T) {
	a, b, going := podOf("a", 0), podOf("b", 0), podOf("a", 0)
	going.EndsBy = at(60)
	deleted := chosen("shop/b", place(1, b, 900*mib, 0, ""), place(2, a, 120*mib, 0, ""))
	deleted.Deleted = true
	evict := func(more keys) *recording.Decision {
		all := keys{"decision": "evict", "check": "early", "signal": "memory.available", "pod": "shop/a", "uid": "uid-a"}
		for key, value := range more {
			all[key] = value
		}
		return logged(t, 0, all)
	}
	byCheck := evicting(check(0, 50*mib), a, candidate(a, 5*mib))
	soft := evicting(check(0, 50*mib), a)
	soft.Act.Measured, soft.Cut, soft.Act.Evicted.Hard, soft.Act.Evicted.GracePeriod = nil, true, false, 30
	soft.Act.Failed = []recording.Failed{{Pod: b, Error: "refused"}}
	limit := evicting(check(0, 1<<30), a, candidate(a, 5*mib))
	limit.Act.Acted, limit.Act.Evicted.Cause, limit.Act.Evicted.Message = false, "ephemeralpodfs.limit", ""
	for _, tc := range []struct {
		about       string
		values      []any
		facts, rows string
	}{
		{"a choice", []any{evict(keys{"threshold": "memory.available<100Mi", "available": 50 * mib, "capacity": 4 << 30, "processes": 2, "freedBytes": 20 * mib,
			"choice": chosen("shop/b", place(1, b, 900*mib, 0, "too small to help"), place(2, a, 120*mib, 100*mib, ""), place(3, podOf("c", 0), 10*mib, 20*mib, ""))}), byCheck},
			"Kind: hard eviction, processes that got a signal: 2\nCause: memory.available<100Mi: available 50Mi of 4Gi\nKubelet: would have evicted shop/b\nResult: 20Mi more available\n" +
				"Choice: Not shop/c instead: shop/a exceeds its request, and shop/c does not.\n",
			"shop/b | 1 | uses 900Mi, 900Mi above its request, priority 0, frees 900Mi, passed over: too small to help\nshop/a | 2 | uses 120Mi, 20Mi above its request, priority 0, frees 120Mi *\n" +
				"shop/c | 3 | uses 10Mi, within its request of 20Mi, priority 0, frees 10Mi\n"},
		{"for what deleted pods hold", []any{evict(keys{"choice": deleted})},
			"Kind: hard eviction\nKubelet: would have evicted shop/b\nChoice: Deleted pods held the missing amount: the largest of them ends first.\n",
			"shop/b | 1 | uses 900Mi, 900Mi above its request, priority 0, frees 900Mi\nshop/a | 2 | uses 120Mi, 120Mi above its request, priority 0, frees 120Mi *\n"},
		{"a deleted pod, by the ranking", []any{evict(keys{"choice": chosen("shop/a", place(1, going, 120*mib, 0, ""), place(2, b, 5*mib, 0, ""))})},
			"Kind: hard eviction\nKubelet: would have evicted the same pod\nChoice: Not shop/b instead: shop/a is further above its request: by 120Mi, and shop/b by 5Mi.\n",
			"shop/a | 1 | uses 120Mi, 120Mi above its request, priority 0, frees 120Mi *\nshop/b | 2 | uses 5Mi, 5Mi above its request, priority 0, frees 5Mi\n"},
		{"a dry run", []any{logged(t, 0, keys{"decision": "would-evict", "pod": "shop/a", "uid": "uid-a", "choice": chosen("", place(1, a, 120*mib, 0, ""))})},
			"Kind: dry run: the agent is disarmed, and the pod was not ended. Otherwise: hard eviction\nKubelet: would have evicted no pod\n",
			"shop/a | 1 | uses 120Mi, 120Mi above its request, priority 0, frees 120Mi *\n"},
		{"a line without a choice", []any{evict(keys{"kubeletWouldEvict": "shop/b", "ranking": []any{keys{"pod": "shop/a", "reason": "uses 5Mi"}}}), byCheck},
			"Kind: hard eviction\n", "shop/a | 1 | uses 5Mi *\n"},
		{"the check alone", []any{byCheck}, "Kind: hard eviction\nCause: memory.available: available 50Mi of 4Gi\nStatus: The node was low on resource: memory.\nThe ranking is not recorded.\n", ""},
		{"a part of the check", []any{soft}, "Kind: soft eviction with a grace period of 30 s\nCause: memory.available: available 50Mi of 4Gi\nStatus: The node was low on resource: memory.\nFailed: shop/b: refused\nThe ranking is not recorded.\n", ""},
		{"a local-storage limit", []any{limit}, "Kind: hard eviction\nCause: the local-storage limit ephemeralpodfs.limit of the pod. Usage of other pods does not matter\n", ""},
	} {
		facts, rows := factsOf(t, recorded(t, header(), tc.values...))
		if facts != tc.facts || rows != tc.rows {
			t.Errorf("%s:\n%s%swant\n%s%s", tc.about, facts, rows, tc.facts, tc.rows)
		}
	}
}

func TestDecisions_AreListed(t *testing.T) {
	list := []any{keys{"pod": "shop/a", "reason": "refused"}, keys{"pod": "shop/b", "reason": "gone"}, keys{"pod": "shop/c", "reason": "x"}, keys{"pod": "shop/d", "reason": "x"}}
	i := read(t, recorded(t, header(), logged(t, 0, keys{"decision": "check"}),
		logged(t, 1, keys{"decision": "failed", "check": "early", "signal": "memory.available", "threshold": "memory.available<100Mi", "reason": "met", "failed": list, "kubeletWouldEvict": "shop/k"}),
		logged(t, 2, keys{"decision": "none-helps", "signal": "nodefs.available", "reason": "no pod helps; the kubelet would evict shop/k", "kubeletWouldEvict": "shop/k"}),
		logged(t, 3, keys{"decision": "none-helps", "signal": "nodefs.available", "reason": "again", "repeated": "measured"}),
		logged(t, 4, keys{"decision": "soft-evict", "signal": "memory.available", "pod": "shop/a", "uid": "u", "processes": 2, "killMillis": 1.5, "processesRemain": true, "status": "pending"}),
		logged(t, 5, keys{"decision": "conditions", "conditions": []string{"DiskPressure", "MemoryPressure"}})), Options{})
	want := []string{
		"12:00:01.000 | failed | early | memory.available<100Mi |  | met; a kubelet would evict shop/k; could not end shop/a: refused; could not end shop/b: gone; could not end shop/c: x; and further pods",
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
