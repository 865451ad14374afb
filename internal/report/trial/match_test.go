package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/internal/recording"
)

// outcomes returns the rows in short: what it is, the second, the pod, and the outcome.
func outcomes(r *Report) (rows []string) {
	second := func(t interface{ Unix() int64 }) int64 { return t.Unix() - started.Unix() }
	for _, d := range r.Decisions {
		text := fmt.Sprintf("decision %d %s %s", second(d.Time), d.Pod, d.Outcome)
		if d.Other != nil {
			text += " " + d.Other.Pod
		}
		rows = append(rows, text)
	}
	for _, e := range r.Evictions {
		rows = append(rows, fmt.Sprintf("eviction %d %s %s", second(e.Time), e.Pod, e.Outcome))
	}
	for _, k := range r.OOMKills {
		rows = append(rows, fmt.Sprintf("kill %d %s %s", second(k.Time), k.Pod, k.Outcome))
	}
	return rows
}

// reasons returns all reasons of rows.
func reasons(r *Report) string {
	var all []string
	for _, d := range r.Decisions {
		all = append(all, d.Reason)
	}
	for _, e := range r.Evictions {
		all = append(all, e.Reason)
	}
	for _, k := range r.OOMKills {
		all = append(all, k.Reason)
	}
	return strings.Join(all, "\n")
}

type ends = map[string]recording.End

type matchCase struct {
	about  string
	m      moments
	want   []string
	reason string
}

const memory, disk = recording.EvictedForMemory, recording.EvictedForDisk

// would returns the lines of a decision in dry run at 300 s.
func would(pod string, more ...keys) map[float64]keys {
	return map[float64]keys{300: about("would-evict", pod, more...)}
}

// waitAt returns what makes checks from one second to another find memory below a threshold, without imminent exhaustion.
func waitAt(from, to uint64) func(c *recording.Check) {
	return func(c *recording.Check) {
		if c.Seq >= from && c.Seq <= to {
			c.Reason = uint8(eviction.NotImminent)
		}
	}
}

// usageAt reports whether a usage is that of a check at a second.
func usageAt(u *recording.Usage, second float64) bool { return u.At.Equal(at(second + 1)) }

// without returns what leaves a pod out of the usage after a second.
func without(pod string, second float64) func(*recording.Usage) {
	return func(u *recording.Usage) {
		if usageAt(u, second) {
			u.Pods = slices.DeleteFunc(u.Pods, func(p recording.PodUsage) bool { return p.Pod.Name == pod })
		}
	}
}

// again returns what adds a pod to the usages from a second on.
func again(pod string, second float64) func(*recording.Usage) {
	return func(u *recording.Usage) {
		if !u.At.Before(at(second)) {
			u.Pods = append(u.Pods, recording.PodUsage{Pod: podOf(pod)})
		}
	}
}

// both returns what has the effect of two changes of a check.
func both(a, b func(*recording.Check)) func(*recording.Check) {
	return func(c *recording.Check) { a(c); b(c) }
}

// with returns the lines and another one.
func with(lines map[float64]keys, seconds float64, line keys) map[float64]keys {
	lines[seconds] = line
	return lines
}

// checkMatches compares recordings of ten minutes.
func checkMatches(t *testing.T, cases []matchCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.about, func(t *testing.T) {
			if tc.m.node = "node-7"; tc.m.to == 0 {
				tc.m.to = 600
			}
			r := compare(t, Options{}, tc.m.recorded(t))
			if got := outcomes(r); !slices.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			if got := reasons(r); !strings.Contains(got, tc.reason) {
				t.Errorf("no reason %q in\n%s", tc.reason, got)
			}
		})
	}
}

func TestMatch_SamePod(t *testing.T) {
	checkMatches(t, []matchCase{
		{"the same pod", moments{lines: would("a"), gone: map[int]ends{310: {"a": memory}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 311 shop/a same-pod"}, ""},
		{"the same pod, the kubelet first", moments{lines: would("a"), gone: map[int]ends{290: {"a": memory}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 291 shop/a same-pod"}, ""},
		{"the same pod, after the window", moments{lines: would("a"), gone: map[int]ends{380: {"a": memory}}},
			[]string{"decision 300 shop/a plimsoll-only", "eviction 381 shop/a others-only"}, "No decision of Plimsoll about the resource is recorded"},
		{"the same pod, in a repeated dry run", moments{lines: with(with(would("a"), 330, about("would-evict", "a")), 360, about("would-evict", "a")), gone: map[int]ends{390: {"a": memory}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 391 shop/a same-pod"}, ""},
		{"the same pod, soon after the beginning", moments{lines: map[float64]keys{30: about("would-evict", "d")}, begin: map[string]int{"d": 20}, gone: map[int]ends{40: {"d": memory}}},
			[]string{"decision 30 shop/d same-pod shop/d", "eviction 41 shop/d same-pod"}, ""},
		{"the same pod, which was there before the beginning", moments{lines: map[float64]keys{30: about("would-evict", "d")}, gone: map[int]ends{40: {"d": memory}}},
			[]string{"decision 30 shop/d unknown", "eviction 41 shop/d unknown"}, "Whether Plimsoll evicted it is not recorded."},
		{"the same pod for another resource", moments{lines: would("a"), gone: map[int]ends{310: {"a": disk}}},
			[]string{"decision 300 shop/a unknown", "eviction 311 shop/a unknown"}, "Another program evicted it for another resource: ephemeral-storage."},
		{"the same pod for an unknown resource", moments{lines: would("a"), gone: map[int]ends{310: {"a": recording.EndEvicted}}},
			[]string{"decision 300 shop/a unknown", "eviction 311 shop/a unknown"}, "The resource that it was evicted for is not recorded."},
		{"above a limit of its own", moments{lines: would("a", keys{"message": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", "choice": nil}), gone: map[int]ends{310: {"a": recording.EvictedForLimit}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 311 shop/a same-pod"}, ""},
	})
}

func TestMatch_AnotherPod(t *testing.T) {
	checkMatches(t, []matchCase{
		{"another pod above a limit of its own", moments{lines: would("a", keys{"message": "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", "choice": nil}), gone: map[int]ends{310: {"b": recording.EvictedForLimit}}},
			[]string{"decision 300 shop/a plimsoll-only", "eviction 311 shop/b others-only"}, ""},
		{"another pod, ranked behind", moments{lines: would("a"), gone: map[int]ends{310: {"b": memory}}},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod"}, "Plimsoll ranks shop/a first: shop/a is further above its request: by 400Mi, and shop/b by 300Mi. A kubelet would evict shop/a"},
		{"another pod, passed over", moments{lines: would("b"), gone: map[int]ends{310: {"a": memory}}},
			[]string{"decision 300 shop/b another-pod shop/a", "eviction 311 shop/a another-pod"}, "Plimsoll passes over shop/a: too small to help. A kubelet evicts it by the same measurements."},
		{"another pod, without a choice", moments{lines: would("a", keys{"choice": nil}), gone: map[int]ends{310: {"b": memory}}},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod"}, "The ranking of the decision is not recorded."},
		{"another pod for another resource", moments{lines: would("a"), gone: map[int]ends{310: {"b": disk}}},
			[]string{"decision 300 shop/a plimsoll-only", "eviction 311 shop/b others-only"}, ""},
		{"another pod for an unknown resource", moments{lines: would("a"), gone: map[int]ends{310: {"b": recording.EndEvicted}}},
			[]string{"decision 300 shop/a unknown", "eviction 311 shop/b unknown"}, "Another program may have evicted shop/b for it."},
		{"one eviction for two decisions", moments{lines: with(would("a"), 310, about("would-evict", "b")), gone: map[int]ends{320: {"c": memory}}},
			[]string{"decision 300 shop/a another-pod shop/c", "decision 310 shop/b plimsoll-only", "eviction 321 shop/c another-pod"}, ""},
		{"two evictions for one decision", moments{lines: would("a"), gone: map[int]ends{310: {"b": memory}, 320: {"c": memory}}},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod", "eviction 321 shop/c another-pod"}, ""},
		{"the same pod before another one", moments{lines: with(would("a"), 310, about("would-evict", "b")), gone: map[int]ends{320: {"b": memory}}},
			[]string{"decision 300 shop/a plimsoll-only", "decision 310 shop/b same-pod shop/b", "eviction 321 shop/b same-pod"}, ""},
		{"another pod beside the same one", moments{lines: would("a"), gone: map[int]ends{280: {"c": memory}, 310: {"a": memory}, 320: {"b": memory}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 281 shop/c others-only", "eviction 311 shop/a same-pod", "eviction 321 shop/b others-only"}, "Plimsoll decided at 12:05:00 about shop/a, which others evicted too."},
		{"another pod that came later", moments{lines: would("a"), begin: map[string]int{"d": 310}, gone: map[int]ends{300: {"a": recording.Ended}, 330: {"d": memory}}},
			[]string{"decision 300 shop/a unknown", "eviction 331 shop/d others-only"}, "Plimsoll decided at 12:05:00 about shop/a. The two pods were not there at the same time."},
		{"another pod that left before", moments{lines: would("d"), begin: map[string]int{"d": 290}, gone: map[int]ends{270: {"c": memory}}},
			[]string{"decision 300 shop/d plimsoll-only", "eviction 271 shop/c others-only"}, "Plimsoll decided at 12:05:00 about shop/d. The two pods were not there at the same time."},
		{"another pod that left before, beside it", moments{lines: would("d"), begin: map[string]int{"d": 260}, gone: map[int]ends{270: {"c": memory}}},
			[]string{"decision 300 shop/d another-pod shop/c", "eviction 271 shop/c another-pod"}, ""},
		{"another pod, which was not measured once", moments{lines: would("a"), gone: map[int]ends{280: {"b": memory}}, usages: without("a", 400)},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 281 shop/b another-pod"}, ""},
		{"another pod, which came back", moments{lines: would("a"), gone: map[int]ends{100: {"a": recording.EndUnknown}, 280: {"b": memory}}, usages: again("a", 150)},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 281 shop/b another-pod"}, ""},
		{"others alone", moments{lines: map[float64]keys{290: {"decision": "none-helps", "signal": "memory.available", "reason": "no pod helps"}}, gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "Plimsoll decided none-helps at 12:04:50: no pod helps."},
		{"while checks waited", moments{checks: waitAt(290, 300), gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "Memory was below a threshold from 12:04:50 to 12:05:00. Exhaustion was not imminent, and no periodic check of Plimsoll was due."},
		{"while checks waited, for another resource", moments{checks: waitAt(290, 300), gone: map[int]ends{310: {"b": disk}}},
			[]string{"eviction 311 shop/b others-only"}, "No decision of Plimsoll about the resource is recorded in that time."},
		{"while checks waited, until one refused", moments{checks: waitAt(280, 290), lines: map[float64]keys{300: {"decision": "none-helps", "signal": "memory.available", "reason": "no pod helps"}}, gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "Plimsoll decided none-helps at 12:05:00: no pod helps."},
		{"while checks waited, which is pending", moments{checks: waitAt(290, 300), lines: map[float64]keys{290: {"decision": "pending", "signal": "memory.available", "reason": "not imminent"}}, gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "Memory was below a threshold from 12:04:50 to 12:05:00."},
		{"some checks after they waited", moments{checks: waitAt(250, 260), gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "No decision of Plimsoll about the resource is recorded in that time."},
		{"while checks waited after lost ones", moments{checks: both(waitAt(250, 300), func(c *recording.Check) {
			if c.Seq == 280 {
				c.Lost = 1
			}
		}), gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b unknown"}, "Whether Plimsoll evicted it is not recorded."},
		{"long after checks waited", moments{checks: waitAt(200, 210), gone: map[int]ends{310: {"b": memory}}},
			[]string{"eviction 311 shop/b others-only"}, "No decision of Plimsoll about the resource is recorded in that time."},
		{"while checks waited after a match", moments{lines: would("a"), checks: waitAt(320, 320), gone: map[int]ends{310: {"a": memory}, 330: {"b": memory}}},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 311 shop/a same-pod", "eviction 331 shop/b others-only"}, "Memory was below a threshold at 12:05:20."},
		{"armed", moments{lines: map[float64]keys{300: about("evict", "a")}, gone: map[int]ends{310: {"a": memory, "b": memory}}},
			[]string{"decision 300 shop/a another-pod shop/b", "eviction 311 shop/b another-pod"}, ""},
		{"withdrawn", moments{lines: map[float64]keys{300: about("soft-evict", "a"), 320: {"decision": "withdrawn", "uid": "uid-a"}}, gone: map[int]ends{330: {"a": memory}}},
			[]string{"decision 300 shop/a withdrawn", "eviction 331 shop/a others-only"}, ""},
		{"not terminated", moments{lines: map[float64]keys{300: about("soft-evict", "a"), 320: {"decision": "terminated", "uid": "uid-a", "failed": []keys{{"pod": "shop/a", "reason": "no kill"}}}}, gone: map[int]ends{330: {"a": memory}}},
			[]string{"decision 300 shop/a withdrawn", "eviction 331 shop/a others-only"}, ""},
		{"terminated", moments{lines: map[float64]keys{300: about("soft-evict", "a"), 320: {"decision": "terminated", "uid": "uid-a"}}, gone: map[int]ends{330: {"a": memory}}},
			[]string{"decision 300 shop/a plimsoll-only"}, ""},
	})
}

// Without the records of a whole window a decision is unknown, unless its pod was evicted.
// The begin of a pod is known if the usage before its first one has all pods. It is never later than a measurement.
func TestNode_BeginOfPods(t *testing.T) {
	usage := func(cut bool, names ...string) *recording.Usage {
		u := &recording.Usage{Cut: cut}
		for _, name := range names {
			u.Pods = append(u.Pods, recording.PodUsage{Pod: podOf(name)})
		}
		return u
	}
	n := quietNode(NewReading(Options{}))
	for _, x := range []struct {
		second int
		usage  *recording.Usage
	}{{0, usage(false, "first")}, {10, usage(false, "first", "late")}, {20, usage(true, "late")}, {30, usage(false, "first", "late", "after-cut")}, {40, usage(false, "late")}, {50, usage(false, "first", "back")}} {
		n.addUsage(x.usage, at(float64(x.second)), Place{})
	}
	n.run.pause()
	n.addUsage(usage(false, "resumed"), at(70), Place{})
	n.addUsage(usage(false, "late"), at(-5), Place{}) // an earlier file
	want := map[string]time.Time{"uid-first": {}, "uid-late": {}, "uid-after-cut": {}, "uid-back": at(40), "uid-resumed": {}}
	if !maps.Equal(n.since, want) {
		t.Errorf("got %v, want %v", n.since, want)
	}
}

func TestMatch_Unknown(t *testing.T) {
	checkMatches(t, []matchCase{
		{"Plimsoll alone", moments{lines: would("a")}, []string{"decision 300 shop/a plimsoll-only"}, ""},
		{"no end of a pod is known", moments{lines: would("a"), gone: map[int]ends{310: {"b": recording.EndUnknown}}},
			[]string{"decision 300 shop/a unknown"}, "How shop/b ended is not recorded."},
		{"another pod is deleted", moments{lines: would("a"), gone: map[int]ends{310: {"b": recording.Deleted}}}, []string{"decision 300 shop/a plimsoll-only"}, ""},
		{"its pod is deleted", moments{lines: would("a"), gone: map[int]ends{310: {"a": recording.Deleted}}}, []string{"decision 300 shop/a unknown"}, "The pod was deleted meanwhile."},
		{"its pod ends", moments{lines: would("a"), gone: map[int]ends{310: {"a": recording.Ended}}}, []string{"decision 300 shop/a unknown"}, "The pod ended meanwhile."},
		{"armed meanwhile", moments{lines: with(would("a"), 320, about("evict", "a")), gone: map[int]ends{330: {"a": memory}}},
			[]string{"decision 300 shop/a unknown", "decision 320 shop/a plimsoll-only"}, "Plimsoll was armed meanwhile, and evicted the pod."},
		{"too early to know", moments{from: 280, lines: would("a")}, []string{"decision 300 shop/a unknown"}, "The ends of pods are not recorded for the whole window."},
		{"too late to know", moments{to: 350, lines: would("a")}, []string{"decision 300 shop/a unknown"}, "The ends of pods are not recorded for the whole window."},
		{"too late to know of others", moments{to: 340, gone: map[int]ends{310: {"b": memory}}}, []string{"eviction 311 shop/b unknown"}, "Checks are not recorded for the whole window."},
		{"a gap", moments{lines: would("a"), skipped: func(s int) bool { return s > 310 && s < 350 }}, []string{"decision 300 shop/a unknown"}, "for the whole window"},
		{"the same pod is known in spite of a gap", moments{lines: would("a"), gone: map[int]ends{310: {"a": memory}}, skipped: func(s int) bool { return s > 320 && s < 360 }},
			[]string{"decision 300 shop/a same-pod shop/a", "eviction 311 shop/a same-pod"}, ""},
		{"a pod vanishes", moments{lines: would("a"), usages: func(u *recording.Usage) {
			if u.At.After(at(305)) {
				u.Pods = slices.DeleteFunc(u.Pods, func(p recording.PodUsage) bool { return p.Pod.Name == "b" })
			}
		}}, []string{"decision 300 shop/a unknown"}, "for the whole window"},
		{"the clock is set", moments{lines: would("a"), checks: func(c *recording.Check) {
			if c.Seq >= 320 {
				c.Clock = 5e9
			}
		}}, []string{"decision 300 shop/a unknown"}, "for the whole window"},
		{"checks are lost", moments{lines: map[float64]keys{}, gone: map[int]ends{310: {"b": memory}}, checks: func(c *recording.Check) {
			if c.Seq == 300 {
				c.Lost = 1
			}
		}}, []string{"eviction 311 shop/b unknown"}, "Whether Plimsoll evicted it is not recorded."},
	})
}

func TestMatch_OOMKills(t *testing.T) {
	one := map[int]int64{305: 1}
	checkMatches(t, []matchCase{
		{"another pod is killed", moments{lines: with(would("a"), 305, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b avoidable"}, "50Mi were missing, and the end of shop/a frees 400Mi."},
		{"its pod is killed", moments{lines: with(would("a"), 305, killed("a", "node")), kills: one, gone: map[int]ends{310: {"a": recording.Ended}}},
			[]string{"decision 300 shop/a oom-kill shop/a", "kill 305 shop/a avoidable"}, ""},
		{"at the limit of all pods", moments{lines: with(would("a"), 305, killed("b", "pods")), kills: one},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b avoidable"}, ""},
		{"before the decision", moments{lines: with(would("a"), 299.5, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a plimsoll-only", "kill 299 shop/b not-decided"}, "No decision of Plimsoll about the resource"},
		{"sooner than memory is free", moments{lines: with(would("a"), 300+1.0/64, killed("b", "node")), kills: map[int]int64{300: 1}},
			[]string{"decision 300 shop/a plimsoll-only", "kill 300 shop/b not-decided"}, ""},
		{"after the window", moments{lines: with(would("a"), 365, killed("b", "node")), kills: map[int]int64{365: 1}},
			[]string{"decision 300 shop/a plimsoll-only", "kill 365 shop/b not-decided"}, ""},
		{"at the limit of a container", moments{lines: with(would("a"), 305, killed("a", "container")), kills: one},
			[]string{"decision 300 shop/a plimsoll-only", "kill 305 shop/a own-limit"}, "The kernel killed a process of the pod at a limit of its own at 12:05:05."},
		{"at an unknown limit", moments{lines: with(would("a"), 305, killed("b", "unknown")), kills: one},
			[]string{"decision 300 shop/a unknown", "kill 305 shop/b unknown"}, "The limit of an OOM kill in the window is not recorded."},
		{"at the limit of a QoS class", moments{lines: with(would("a"), 305, killed("b", "qos")), kills: one},
			[]string{"decision 300 shop/a unknown", "kill 305 shop/b unknown"}, ""},
		{"too little would be freed", moments{lines: with(would("a", keys{"choice": keys{"cause": "memory.available", "shortage": 500 * mib, "places": []keys{{"place": 1, "pod": "shop/a", "uid": "uid-a", "frees": 400 * mib}}}}), 305, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b unknown"}, "500Mi were missing, and the end of shop/a frees only 400Mi."},
		{"what would be freed is not recorded", moments{lines: with(would("a", keys{"choice": nil}), 305, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b unknown"}, "How much memory the end of shop/a frees is not recorded."},
		{"its pod was gone before", moments{lines: with(would("a"), 325, killed("b", "node")), kills: map[int]int64{325: 1}, gone: map[int]ends{310: {"a": recording.Deleted}}},
			[]string{"decision 300 shop/a unknown", "kill 325 shop/b unknown"}, "The end of shop/a did not avoid it: the pod was gone before."},
		{"armed", moments{lines: map[float64]keys{300: about("evict", "a"), 305: killed("b", "node")}, kills: one, gone: map[int]ends{300: {"a": recording.EvictedForMemory}}},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b despite"}, ""},
		{"armed, and the clock is set", moments{lines: map[float64]keys{300: about("evict", "a"), 325: killed("b", "node")}, kills: map[int]int64{325: 1}, gone: map[int]ends{300: {"a": memory}}, checks: func(c *recording.Check) {
			if c.Seq >= 320 {
				c.Clock = 5e9
			}
		}}, []string{"decision 300 shop/a unknown", "kill 325 shop/b unknown"}, timesUncertain},
		{"its pod is killed, and the clock is set", moments{lines: with(would("a"), 325, killed("a", "node")), kills: map[int]int64{325: 1}, checks: func(c *recording.Check) {
			if c.Seq >= 320 {
				c.Clock = 5e9
			}
		}}, []string{"decision 300 shop/a unknown", "kill 325 shop/a unknown"}, timesUncertain},
		{"what is missing is not recorded", moments{lines: with(would("a", keys{"choice": keys{"cause": "memory.available", "places": []keys{{"place": 1, "pod": "shop/a", "uid": "uid-a", "frees": 400 * mib}}}}), 305, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b unknown"}, "How much memory was missing is not recorded."},
		{"a decision without a pod", moments{lines: with(would("a", keys{"uid": "", "pod": ""}), 305, keys{"decision": "oom-kill", "limitOf": "node"}), kills: one},
			[]string{"kill 305  unknown"}, "Checks are not recorded for the whole window before it."},
		{"a decision of another version", moments{lines: map[float64]keys{300: {"decision": 7}, 305: killed("b", "node")}, kills: one},
			[]string{"kill 305 shop/b unknown"}, "Checks are not recorded for the whole window before it."},
		{"for a disk", moments{lines: with(would("a", keys{"signal": "nodefs.available", "message": "The node was low on resource: ephemeral-storage. ", "choice": nil}), 305, killed("b", "node")), kills: one},
			[]string{"decision 300 shop/a plimsoll-only", "kill 305 shop/b not-decided"}, ""},
		{"no pod helped", moments{lines: map[float64]keys{300: {"decision": "none-helps", "signal": "memory.available", "reason": "all hold 1Mi"}, 305: killed("b", "node")}, kills: one},
			[]string{"kill 305 shop/b not-decided"}, "Plimsoll decided none-helps at 12:05:00: all hold 1Mi."},
		{"too early to know", moments{from: 290, lines: map[float64]keys{305: killed("b", "node")}, kills: one}, []string{"kill 305 shop/b unknown"}, "Checks are not recorded for the whole window before it."},
		{"only the machine counts it", moments{lines: would("a"), kills: one}, []string{"decision 300 shop/a unknown", "kill 311 unknown unknown"}, "Only a counter shows it"},
		{"only the counter of its pod has it", moments{lines: would("a"), kills: one, usages: func(u *recording.Usage) {
			if u.At.After(at(305)) && len(u.Pods) > 1 {
				u.Pods[1].Values[recording.OOMKills] = 1
			}
		}}, []string{"decision 300 shop/a unknown", "kill 311 shop/b unknown"}, "Only a counter shows it"},
		{"its line and its counter are one kill", moments{lines: with(would("a"), 305, killed("b", "container")), kills: one, usages: func(u *recording.Usage) {
			if u.At.After(at(305)) {
				u.Pods[1].Values[recording.OOMKills] = 1
			}
		}}, []string{"decision 300 shop/a plimsoll-only", "kill 305 shop/b own-limit"}, ""},
		{"nothing counts kills", moments{lines: would("a"), usages: func(u *recording.Usage) { u.Node[recording.NodeOOMKills] = recording.Unknown }},
			[]string{"decision 300 shop/a unknown"}, "OOM kills of the kernel are not counted for the whole window."},
	})
}

// Two nodes of one name, or two agents, ran at one time: what one did is no match of what the other decided. Runs one
// after the other, and a run in two files, are no such case.
func TestMatch_TwoAgents(t *testing.T) {
	deciding := moments{node: "n", to: 600, lines: with(would("a"), 305, killed("b", "node")), kills: map[int]int64{305: 1}}
	evicting := moments{node: "n", to: 600, boot: "other", gone: map[int]ends{310: {"b": memory}}}
	r := compare(t, Options{}, deciding.recorded(t), evicting.recorded(t))
	if got, want := outcomes(r), []string{"decision 300 shop/a unknown", "eviction 311 shop/b unknown", "kill 305 shop/b unknown"}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Contains(r.Missing, "Node n: checks of two agents overlap 1 times. Two agents ran, or two nodes have that name: compare each by itself.") {
		t.Errorf("missing %q", r.Missing)
	}
	next := moments{node: "n", from: 610, to: 900, boot: "next"}
	r = compare(t, Options{}, deciding.recorded(t), deciding.recorded(t), next.recorded(t))
	if got, want := outcomes(r), []string{"decision 300 shop/a oom-kill shop/b", "kill 305 shop/b avoidable"}; !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// An avoidable kill of the pod that Plimsoll decided to evict is none of another pod.
func TestReport_CountsAvoidableKillsOfOtherPods(t *testing.T) {
	for pod, want := range map[string]OOMKills{"a": {Total: 1, Avoidable: 1}, "b": {Total: 1, Avoidable: 1, OtherPods: 1}} {
		m := moments{node: "n", to: 600, lines: map[float64]keys{300: about("would-evict", "a"), 305: killed(pod, "node")}, kills: map[int]int64{305: 1}}
		r := compare(t, Options{}, m.recorded(t))
		if got := r.Summary.OOMKills; got != want {
			t.Errorf("%s: %+v", pod, got)
		}
		if says := strings.Contains(reasons(r), "The kernel killed the same pod."); says != (pod == "a") {
			t.Errorf("%s: %s", pod, reasons(r))
		}
	}
}

// A line may stand for many processes, which the summary counts. Each has the outcome of the line.
func TestReport_CountsProcessesOfKills(t *testing.T) {
	m := moments{node: "n", to: 600, lines: map[float64]keys{300: about("would-evict", "a"), 305: killed("b", "node"), 400: killed("b", "container")}, kills: map[int]int64{305: 50, 400: 2}}
	m.lines[305]["kills"], m.lines[400]["kills"] = 50, 2
	if got := compare(t, Options{}, m.recorded(t)).Summary.OOMKills; got != (OOMKills{Total: 52, Avoidable: 50, OtherPods: 50, OwnLimit: 2}) {
		t.Errorf("%+v", got)
	}
}
