package cluster_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// twin is the reference model of ClusterScenarios, as simple as possible. Each second it visits
// every node and every pod, and stores nothing that it can compute anew. All times are whole
// seconds. It shares no code with the product.
type twin struct {
	play  *play
	nodes map[string]*twinNode
	pods  map[string]*twinPod
	zones map[string]*twinZone // stored state of zones
	full  bool                 // every zone is fully disrupted
	lines []string
	now   int
	took  int // start of the leading controller
	// turn is the recorded order of nodes by time, for cases that the API does not determine:
	// after failovers. Nil: it is computed.
	turn map[moved]bool
}

// moved is a node with its turn at a time.
type moved struct {
	at   int
	node string
}

type twinNode struct {
	zone             string
	excluded, cordon bool
	created          int
	lease, beat      int // last renewal and report; never is -1
	nextLease        int // -1: none
	nextBeat         int
	says             map[string]string // its reports
	api              map[string]string // status by type, in the API
	changed          int               // lastTransitionTime of Ready
	unheard          bool              // the controller set Ready to Unknown
	taints           map[string]int    // key:effect to timeAdded
	since            int               // start of Ready being neither True nor absent; -1: it is True or absent
	evicted          bool
}

type twinPod struct {
	play    playPod
	created int
	ready   bool
	timed   bool
}

type twinZone struct {
	state string
	rate  float64
	token int // time of the next one; never is math.MaxInt
}

const never = math.MaxInt

func newTwin(p *play) *twin {
	return &twin{play: p, nodes: map[string]*twinNode{}, pods: map[string]*twinPod{}, zones: map[string]*twinZone{}}
}

// run returns the lines in the order of the output.
func (w *twin) run() []string {
	for _, n := range w.play.nodes {
		w.register(n)
	}
	for _, p := range w.play.pods {
		w.pods[p.name] = &twinPod{play: p, ready: !p.finished}
	}
	var all []string
	for ; w.now < w.play.until; w.now++ {
		for _, e := range w.play.events {
			if e.at == w.now {
				w.happen(e)
			}
		}
		w.heartbeats()
		w.act()
		slices.Sort(w.lines)
		all = append(all, w.lines...)
		w.lines = nil
	}
	return all
}

func (w *twin) say(format string, values ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%ds ", w.now)+fmt.Sprintf(format, values...))
}

func (w *twin) register(n playNode) {
	w.nodes[n.name] = &twinNode{
		zone: n.zone, excluded: n.excluded, created: w.now, lease: -1, beat: -1, nextLease: w.now, nextBeat: w.now, since: -1,
		says: map[string]string{"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"},
		api:  map[string]string{}, taints: map[string]int{},
	}
}

func (w *twin) happen(e playEvent) {
	n := w.nodes[e.node]
	switch e.do {
	case "stop":
		n.nextLease, n.nextBeat = -1, -1
	case "stopLease":
		n.nextLease = -1
	case "stopStatus":
		n.nextBeat = -1
	case "resume":
		n.nextLease, n.nextBeat, n.says["Ready"] = w.now, w.now, "True"
	case "ready":
		n.says["Ready"] = e.value
		w.report(n, e.node)
	case "pressure":
		n.says["DiskPressure"] = e.value
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
		w.pods[e.pod.name] = &twinPod{play: *e.pod, created: w.now, ready: !e.pod.finished}
	case "deletePod":
		delete(w.pods, e.value)
	case "restart": // a new controller: it has timers for the objects it has observed
		w.took = w.now
		for _, p := range w.pods {
			p.timed = false
		}
	case "updatePod":
		if p := w.pods[e.pod.name]; p != nil {
			p.play.tolerates = e.pod.tolerates
		}
	}
}

func (w *twin) report(n *twinNode, name string) {
	if n.api["Ready"] != n.says["Ready"] {
		n.changed = w.now
	}
	maps.Copy(n.api, n.says)
	n.beat, n.unheard = w.now, false
	for _, p := range w.pods {
		if p.play.node == name && n.says["Ready"] == "True" && !p.play.finished {
			p.ready = true
		}
	}
}

func (w *twin) heartbeats() {
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
func (w *twin) names() []string { return slices.Sorted(maps.Keys(w.nodes)) }

func (w *twin) act() {
	for _, name := range w.names() {
		w.silence(name, w.nodes[name])
	}
	w.disrupt()
	if !w.full {
		w.turns()
	}
	for _, name := range w.names() {
		w.taint(name, w.nodes[name])
	}
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		w.care(key, w.pods[key])
	}
}

func (w *twin) silence(name string, n *twinNode) {
	grace := w.play.grace
	if n.api["Ready"] == "" {
		grace = w.play.startup
	}
	due := max(n.created, n.lease, n.beat) + grace
	if n.api["Ready"] != "Unknown" {
		due = max(due, w.took+10) // time for a sign of life to a new leader
	}
	if w.now >= due {
		for _, t := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
			if n.api[t] == "Unknown" {
				continue
			}
			reason := map[bool]string{true: "NodeStatusNeverUpdated", false: "NodeStatusUnknown"}[n.api[t] == ""]
			n.api[t] = "Unknown"
			w.say("condition %s %s Unknown %s", name, t, reason)
			if t == "Ready" {
				n.changed, n.unheard = w.now, true
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
func (w *twin) disrupt() {
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
		rate := w.play.rate
		switch {
		case w.full:
			rate = 0
		case states[zone] == "PartialDisruption" && unready[zone]+ready[zone] > w.play.large:
			rate = w.play.secondary
		case states[zone] == "PartialDisruption":
			rate = 0
		}
		w.turnInto(zone, states[zone], rate)
	}
}

func (w *twin) turnInto(zone, state string, rate float64) {
	z := w.zones[zone]
	if z == nil {
		z = &twinZone{"Normal", w.play.rate, 0}
		if rate == 0 {
			z.token = never
		}
		w.zones[zone] = z
		if state == "Normal" {
			z.rate = rate
			return
		}
		z.state, z.rate = state, rate
		w.say("zone %q %s %g", zone, state, rate)
		return
	}
	if z.state != state || z.rate != rate {
		w.say("zone %q %s %g", zone, state, rate)
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

// turns grants tokens by the longest wait.
func (w *twin) turns() {
	if w.turn != nil {
		for name, n := range w.nodes {
			if w.turn[moved{w.now, name}] && w.waits(name, n) {
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
		if n.evicted = !w.play.based; w.play.based {
			w.change(waiting[0], n, "add", wantedOf(n)+":NoExecute", w.now)
		}
	}
}

var wantedBy = map[string]string{"False": "node.kubernetes.io/not-ready", "Unknown": "node.kubernetes.io/unreachable"}

func wantedOf(n *twinNode) string { return wantedBy[n.api["Ready"]] }

func (w *twin) waits(name string, n *twinNode) bool {
	if wantedOf(n) == "" {
		return false
	}
	if w.play.based {
		return !n.has("node.kubernetes.io/not-ready:NoExecute") && !n.has("node.kubernetes.io/unreachable:NoExecute")
	}
	begin := n.changed
	if n.api["Ready"] == "Unknown" {
		begin = max(n.created, n.lease, n.beat)
	}
	if n.evicted || w.now < begin+w.play.timeout {
		return false
	}
	for _, p := range w.pods {
		if p.play.node == name && p.movable() {
			return true
		}
	}
	return false
}

func (n *twinNode) has(taint string) bool { _, is := n.taints[taint]; return is }

func (p *twinPod) movable() bool { return !p.play.finished && !p.play.daemon }

func (w *twin) change(name string, n *twinNode, op, taint string, added int) {
	w.say("taint %s %s %s", name, op, taint)
	if n.taints[taint] = added; op == "remove" {
		delete(n.taints, taint)
	}
}

// taint updates a node's taints, except those that need a token.
func (w *twin) taint(name string, n *twinNode) {
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
	if !w.play.based || n.api["Ready"] == "" {
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

// care marks, schedules and evicts one pod, and deletes evicted ones.
func (w *twin) care(key string, p *twinPod) {
	n := w.nodes[p.play.node]
	if n != nil && n.api["Ready"] == "Unknown" && p.ready && (n.unheard || p.created >= n.changed) {
		p.ready = false
		w.say("pod-not-ready %s %s", p.play.node, key)
	}
	if n != nil && n.evicted && p.movable() {
		w.say("evict %s %s node-lost", p.play.node, key)
		delete(w.pods, key)
		return
	}
	due := never
	if n != nil && w.play.manager && !p.play.finished {
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
		w.say("evict %s %s taint", p.play.node, key)
		delete(w.pods, key)
	case due == never && p.timed:
		w.say("cancel %s %s", p.play.node, key)
	}
	if p.timed = due != never; p.play.evicted && w.play.kept > 0 && w.now >= p.created+w.play.kept {
		w.say("clear-pod %s %s", p.play.node, key)
		delete(w.pods, key)
	}
}

var opposites = map[string]string{wantedBy["False"]: wantedBy["Unknown"], wantedBy["Unknown"]: wantedBy["False"]}

// patience returns how many seconds a pod tolerates a taint, by its first matching toleration.
func (p *twinPod) patience(key string) int {
	for _, t := range p.play.tolerates {
		if t.key == "" || t.key == key {
			return t.seconds
		}
	}
	return 0
}

// deadline returns when a pod is evicted for a taint.
func (p *twinPod) deadline(key string, added int) int {
	borne := p.patience(key)
	if borne == forEver {
		return never
	}
	return max(added, p.created) + max(borne, 0)
}
