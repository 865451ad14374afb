package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/recording"
)

// maxExportBytes bounds a scenario, which `plimsoll simulate` must be able to read.
const maxExportBytes = 64 << 20

// ErrTooManyData is an error of [ExportScenario], as [ErrTooManyPods] is.
var ErrTooManyData = fmt.Errorf("the scenario would be larger than %d bytes: choose a shorter time", maxExportBytes)

// decisive are the options that decide, beside localStorageCapacityIsolation, which the recording has
// as it was in effect.
var decisive = []string{"evictionHard", "evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim", "mergeDefaultEvictionSettings", "evictionMaxPodGracePeriod",
	"evictionPressureTransitionPeriod", "enforceNodeAllocatable", "evictionChoice", "earlyEviction", "earlyEvictionHorizon",
	"evictionsPerHour", "maxIneffectiveEvictions", "ineffectiveEvictionBackoff", "ownerBackoff", "protectedNamespaces", "evictionPolicyNamespaces"}

// scenarioStep is a step of a scenario, as it is written.
type scenarioStep struct {
	At           string                   `json:"at"`
	Check        string                   `json:"check,omitempty"`
	Restart      bool                     `json:"restart,omitempty"`
	Add          []json.RawMessage        `json:"add,omitempty"`
	Remove       []string                 `json:"remove,omitempty"`
	Node         map[string]scenarioValue `json:"node"`
	AfterReclaim map[string]scenarioValue `json:"afterReclaim,omitempty"`
	KillError    string                   `json:"killError,omitempty"`
	Usage        map[string]scenarioUsage `json:"usage,omitempty"`
}

type scenarioValue struct {
	Available int64  `json:"available"`
	Capacity  int64  `json:"capacity"`
	Time      string `json:"time,omitempty"`
}

// ExportScenario writes the checks of a recording as a NodeScenario. A scenario has less than a
// recording, and its head names what is missing. It returns [recording.ErrNoChecks], [ErrTooManyData],
// [ErrTooManyPods], or the first error of w.
func ExportScenario(data []byte, w io.Writer) error {
	x := exporter{present: map[string]string{}, usage: map[string]scenarioUsage{}}
	r := recording.NewReader(data)
	for e := r.Next(); e != nil && x.err == nil; e = r.Next() {
		switch {
		case e.Header != nil:
			x.begin(e.Header)
		case e.Usage != nil:
			x.addUsage(e.Usage)
		case e.Check != nil:
			x.addCheck(e.Check)
		}
	}
	if x.err == nil && len(x.steps) == 0 {
		x.err = recording.ErrNoChecks
	}
	if x.err != nil {
		return x.err
	}
	return x.write(w)
}

// exporter collects the steps of a scenario.
type exporter struct {
	err     error
	header  *recording.Header // of the first run
	run     *recording.Header
	first   *recording.Check
	origin  time.Time
	last    time.Duration
	restart bool
	stale   bool // pods may have ended between two runs of the agent

	initial podSet
	present map[string]string // UID of each active pod, by namespace/name
	add     podSet
	remove  podSet                   // names alone
	usage   map[string]scenarioUsage // the last known one
	steps   []scenarioStep
	begun   int // the step that began a garbage collection, plus one
	size    int // of the scenario, in bytes: an estimate
}

// grow adds to the size of the scenario.
func (x *exporter) grow(bytes int) {
	if x.size += bytes; x.size > maxExportBytes && x.err == nil {
		x.err = ErrTooManyData
	}
}

func (x *exporter) begin(h *recording.Header) {
	if x.header == nil {
		x.header = h
	}
	if x.run != nil && !h.SameRun(x.run) {
		x.restart, x.stale = true, true
	}
	x.run = h
}

// see makes a pod active, in place of an earlier version of it.
func (x *exporter) see(p *signals.Pod) {
	key := p.Key()
	uid, present := x.present[key]
	switch {
	case x.err != nil || uid == p.UID:
		return
	case !present && len(x.present) == recording.MaxTracked:
		x.err = ErrTooManyPods
		return
	}
	text, err := json.Marshal(podObject(p))
	if err != nil {
		x.err = fmt.Errorf("encode pod %s: %w", key, err)
		return
	}
	x.present[key] = p.UID
	x.grow(len(text)) // also if a later version takes its place: this bounds the work, too
	if len(x.steps) == 0 {
		x.initial.put(key, text)
		return
	}
	x.add.put(key, text)
	x.remove.drop(key)
}

func (x *exporter) addUsage(u *recording.Usage) {
	for _, g := range u.Gone {
		if key := g.Pod.Key(); x.present[key] == g.Pod.UID {
			x.leave(key)
		}
	}
	if x.stale {
		x.leaveUnmeasured(u)
	}
	for i := range u.Pods {
		p := &u.Pods[i]
		if x.see(p.Pod); x.err != nil {
			return
		}
		v := scenarioUsage{processes: x.usage[p.Pod.Key()].processes}
		v.set(&v.Memory, p.Values[recording.WorkingSet])
		v.set(&v.EphemeralStorage, p.Values[recording.Disk])
		x.usage[p.Pod.Key()] = v
	}
}

// leaveUnmeasured makes the pods inactive that ended between two runs of the agent.
func (x *exporter) leaveUnmeasured(u *recording.Usage) {
	x.stale = false
	measured := map[string]bool{}
	for i := range u.Pods {
		measured[u.Pods[i].Pod.UID] = true
	}
	for _, key := range slices.Sorted(maps.Keys(x.present)) {
		if !measured[x.present[key]] {
			x.leave(key)
		}
	}
}

func (x *exporter) leave(key string) {
	delete(x.present, key)
	delete(x.usage, key)
	if len(x.steps) == 0 {
		x.initial.drop(key)
		return
	}
	x.add.drop(key)
	x.remove.put(key, nil)
	x.grow(4 + len(key))
}

func (x *exporter) addCheck(c *recording.Check) {
	if c.Act != nil && len(c.Act.Measured) > 0 {
		for _, m := range c.Act.Measured[len(c.Act.Measured)-1] {
			if x.see(m.Pod); x.err != nil {
				return
			}
			if m.Usage != nil {
				x.usage[m.Pod.Key()] = measuredUsage(m.Pod, m.Usage)
			}
		}
	}
	if x.first == nil {
		x.first, x.origin = c, c.Snapshot.At
	}
	at := c.Snapshot.At.Sub(x.origin)
	if len(x.steps) > 0 && at <= x.last { // the clock of a later run
		at = x.last + time.Millisecond
	}
	x.last = at
	s := scenarioStep{At: at.String(), Restart: x.restart, Add: x.add.texts(), Remove: x.remove.keys(), Node: x.node(&c.Snapshot.Node, at, c.Snapshot.At), Usage: map[string]scenarioUsage{}}
	if c.Snapshot.Kind == signals.Early {
		s.Check = "early"
	}
	for name, u := range x.usage {
		s.Usage[name] = u
		x.grow(48 + len(name) + u.size())
	}
	x.restart, x.add, x.remove = false, podSet{}, podSet{}
	x.steps = append(x.steps, s)
	if c.Act != nil {
		x.addAct(c, at)
	}
	x.grow(400)
}

// addAct adds the results of plans to the last step. The agent collects garbage beside its checks, a
// scenario within one: what the next checks observed is the result.
func (x *exporter) addAct(c *recording.Check, at time.Duration) {
	a, step := c.Act, &x.steps[len(x.steps)-1]
	if a.Evicted == nil && len(a.Failed) > 0 {
		step.KillError = a.Failed[0].Error
	}
	for _, g := range a.Collections {
		switch {
		case !g.Done && x.begun == 0:
			x.begun = len(x.steps)
		case g.Done && x.begun > 0:
			after := x.node(&c.Snapshot.Node, at, c.Snapshot.At)
			for name, v := range after {
				v.Time = ""
				after[name] = v
			}
			x.steps[x.begun-1].AfterReclaim, x.begun = after, 0
		}
	}
}

// node returns the known observations. A signal that was not observed anew has its time.
func (x *exporter) node(seen *signals.Observations, at time.Duration, now time.Time) map[string]scenarioValue {
	values := map[string]scenarioValue{}
	for s := range signals.All {
		o := &seen[s]
		if !o.Known {
			continue
		}
		v := scenarioValue{Available: max(int64(o.Available), 0), Capacity: max(int64(o.Capacity), 0)}
		if age := now.Sub(o.Time); age > time.Millisecond {
			v.Time = max(at-age, 0).String()
		}
		values[s.String()] = v
	}
	return values
}

// missing is what a scenario has not of its recording.
const missing = `# A scenario has less than the recording it was made of. Not in it:
# - The page cache, and rates over shorter times than that since the step before: early checks may find
#   exhaustion imminent where the agent did not, or the other way.
# - Waits for the end of earlier evictions, for pods that were being deleted, and a shutdown.
# - Usage of pods between two measurements (10 s, near a threshold 1 s): the last one counts.
# - What the end of a pod frees, beside its usage, and how much pods grew: a pod helps by its usage.
# - How a pod would have grown after its end: a pod that was evicted leaves when it did, even if another
#   configuration does not evict it.
# - Changes of the configuration: it is that of the first check.
`

func (x *exporter) write(w io.Writer) error {
	configuration, err := x.config()
	if err != nil {
		return err
	}
	h := x.header
	var b strings.Builder
	// A line break in a name would end the comment.
	fmt.Fprintf(&b, "# Made of a recording: node %s, agent %s, cgroup v%d, from %s on.\n%s", signals.PrintableName(h.Node), signals.PrintableName(h.Version), h.CgroupVersion,
		x.first.At().UTC().Format(time.RFC3339), missing)
	fmt.Fprintf(&b, "apiVersion: plimsoll.dev/v1alpha1\nkind: %s\nconfig: %s\nfilesystems: %s\npods:%s", NodeKind, configuration, x.first.Layout, none(len(x.initial.pods)))
	for _, text := range x.initial.texts() {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	b.WriteString("steps:\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write a scenario: %w", err)
	}
	for i := range x.steps {
		text, err := json.Marshal(&x.steps[i])
		if err == nil {
			_, err = fmt.Fprintf(w, "- %s\n", text)
		}
		if err != nil {
			return fmt.Errorf("write a scenario: %w", err)
		}
	}
	return nil
}

// none returns the notation of an empty list, and the end of the line for another one.
func none(n int) string {
	if n == 0 {
		return " []\n"
	}
	return "\n"
}

// config returns the options that decide, as they were in effect.
func (x *exporter) config() ([]byte, error) {
	all, chosen := map[string]json.RawMessage{}, map[string]any{}
	if err := json.Unmarshal(x.header.Config, &all); err != nil {
		return nil, fmt.Errorf("read the configuration in the recording: %w", err)
	}
	for _, field := range decisive {
		if v, given := all[field]; given {
			chosen[field] = v
		}
	}
	chosen["localStorageCapacityIsolation"] = x.first.StorageLimits
	text, err := json.Marshal(chosen)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of a scenario: %w", err)
	}
	return text, nil
}
