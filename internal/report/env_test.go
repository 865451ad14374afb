package report

import (
	"encoding/json"
	"fmt"
	"strings"
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

const configuration = `{"apiVersion":"plimsoll.dev/v1alpha1","kind":"AgentConfiguration","evictionHard":{"memory.available":"100Mi"},"enforceNodeAllocatable":[]}`

func header() recording.Header {
	return recording.Header{Segment: 1, Version: "1.2.3", Node: "node-7", Kernel: "6.12.4", BootID: "boot", CgroupVersion: 2, Started: started, SinceBoot: time.Hour, Config: json.RawMessage(configuration)}
}

// recorded encodes values as a segment: each is a *Check, a *Usage, or a Decision.
func recorded(tb testing.TB, h recording.Header, values ...any) []byte {
	tb.Helper()
	e := recording.NewEncoder(h)
	b, err := e.Header(nil)
	ok := err == nil
	for _, v := range values {
		if !ok {
			tb.Fatalf("not encoded: %v, before %+v", err, v)
		}
		switch v := v.(type) {
		case *recording.Check:
			b, ok = e.Check(b, v)
		case *recording.Usage:
			b, ok = e.Usage(b, v)
		case *recording.Decision:
			b, ok = e.Decision(b, v)
		}
	}
	if !ok {
		tb.Fatal("the last value was not encoded")
	}
	return b
}

// check returns a periodic check of a node with 4 GiB of memory.
func check(seconds float64, available signals.Amount) *recording.Check {
	c := &recording.Check{Seq: uint64(seconds * 10), Snapshot: signals.Snapshot{At: at(seconds)}}
	c.Snapshot.Node[signals.MemoryAvailable] = signals.Observed(available, 4<<30, at(seconds))
	return c
}

// under returns a check under memory pressure.
func under(c *recording.Check) *recording.Check {
	c.Conditions.Add(signals.MemoryPressure)
	return c
}

func podOf(name string, request signals.Amount) *signals.Pod {
	return &signals.Pod{UID: "uid-" + name, Namespace: "shop", Name: name, MemoryRequest: signals.Quantity{Value: request}}
}

func candidate(p *signals.Pod, memory signals.Bytes) signals.Candidate {
	return signals.Candidate{Pod: p, Usage: &signals.Usage{Memory: signals.Of(memory), MemoryRelief: signals.Of(memory - memory/10)}}
}

// evicting returns a check that evicts a pod for memory, by the ranking of the measured pods.
func evicting(c *recording.Check, pod *signals.Pod, measured ...signals.Candidate) *recording.Check {
	c.Met.Add(signals.MemoryAvailable)
	c.Act = &recording.Act{Acted: true, Signal: signals.MemoryAvailable, Measured: [][]signals.Candidate{measured},
		Evicted: &recording.Evicted{Pod: pod, Cause: "memory.available", Hard: true, GracePeriod: 1, Message: "The node was low on resource: memory. ", Annotations: map[string]string{}}}
	for _, m := range measured {
		c.Act.Ranking = append(c.Act.Ranking, m.Pod)
	}
	return under(c)
}

// logged returns a line of the decision log.
func logged(tb testing.TB, seconds float64, keys map[string]any) *recording.Decision {
	tb.Helper()
	text, err := json.Marshal(keys)
	if err != nil {
		tb.Fatal(err)
	}
	return &recording.Decision{At: at(seconds), Line: text}
}

// chosen is the choice of a pod for memory, with places of the ranking.
func chosen(kubelet string, places ...decisionlog.Place) *decisionlog.Choice {
	return &decisionlog.Choice{Cause: "memory.available", Kubelet: kubelet, Pods: len(places), Places: places}
}

// place is a place of a pod with the given usage and request.
func place(n int, p *signals.Pod, usage, request signals.Amount, passed string) decisionlog.Place {
	return decisionlog.Place{Place: n, Pod: p.Key(), UID: p.UID, Frees: int64(usage), Passed: passed,
		Key: ranking.Key{Usage: usage, Request: request, Exceeds: usage > request, Priority: p.Priority}}
}

// keys are the keys of a line.
type keys = map[string]any

// usage returns the usage of pods; values are theirs in the order of the pods.
func usage(seconds float64, kills int64, pods ...recording.PodUsage) *recording.Usage {
	u := &recording.Usage{At: at(seconds), Pods: pods}
	for n := range u.Node {
		u.Node[n] = recording.Unknown
	}
	u.Node[recording.NodeOOMKills] = kills
	return u
}

func used(p *signals.Pod, memory, kills int64) recording.PodUsage {
	u := recording.PodUsage{Pod: p}
	for n := range u.Values {
		u.Values[n] = recording.Unknown
	}
	u.Values[recording.WorkingSet], u.Values[recording.OOMKills] = memory, kills
	return u
}

// leak is the recording of a minute: a pod leaks, is evicted at 40 s, and memory recovers. The kernel ended
// a process of another pod, and one of no known pod. A kubelet evicted a third pod.
func leak(tb testing.TB) []byte {
	leaky, db, proxy, batch := podOf("leaky", 20*mib), podOf("db", 200*mib), podOf("proxy", 0), podOf("batch", 10*mib)
	proxy.Protection, proxy.Priority = signals.Critical, 2_000_001_000
	usages := func(seconds float64, leaked, kills int64) *recording.Usage {
		return usage(seconds, 3+kills, used(leaky, leaked, 0), used(db, 125*mib, 0), used(proxy, 30*mib, 0), used(batch, 60*mib, min(kills, 1)))
	}
	gone := usage(51, 5, used(db, 125*mib, 0), used(proxy, 30*mib, 0))
	gone.Gone = []recording.Gone{{Pod: leaky, End: recording.EndEvicted}, {Pod: batch, End: recording.EndEvicted}}
	evict := evicting(check(40, 78*mib), leaky, candidate(proxy, 30*mib), candidate(leaky, 312*mib), candidate(db, 125*mib))
	early := check(35, 150*mib)
	early.Snapshot.Kind = signals.Early
	return recorded(tb, header(),
		check(0, 2<<30), usages(1, 60*mib, 0), check(10, 1500*mib), usages(11, 130*mib, 0), check(20, 900*mib), usages(21, 200*mib, 1), check(30, 400*mib),
		usages(31, 280*mib, 2), early,
		logged(tb, 40, keys{"decision": "evict", "check": "periodic", "reason": "memory.available<100Mi: met, available 78Mi", "signal": "memory.available", "pod": "shop/leaky", "uid": "uid-leaky",
			"message": "The node was low on resource: memory. ", "processes": 1, "killMillis": 0.884, "exitMillis": 18.613, "freedBytes": 310 * mib, "status": "reported",
			"threshold": "memory.available<100Mi", "available": 78 * mib, "capacity": 4 << 30,
			"choice": chosen("shop/leaky", place(1, proxy, 30*mib, 0, "critical pod"), place(2, leaky, 312*mib, 20*mib, ""), place(3, db, 125*mib, 200*mib, ""))}),
		evict,
		logged(tb, 40.02, keys{"decision": "reclaim-done", "reason": "recovered", "signal": "memory.available", "pod": "shop/leaky", "uid": "uid-leaky", "freedBytes": 311 * mib}),
		under(check(50, 400*mib)), gone, check(60, 410*mib),
		logged(tb, 60, keys{"decision": "conditions", "check": "periodic", "reason": "nothing met", "conditions": []string{}}))
}

func read(tb testing.TB, data []byte, o Options) *Incident {
	tb.Helper()
	i, err := Read(data, o)
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

// forms returns a report in each form.
func forms(tb testing.TB, i *Incident) map[string]string {
	tb.Helper()
	return map[string]string{"html": string(i.HTML()), "md": string(i.Markdown()), "svg": string(i.SVG())}
}

// missingIn returns the wanted sentences that are not among the given ones.
func missingIn(got []string, want ...string) (missing []string) {
	all := "\n" + plain(strings.Join(got, "\n")) + "\n"
	for _, sentence := range want {
		if !strings.Contains(all, "\n"+sentence+"\n") {
			missing = append(missing, sentence)
		}
	}
	return missing
}

func numbered(name string, n int) string { return fmt.Sprintf("%s-%d", name, n) }
