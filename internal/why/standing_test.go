package why_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/decisionlog"
	"plimsoll.dev/plimsoll/internal/why"
	"plimsoll.dev/plimsoll/ranking"
)

// observed is a pod, second in the ranking of one eviction for memory, and first in that of an earlier one.
func observed() *why.Observed {
	earlier, later := record(signals.MemoryAvailable, ranking.Key{Usage: 9 * mib}, ranking.Key{Usage: 8 * mib}), record(signals.AllocatableMemoryAvailable, ranking.Key{Usage: 900 * mib}, ranking.Key{Usage: 312*mib + 5, Request: 400 * mib})
	earlier.Choice.Places[0].UID, earlier.Choice.Places[0].Pod = "pod-1", "ns/pod-1"
	earlier.Time, later.Time = time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC), time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC)
	other := record(signals.NodefsAvailable, ranking.Key{Usage: gib})
	other.Choice.Places[0].UID = "pod-1" // another pod with its UID, of an invalid record
	o := &why.Observed{Pod: signals.Pod{Namespace: "ns", Name: "pod-1", UID: "pod-1", Priority: 7, MemoryRequest: signals.Quantity{Value: 400 * mib}}, Phase: "Running",
		Agent: "armed, last check at noon", Records: []decisionlog.Record{*earlier, *later, *other, {Pod: "ns/x"}}}
	o.Pressures[signals.MemoryPressure] = why.Pressure{Status: "True", Since: time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)}
	o.Pressures[signals.DiskPressure] = why.Pressure{Status: "False"}
	return o
}

func TestStanding_Text(t *testing.T) {
	x := why.Explanation{Node: "node-1", Standing: why.Stand(observed())}
	want := `Pod ns/pod-1 is on node node-1. It has not been evicted, as far as that is recorded.

UID:      pod-1
Phase:    Running
Priority: 7
Agent:    armed, last check at noon

memory.available, allocatableMemory.available
  pressure of the node:  True since 2026-11-03T08:00:00Z
  request of the pod:    400Mi: pods above theirs are evicted first
  last recorded place:   2 of 2 for allocatableMemory.available at 2026-11-03T10:00:00Z: uses 327155717, within its request of 400Mi, priority 0, frees 0

nodefs.available, imagefs.available, containerfs.available
  pressure of the node:  False
  request of the pod:    none: any usage is above it, and such pods are evicted first
  last recorded place:   not recorded

nodefs.inodesFree, imagefs.inodesFree, containerfs.inodesFree
  pressure of the node:  False
  last recorded place:   not recorded

pid.available
  pressure of the node:  Unknown
  last recorded place:   not recorded

Not known to the cluster:
  - Its usage and its place among the pods of the node now: the agent measures both when it has to choose, and records them with the next eviction there.
  - Whether the agent's configuration protects it, by its namespace or its annotations, and whether limits on evictions apply.
`
	if got := x.Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestStanding_NamesWhatIsSpecial(t *testing.T) {
	o := observed()
	o.Pod.Protection, o.Requested, o.Unknown = signals.Critical, "soft eviction for memory.available", []string{"the lease: no right"}
	x := why.Explanation{Standing: why.Stand(o)}
	for _, part := range []string{"is on no node yet", "Evicted:  never: critical pod\n", "Request:  soft eviction for memory.available\n", "  - the lease: no right\n"} {
		if !strings.Contains(x.Text(), part) {
			t.Errorf("no %q in\n%s", part, x.Text())
		}
	}
}

// Every signal has its pressure, and an explanation of either kind has no key of the other.
func TestStanding_JSON(t *testing.T) {
	text, err := json.Marshal(&why.Explanation{Node: "n", Standing: why.Stand(observed())})
	if err != nil || strings.Contains(string(text), `"eviction"`) {
		t.Errorf("%s, %v", text, err)
	}
	for _, name := range signals.Names() {
		if strings.Count(string(text), `"`+name+`"`) == 0 {
			t.Errorf("no %s in %s", name, text)
		}
	}
	for _, part := range []string{`"pressure":"True","since":"2026-11-03T08:00:00Z","request":419430400,"last":{"time":`, `"resource":"processes","signals":["pid.available"],"pressure":"Unknown"}`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	x := why.Explain("n", leaky())
	if text, err = json.Marshal(&x); err != nil || strings.Contains(string(text), `"standing"`) {
		t.Errorf("%s, %v", text, err)
	}
}
