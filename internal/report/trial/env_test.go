package trial

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/recording"
	"plimsoll.dev/plimsoll/ranking"
)

const mib = 1 << 20

var started = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return started.Add(time.Duration(seconds * float64(time.Second)))
}

// keys are those of a line of the decision log.
type keys = map[string]any

// moments is the recording of a node: what happens besides a check and a usage each ten seconds.
type moments struct {
	node    string
	from    int // seconds
	to      int
	begin   map[string]int                   // when pods are first measured, in seconds; others: from the beginning
	gone    map[int]map[string]recording.End // by the usage that notices it, at the second after it
	lines   map[float64]keys
	checks  func(c *recording.Check)
	usages  func(u *recording.Usage)
	skipped func(seconds int) bool // neither check nor usage
	kills   map[int]int64          // of the machine's counter, from a second on
	boot    string
}

// pods are the pods of each node.
var pods = []string{"a", "b", "c", "d"}

func podOf(name string) *signals.Pod {
	return &signals.Pod{UID: "uid-" + name, Namespace: "shop", Name: name}
}

// recorded returns a recording by the encoder of agents.
func (m *moments) recorded(tb testing.TB) []byte {
	tb.Helper()
	h := recording.Header{Segment: 1, Version: "1.2.3", Node: m.node, BootID: "boot" + m.boot, CgroupVersion: 2, Started: started, SinceBoot: time.Hour, Config: json.RawMessage(`{"monitoringPeriod":"10s"}`)}
	e := recording.NewEncoder(h)
	data, err := e.Header(nil)
	if err != nil {
		tb.Fatal(err)
	}
	live, ok, killed := slices.Clone(pods), true, int64(5)
	for s := m.from; s <= m.to; s++ {
		for _, part := range []float64{0, 1.0 / 64, 0.5} {
			if line, is := m.lines[float64(s)+part]; is {
				if data, ok = e.Decision(data, &recording.Decision{At: at(float64(s) + part), Line: lineOf(tb, float64(s)+part, line)}); !ok {
					tb.Fatal("not encoded")
				}
			}
		}
		if n, is := m.kills[s]; is {
			killed += n
		}
		if s%10 != 0 || m.skipped != nil && m.skipped(s) {
			continue
		}
		c := &recording.Check{Seq: uint64(s), Snapshot: signals.Snapshot{At: at(float64(s))}}
		c.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(signals.Amount(1000-s)*mib, 4<<30, at(float64(s)))
		if m.checks != nil {
			m.checks(c)
		}
		if data, ok = e.Check(data, c); !ok {
			tb.Fatal("not encoded")
		}
		u := &recording.Usage{At: at(float64(s) + 1), Node: [recording.NodeValueCount]int64{recording.NodeOOMKills: killed}}
		for name, end := range m.gone[s] {
			live = slices.DeleteFunc(live, func(l string) bool { return l == name })
			u.Gone = append(u.Gone, recording.Gone{Pod: podOf(name), End: end})
		}
		for _, name := range live {
			if m.begin[name] > s {
				continue
			}
			u.Pods = append(u.Pods, recording.PodUsage{Pod: podOf(name)})
		}
		if m.usages != nil {
			m.usages(u)
		}
		if data, ok = e.Usage(data, u); !ok {
			tb.Fatal("not encoded")
		}
	}
	return data
}

// lineOf returns a line of the decision log.
func lineOf(tb testing.TB, seconds float64, line keys) json.RawMessage {
	tb.Helper()
	all := keys{"time": at(seconds)}
	for key, value := range line {
		all[key] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// about returns a decision about a pod for memory. The ranking is a, b, c, d, with the usage of 400, 300, 200 and
// 100 MiB, and 50 MiB are missing.
func about(verb, pod string, more ...keys) keys {
	c := &decisionlog.Choice{Cause: "memory.available", Kubelet: "shop/a", Pods: len(pods), Shortage: 50 * mib}
	for i, name := range pods {
		usage := signals.Amount(400-100*i) * mib
		p := decisionlog.Place{Place: i + 1, Pod: "shop/" + name, UID: "uid-" + name, Frees: int64(usage), Key: ranking.Key{Usage: usage, Exceeds: true}}
		if name < pod {
			p.Passed = "too small to help"
		}
		c.Places = append(c.Places, p)
	}
	line := keys{"decision": verb, "pod": "shop/" + pod, "uid": "uid-" + pod, "signal": "memory.available", "threshold": "memory.available<100Mi", "available": 50 * mib,
		"message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ", "choice": c}
	for _, m := range more {
		for key, value := range m {
			line[key] = value
		}
	}
	return line
}

// killed returns the line of an OOM kill.
func killed(pod, limitOf string) keys {
	return keys{"decision": "oom-kill", "reason": "why", "pod": "shop/" + pod, "uid": "uid-" + pod, "container": "app", "limitOf": limitOf, "kills": 1}
}

func compare(tb testing.TB, o Options, files ...[]byte) *Report {
	tb.Helper()
	r := NewReading(o)
	for _, data := range files {
		if err := r.AddRecording("node.recording", data); err != nil {
			tb.Fatal(err)
		}
	}
	return reportOf(tb, r)
}

func reportOf(tb testing.TB, r *Reading) *Report {
	tb.Helper()
	report, err := r.Report()
	if err != nil {
		tb.Fatal(err)
	}
	return report
}
