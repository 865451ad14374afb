package cluster_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// reference is the reference model of ClusterScenarios, as simple as possible. Each second it visits
// every node and every pod, and stores nothing that it can recompute. All times are whole
// seconds. It shares no code with the product.
type reference struct {
	scenario    *scenario
	nodes       map[string]*referenceNode
	pods        map[string]*referencePod
	zones       map[string]*referenceZone // stored state of zones
	full        bool                      // every zone is fully disrupted
	lines       []string
	now         int
	leaderSince int // start of the leading controller
	// tainted is the recorded order of nodes by time, for cases that the API does not determine:
	// after failovers. Nil: it is computed.
	tainted map[taintTime]bool
}

// taintTime is a node with the time of its NoExecute taint.
type taintTime struct {
	at   int
	node string
}

type referenceNode struct {
	zone             string
	excluded, cordon bool
	created          int
	lease, beat      int // last renewal and report; never is -1
	nextLease        int // -1: none
	nextBeat         int
	ownStatus        map[string]string // its reports
	api              map[string]string // status by type, in the API
	changed          int               // lastTransitionTime of Ready
	markedUnknown    bool              // the controller set Ready to Unknown
	taints           map[string]int    // key:effect to timeAdded
	since            int               // start of Ready being neither True nor absent; -1: it is True or absent
	evicted          bool
}

type referencePod struct {
	scenario scenarioPod
	created  int
	ready    bool
	timed    bool
}

type referenceZone struct {
	state string
	rate  float64
	token int // time of the next one; never is math.MaxInt
}

const never = math.MaxInt

func newReference(p *scenario) *reference {
	return &reference{scenario: p, nodes: map[string]*referenceNode{}, pods: map[string]*referencePod{}, zones: map[string]*referenceZone{}}
}

// run returns the lines in the order of the output.
func (w *reference) run() []string {
	for _, n := range w.scenario.nodes {
		w.register(n)
	}
	for _, p := range w.scenario.pods {
		w.pods[p.name] = &referencePod{scenario: p, ready: !p.finished}
	}
	var all []string
	for ; w.now < w.scenario.until; w.now++ {
		for _, e := range w.scenario.events {
			if e.at == w.now {
				w.apply(e)
			}
		}
		w.heartbeats()
		w.control()
		slices.Sort(w.lines)
		all = append(all, w.lines...)
		w.lines = nil
	}
	return all
}

func (w *reference) print(format string, values ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%ds ", w.now)+fmt.Sprintf(format, values...))
}

func (w *reference) register(n scenarioNode) {
	w.nodes[n.name] = &referenceNode{
		zone: n.zone, excluded: n.excluded, created: w.now, lease: -1, beat: -1, nextLease: w.now, nextBeat: w.now, since: -1,
		ownStatus: map[string]string{"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"},
		api:       map[string]string{}, taints: map[string]int{},
	}
}

func (w *reference) apply(e scenarioEvent) {
	n := w.nodes[e.node]
	switch e.do {
	case "stop":
		n.nextLease, n.nextBeat = -1, -1
	case "stopLease":
		n.nextLease = -1
	case "stopStatus":
		n.nextBeat = -1
	case "resume":
		n.nextLease, n.nextBeat, n.ownStatus["Ready"] = w.now, w.now, "True"
	case "ready":
		n.ownStatus["Ready"] = e.value
		w.report(n, e.node)
	case "pressure":
		n.ownStatus["DiskPressure"] = e.value
		if n.nextBeat >= 0 {
			w.report(n, e.node)
		} else {
			n.api["DiskPressure"] = e.value
		}
	case "cordon", "uncordon":
		n.cordon = e.do == "cordon"
	case "taint":
		n.taints["k:NoExecute"] = w.now
	case "untaint":
		delete(n.taints, "k:NoExecute")
	case "move":
		n.zone = e.value
	case "deleteNode":
		delete(w.nodes, e.node)
	case "addNode":
		w.register(*e.added)
	case "addPod":
		w.pods[e.pod.name] = &referencePod{scenario: *e.pod, created: w.now, ready: !e.pod.finished}
	case "deletePod":
		delete(w.pods, e.value)
	case "restart": // a new controller: it has timers for the objects it has observed
		w.leaderSince = w.now
		for _, p := range w.pods {
			p.timed = false
		}
	case "updatePod":
		if p := w.pods[e.pod.name]; p != nil {
			p.scenario.tolerates = e.pod.tolerates
		}
	}
}

func (w *reference) report(n *referenceNode, name string) {
	if n.api["Ready"] != n.ownStatus["Ready"] {
		n.changed = w.now
	}
	maps.Copy(n.api, n.ownStatus)
	n.beat, n.markedUnknown = w.now, false
	for _, p := range w.pods {
		if p.scenario.node == name && n.ownStatus["Ready"] == "True" && !p.scenario.finished {
			p.ready = true
		}
	}
}

func (w *reference) heartbeats() {
	for name, n := range w.nodes {
		if n.nextBeat == w.now {
			n.nextBeat += 300
			w.report(n, name)
		}
		if n.nextLease == w.now {
			n.nextLease += 10
			n.lease = w.now
		}
	}
}

// names returns the names of nodes, in order.
func (w *reference) names() []string { return slices.Sorted(maps.Keys(w.nodes)) }

func (w *reference) control() {
	for _, name := range w.names() {
		w.checkHeartbeat(name, w.nodes[name])
	}
	w.computeZones()
	if !w.full {
		w.grantTokens()
	}
	for _, name := range w.names() {
		w.taint(name, w.nodes[name])
	}
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		w.handlePod(key, w.pods[key])
	}
}

func (w *reference) checkHeartbeat(name string, n *referenceNode) {
	grace := w.scenario.grace
	if n.api["Ready"] == "" {
		grace = w.scenario.startup
	}
	due := max(n.created, n.lease, n.beat) + grace
	if n.api["Ready"] != "Unknown" {
		due = max(due, w.leaderSince+10) // time for a heartbeat to a new leader
	}
	if w.now >= due {
		for _, t := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
			if n.api[t] == "Unknown" {
				continue
			}
			reason := map[bool]string{true: "NodeStatusNeverUpdated", false: "NodeStatusUnknown"}[n.api[t] == ""]
			n.api[t] = "Unknown"
			w.print("condition %s %s Unknown %s", name, t, reason)
			if t == "Ready" {
				n.changed, n.markedUnknown = w.now, true
			}
		}
	}
	switch r := n.api["Ready"]; {
	case r == "True":
		n.since, n.evicted = -1, false
	case r != "" && n.since < 0:
		n.since = w.now
	}
}

// disrupt computes the states and rates of zones.
func (w *reference) computeZones() {
	ready, unready, there := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, n := range w.nodes {
		there[n.zone] = true
		switch {
		case n.excluded:
		case n.api["Ready"] == "True":
			ready[n.zone]++
		default:
			unready[n.zone]++
		}
	}
	states, some := map[string]string{}, false
	w.full = true
	for zone := range there {
		bad, all := unready[zone], unready[zone]+ready[zone]
		states[zone] = "Normal"
		switch {
		case bad > 0 && ready[zone] == 0:
			states[zone] = "FullDisruption"
		case bad > 2 && float64(bad)/float64(all) >= 0.55:
			states[zone] = "PartialDisruption"
		}
		some = some || all > 0
		w.full = w.full && (all == 0 || states[zone] == "FullDisruption")
	}
	w.full = w.full && some
	for _, zone := range slices.Sorted(maps.Keys(states)) {
		rate := w.scenario.rate
		switch {
		case w.full:
			rate = 0
		case states[zone] == "PartialDisruption" && unready[zone]+ready[zone] > w.scenario.large:
			rate = w.scenario.secondary
		case states[zone] == "PartialDisruption":
			rate = 0
		}
		w.setZone(zone, states[zone], rate)
	}
}

func (w *reference) setZone(zone, state string, rate float64) {
	z := w.zones[zone]
	if z == nil {
		z = &referenceZone{"Normal", w.scenario.rate, 0}
		if rate == 0 {
			z.token = never
		}
		w.zones[zone] = z
		if state == "Normal" {
			z.rate = rate
			return
		}
		z.state, z.rate = state, rate
		w.print("zone %q %s %g", zone, state, rate)
		return
	}
	if z.state != state || z.rate != rate {
		w.print("zone %q %s %g", zone, state, rate)
	}
	switch {
	case rate == z.rate:
	case rate == 0:
		z.token = never
	case z.rate == 0 || z.token > w.now:
		z.token = w.now + int(math.Round(1/rate))
	}
	z.state, z.rate = state, rate
}

// grantTokens grants tokens by the longest wait.
func (w *reference) grantTokens() {
	if w.tainted != nil {
		for name, n := range w.nodes {
			if w.tainted[taintTime{w.now, name}] && w.waits(name, n) {
				w.change(name, n, "add", wantedOf(n)+":NoExecute", w.now)
			}
		}
		return
	}
	for zone, z := range w.zones {
		var waiting []string
		for name, n := range w.nodes {
			if n.zone == zone && w.waits(name, n) {
				waiting = append(waiting, name)
			}
		}
		if len(waiting) == 0 || z.token > w.now {
			continue
		}
		slices.SortFunc(waiting, func(a, b string) int {
			return cmp.Or(cmp.Compare(w.nodes[a].since, w.nodes[b].since), cmp.Compare(a, b))
		})
		z.token = w.now + int(math.Round(1/z.rate))
		n := w.nodes[waiting[0]]
		if n.evicted = !w.scenario.based; w.scenario.based {
			w.change(waiting[0], n, "add", wantedOf(n)+":NoExecute", w.now)
		}
	}
}

var wantedBy = map[string]string{"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"}

func wantedOf(n *referenceNode) string { return wantedBy[n.api["Ready"]] }

func (w *reference) waits(name string, n *referenceNode) bool {
	if wantedOf(n) == "" {
		return false
	}
	if w.scenario.based {
		return !n.has("node.kubernetes.io/not-ready:NoExecute") && !n.has("node.kubernetes.io/unreachable:NoExecute")
	}
	begin := n.changed
	if n.api["Ready"] == "Unknown" {
		begin = max(n.created, n.lease, n.beat)
	}
	if n.evicted || w.now < begin+w.scenario.timeout {
		return false
	}
	for _, p := range w.pods {
		if p.scenario.node == name && p.movable() {
			return true
		}
	}
	return false
}

func (n *referenceNode) has(taint string) bool { _, is := n.taints[taint]; return is }

func (p *referencePod) movable() bool { return !p.scenario.finished && !p.scenario.daemon }

func (w *reference) change(name string, n *referenceNode, op, taint string, added int) {
	w.print("taint %s %s %s", name, op, taint)
	if n.taints[taint] = added; op == "remove" {
		delete(n.taints, taint)
	}
}

// taint updates a node's taints, except those that need a token.
func (w *reference) taint(name string, n *referenceNode) {
	if w.full {
		n.evicted = false
	}
	for _, t := range []struct {
		name string
		want bool
	}{
		{"node.kubernetes.io/not-ready:NoSchedule", n.api["Ready"] == "False"},
		{"node.kubernetes.io/unreachable:NoSchedule", n.api["Ready"] == "Unknown"},
		{"node.kubernetes.io/disk-pressure:NoSchedule", n.api["DiskPressure"] == "True"},
		{"node.kubernetes.io/unschedulable:NoSchedule", n.cordon},
	} {
		if n.has(t.name) != t.want {
			w.change(name, n, map[bool]string{true: "add", false: "remove"}[t.want], t.name, w.now)
		}
	}
	if !w.scenario.based || n.api["Ready"] == "" {
		return
	}
	const notReady, unreachable = "node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/unreachable:NoExecute"
	want := wantedOf(n) + ":NoExecute"
	for _, other := range []string{notReady, unreachable} {
		added, is := n.taints[other]
		if !is || other == want && !w.full {
			continue
		}
		w.change(name, n, "remove", other, 0)
		if wantedOf(n) != "" && !w.full {
			w.change(name, n, "add", want, added)
		}
	}
}

// handlePod marks, schedules and evicts one pod, and deletes evicted ones.
func (w *reference) handlePod(key string, p *referencePod) {
	n := w.nodes[p.scenario.node]
	if n != nil && n.api["Ready"] == "Unknown" && p.ready && (n.markedUnknown || p.created >= n.changed) {
		p.ready = false
		w.print("pod-not-ready %s %s", p.scenario.node, key)
	}
	if n != nil && n.evicted && p.movable() {
		w.print("evict %s %s node-lost", p.scenario.node, key)
		delete(w.pods, key)
		return
	}
	due := never
	if n != nil && w.scenario.manager && !p.scenario.finished {
		for taint, added := range n.taints {
			if taintKey, noExecute := strings.CutSuffix(taint, ":NoExecute"); noExecute {
				if other := opposites[taintKey]; taintKey == wantedOf(n) && n.changed > added && p.patience(other) == forEver {
					added = n.changed // it had no timer before the swap
				}
				due = min(due, p.deadline(taintKey, added))
			}
		}
	}
	switch {
	case due <= w.now:
		w.print("evict %s %s taint", p.scenario.node, key)
		delete(w.pods, key)
	case due == never && p.timed:
		w.print("cancel %s %s", p.scenario.node, key)
	}
	if p.timed = due != never; p.scenario.evicted && w.scenario.evictedPodTTL > 0 && w.now >= p.created+w.scenario.evictedPodTTL {
		w.print("clear-pod %s %s", p.scenario.node, key)
		delete(w.pods, key)
	}
}

var opposites = map[string]string{wantedBy["False"]: wantedBy["Unknown"], wantedBy["Unknown"]: wantedBy["False"]}

// patience returns how many seconds a pod tolerates a taint, by its first matching toleration.
func (p *referencePod) patience(key string) int {
	for _, t := range p.scenario.tolerates {
		if t.key == "" || t.key == key {
			return t.seconds
		}
	}
	return 0
}

// deadline returns when a pod is evicted for a taint.
func (p *referencePod) deadline(key string, added int) int {
	borne := p.patience(key)
	if borne == forEver {
		return never
	}
	return max(added, p.created) + max(borne, 0)
}
