package why_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/why"
	"plimsoll.dev/plimsoll/ranking"
)

func of[T any](v T) *T { return &v }

// leaky is the record of a hard eviction for memory.
func leaky() *decisionlog.Record {
	r := record(signals.MemoryAvailable, ranking.Key{Usage: 900 * mib, Protection: signals.Critical}, ranking.Key{Usage: 312*mib + 512<<10, Request: 20 * mib}, ranking.Key{Usage: 122 * mib, Request: 200 * mib})
	r.Time, r.Check, r.Threshold = time.Date(2026, 11, 3, 10, 2, 8, 123, time.FixedZone("", 3600)), "periodic", "memory.available<100Mi"
	r.Available, r.Capacity, r.Rate, r.TimeToExhaustion = of(int64(78812<<10)), of(int64(512*mib)), of(int64(159296202)), of(506.625)
	r.Message = "The node was low on resource: memory."
	r.Processes, r.ExitTime, r.FreedBytes, r.End = 3, of(18.613), of(int64(326393856)), "recovered"
	r.Choice.Kubelet, r.Choice.Pods = r.Pod, 12
	for i := range r.Choice.Places {
		r.Choice.Places[i].Frees = int64(r.Choice.Places[i].Usage)
	}
	return r
}

func TestText_HardEviction(t *testing.T) {
	x := why.Explain("node-1", leaky())
	want := `Pod ns/pod-1 was evicted from node node-1.

Time:     2026-11-03T09:02:08Z, by a periodic check
UID:      pod-1
Kind:     hard eviction, processes that got a signal: 3, the last process exited after 18.6ms
Cause:    memory.available<100Mi: available 76Mi of 512Mi, decreasing by 151Mi per second, exhausted in 506.6ms
Status:   The node was low on resource: memory.
Kubelet:  would have evicted the same pod
Result:   311Mi more available, recovered

Ranking of 12 pods at that time, the first to evict at the top:
     1  ns/pod-0  uses 900Mi, 900Mi above its request, priority 0, frees 900Mi, passed over: critical pod
*    2  ns/pod-1  uses 320000Ki, 299520Ki above its request, priority 0, frees 312Mi
     3  ns/pod-2  uses 122Mi, within its request of 200Mi, priority 0, frees 122Mi
Not ns/pod-2 instead: ns/pod-1 exceeds its request, and ns/pod-2 does not.

Each of these alone would have saved it. ns/pod-2 would have been evicted instead:
  - a request of at least 391Mi of memory; it was 20Mi
`
	if got := x.Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestText_StatusNotAccepted(t *testing.T) {
	r := leaky()
	r.Status = decisionlog.Pending
	want := "Status:   The node was low on resource: memory. The API server had not accepted it when this was recorded. Without it, a kubelet starts the pod again.\n"
	x := why.Explain("node-1", r)
	if got := x.Text(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwithout %s", got, want)
	}
}

func TestText_OtherEvictions(t *testing.T) {
	alone := record(signals.PIDAvailable, ranking.Key{Usage: 900, Tasks: 2000})
	alone.Check = "early"
	first := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib, Request: 10 * mib}, ranking.Key{Usage: 300 * mib})
	first.Choice.Kubelet = "ns/pod-9"
	deleted := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib}, ranking.Key{Usage: 300 * mib})
	deleted.Choice.Deleted = true
	limited := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib, Request: 10 * mib}, ranking.Key{Usage: 300 * mib})
	limited.Choice.Limited = true
	later := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib}, ranking.Key{Usage: 300 * mib})
	later.Signal, later.Threshold, later.Choice.Cause = "swap.available", "swap.available<1Gi", "swap.available"
	begun := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib})
	begun.Grace = of(int64(30))
	stuck := record(signals.MemoryAvailable, ranking.Key{Usage: 500 * mib})
	stuck.Grace, stuck.End = of(int64(30)), "escalated: met; not ended in time"
	last := record(signals.MemoryAvailable, ranking.Key{Usage: 5 * mib}, ranking.Key{Usage: 300 * mib, Last: true})
	soft := record(signals.NodefsAvailable, ranking.Key{Usage: 3 * gib}, ranking.Key{Usage: 2 * gib})
	soft.Grace, soft.End = of(int64(30)), "withdrawn"
	soft.Failed = []decisionlog.PodReason{{Pod: "ns/a", Reason: "it hangs"}}
	limit := &decisionlog.Record{Pod: "ns/a", Signal: "memory.available", Threshold: "memory.available<100Mi", Message: "Usage of EmptyDir volume \"x\" exceeds the limit \"1Gi\".",
		Choice: &decisionlog.Choice{Cause: "emptydirfs.limit"}}
	for about, test := range map[string]struct {
		record *decisionlog.Record
		want   []string
		not    []string
	}{
		"without another pod": {alone, []string{"by an early check", "runs 900 processes with 2k threads", "No other pod could have been evicted"}, []string{"Not ", "frees"}},
		"with every change": {first, []string{
			"  - a request of at least 201Mi of memory; it was 10Mi\n",
			"  - a usage of at most 309Mi of memory; it was 500Mi of memory. A limit of that amount bounds it",
			"  - a priority of at least 1; it was 0\n", "Kubelet:  would have evicted ns/pod-9\n",
			"Not ns/pod-1 instead: ns/pod-0 is further above its request: by 490Mi, and ns/pod-1 by 300Mi.\n"}, nil},
		"chosen for its deletion": {deleted, []string{"Deleted pods held the missing amount", "It was being deleted already"}, []string{"Each of these", "Not ns/", "instead"}},
		"after a limit":           {limited, []string{"passed over for a limit on evictions", "alone holds the missing amount", "is evicted, or none"}, []string{"Each of these", "Not ns/", "instead"}},
		"of a later version":      {later, []string{"Cause:    swap.available swap.available<1Gi\n", "The ranking is not recorded"}, []string{"limit"}},
		"without an end":          {begun, []string{"The soft eviction of pod ns/pod-0 from node n began. Its end is not recorded."}, []string{"was evicted"}},
		"it did not end":          {stuck, []string{"had not ended when the wait for it was over"}, []string{"was evicted"}},
		"without a change":        {last, []string{"No request, usage or priority of this pod alone would have saved it: ns/pod-1 asked to go last.\n"}, []string{"  - "}},
		"withdrawn": {soft, []string{"and was not evicted: the request was withdrawn", "soft eviction with a grace period of 30 s", "Failed:   ns/a: it hangs\n",
			"of ephemeral storage. A limit of that amount bounds it: beyond, this pod is evicted"}, []string{"was evicted from"}},
		"above its own limit": {limit, []string{"Cause:    the local-storage limit emptydirfs.limit of the pod", `volume "x" exceeds`, "raise the limit"}, []string{"memory.available", "Ranking", "Kubelet"}},
		"without a ranking":   {&decisionlog.Record{Pod: "ns/a", Signal: "memory.available"}, []string{"The ranking is not recorded"}, []string{"Kubelet"}},
	} {
		x := why.Explain("n", test.record)
		got := x.Text()
		for _, part := range test.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is missing in\n%s", about, part, got)
			}
		}
		for _, part := range test.not {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q is in\n%s", about, part, got)
			}
		}
	}
}

// Wrong clocks do not hide the evictions of other nodes.
func TestNewest_FutureIsLast(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var all []why.Explanation
	for node, at := range []time.Duration{-time.Hour, 80 * 365 * 24 * time.Hour, time.Minute, -time.Minute} {
		all = append(all, why.Explanation{Node: fmt.Sprint(node), Eviction: &decisionlog.Record{Time: now.Add(at)}})
	}
	why.Newest(all, now)
	if got := all[0].Node + all[1].Node + all[2].Node + all[3].Node; got != "2301" {
		t.Errorf("got the order %s, want 2301", got)
	}
}

// The reason is that of the ranking: with the two figures exchanged, the other pod is first.
func TestExplain_ReasonFollowsOrder(t *testing.T) {
	type key = ranking.Key
	for _, test := range []struct {
		signal signals.Signal
		a, b   key
		want   string
	}{
		{signals.MemoryAvailable, key{Usage: 5}, key{Usage: 9, Last: true}, "b asked to go last"},
		{signals.MemoryAvailable, key{NoStats: true}, key{Usage: 9}, "nothing was measured of a"},
		{signals.MemoryAvailable, key{Usage: 5, Request: 1, Priority: 9}, key{Usage: 5, Request: 5}, "a exceeds its request, and b does not"},
		{signals.MemoryAvailable, key{Usage: 5, Priority: 1}, key{Usage: 9, Priority: 2}, "the priority of a is 1, and that of b is 2"},
		{signals.MemoryAvailable, key{Usage: 5, EvictionPriority: -1}, key{Usage: 9}, "at equal priority, the eviction priority of a is -1, and that of b is 0"},
		{signals.MemoryAvailable, key{Usage: 9, Request: 1}, key{Usage: 9, Request: 5}, "a is further above its request: by 8, and b by 4"},
		{signals.MemoryAvailable, key{Usage: 5, Request: 6}, key{Usage: 5, Request: 9}, "a is nearer to its request: 1 below, and b 4 below"},
		{signals.MemoryAvailable, key{Usage: 5}, key{Usage: 5}, "all criteria are equal, and the order of the UIDs decides"},
		{signals.NodefsAvailable, key{Usage: 5, Incomplete: "in part"}, key{Usage: 9}, "a could not be measured completely"},
		{signals.NodefsInodesFree, key{Usage: 5}, key{}, "a uses inodes, and b none"},
		{signals.NodefsInodesFree, key{Usage: 5000}, key{Usage: 300}, "a uses 5k inodes, and b 300 inodes"},
		{signals.PIDAvailable, key{Usage: 1, Priority: -1}, key{Usage: 9}, "the priority of a is -1, and that of b is 0"},
		{signals.PIDAvailable, key{Usage: 1, Priority: -1}, key{NoStats: true}, "the priority of a is -1, and that of b is 0"},
		{signals.PIDAvailable, key{Usage: 9}, key{Usage: 7}, "a uses 9 processes, and b 7 processes"},
	} {
		r := record(test.signal, test.a, test.b)
		x := why.Explain("n", r)
		got := strings.NewReplacer("ns/pod-0", "a", "ns/pod-1", "b").Replace(x.WhyNotNext)
		if got != test.want {
			t.Errorf("%+v, %+v: %q, want %q", test.a, test.b, got, test.want)
		}
		if all := rank(r, r.Choice.Places[0].Key); all[0].Pod.Name != "ns/pod-0" {
			t.Errorf("%+v is not ranked before %+v", test.a, test.b)
		}
	}
}
