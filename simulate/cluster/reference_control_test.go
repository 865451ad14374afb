package cluster_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// controller is the state of a controller that is not in the API.
type controller struct {
	startedAt time.Duration
	since     map[*referenceNode]time.Duration // not ready
	zones     map[string]referenceZone
	full      bool                      // all zones are fully disrupted
	timers    map[*referencePod]bool    // pods with a running timer
	gone      map[*referenceNode]string // nodes with evicted pods, and their Ready at that time
}

type referenceZone struct {
	state string
	rate  float64
	token time.Duration // time of the next token
}

func (w *reference) newController() *controller {
	return &controller{startedAt: w.now, since: map[*referenceNode]time.Duration{}, zones: map[string]referenceZone{}, timers: map[*referencePod]bool{}, gone: map[*referenceNode]string{}}
}

// line is one action, with its sort keys.
type line struct {
	at        time.Duration
	zone      string
	node, pod string
	rank      int
	kind      string // or key
	op        string
	effect    string
	text      string
}

func compareLines(a, b line) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(min(a.rank, 1), min(b.rank, 1)), cmp.Compare(a.zone, b.zone), cmp.Compare(a.node, b.node), cmp.Compare(a.pod, b.pod),
		cmp.Compare(a.rank, b.rank), cmp.Compare(a.kind, b.kind), cmp.Compare(a.op, b.op), cmp.Compare(a.effect, b.effect))
}

func (w *reference) print(l line, do, rest string, args ...any) {
	l.at = w.now
	l.rank = slices.Index([]string{"zone", "condition", "taint", "label", "pod-not-ready", "evict", "cancel", "clear-pod"}, do)
	at := strconv.FormatFloat(float64(w.now.Round(time.Millisecond))/1e9, 'f', -1, 64)
	l.text = fmt.Sprintf(`{"at":"%ss","do":%q,`, at, do) + fmt.Sprintf(rest, args...) + "}"
	w.lines = append(w.lines, l)
}

func (w *reference) printTaint(n *referenceNode, op string, t taint) {
	w.print(line{node: n.name, kind: t.key, op: op, effect: t.effect}, "taint", `"node":%q,"op":%q,"key":%q,"effect":%q`, n.name, op, t.key, t.effect)
}

// modes returns which component taints and which one evicts.
func (w *reference) modes() (taints, tolerations, legacy bool) {
	based := w.manager
	if w.taintBased != nil {
		based = *w.taintBased
	}
	return based, w.manager, !based
}

// control executes all actions of the controller at this instant.
func (w *reference) control() {
	for _, n := range w.sorted() {
		lostAt := w.markUnknown(n)
		if _, been := w.controller.since[n]; !been {
			w.controller.since[n] = min(n.conditions["Ready"].transition, lostAt)
		}
		status := n.conditions["Ready"].status
		if status == "True" || status == "" {
			delete(w.controller.since, n)
		}
		if w.controller.gone[n] != status {
			delete(w.controller.gone, n)
		}
	}
	w.computeZones()
	for _, n := range w.sorted() {
		w.taintNoSchedule(n)
		w.relabel(n)
	}
	taints, tolerations, legacy := w.modes()
	if taints {
		w.taintNoExecute()
	}
	w.markPods()
	if legacy {
		w.evictFromLostNodes()
	}
	if tolerations {
		w.runTimers()
	}
	w.clear()
	slices.SortStableFunc(w.lines, compareLines)
	if w.previous != nil && legacy {
		for _, n := range w.nodes {
			w.unsure = w.unsure || w.now >= w.lost(n)
		}
	}
	w.previous = nil
}

func (w *reference) sorted() []*referenceNode {
	var all []*referenceNode
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		all = append(all, w.nodes[name])
	}
	return all
}

func (w *reference) sortedPods() []*referencePod {
	var all []*referencePod
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		all = append(all, w.pods[key])
	}
	return all
}

// deadline returns when a node becomes silent.
func (w *reference) deadline(n *referenceNode) time.Duration {
	if n.conditions["Ready"].reason != "" {
		return w.lastHeartbeat(n) + w.gracePeriod(n) // already marked Unknown
	}
	return max(w.lastHeartbeat(n)+w.gracePeriod(n), w.controller.startedAt+10*time.Second)
}

// gracePeriod returns the grace period of a node.
func (w *reference) gracePeriod(n *referenceNode) time.Duration {
	if n.conditions["Ready"].status == "" {
		return w.startup
	}
	return w.grace
}

// lastHeartbeat returns the time of the last heartbeat.
func (w *reference) lastHeartbeat(n *referenceNode) time.Duration {
	return max(n.created, n.lease, n.conditions["Ready"].heartbeat)
}

// markUnknown sets the conditions of a silent node to Unknown. If Ready is among them, the node is lost
// at the end of its grace period, even if a takeover extended it.
func (w *reference) markUnknown(n *referenceNode) (lostAt time.Duration) {
	if w.now < w.deadline(n) {
		return always
	}
	lostAt = always
	if c := n.conditions["Ready"]; c.status != "Unknown" {
		lostAt = w.lastHeartbeat(n) + w.gracePeriod(n)
	}
	for _, kind := range []string{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		c, there := n.conditions[kind]
		reason := "NodeStatusUnknown"
		switch {
		case there && c.status == "Unknown":
			continue
		case !there:
			reason, c.heartbeat = "NodeStatusNeverUpdated", n.created
		}
		n.conditions[kind] = condition{kind: kind, status: "Unknown", reason: reason, heartbeat: c.heartbeat, transition: w.now}
		w.print(line{node: n.name, kind: kind}, "condition", `"node":%q,"type":%q,"status":"Unknown","reason":%q`, n.name, kind, reason)
	}
	return lostAt
}

func (n *referenceNode) zone() string {
	label := func(keys ...string) string {
		for _, key := range keys {
			if value, there := n.labels[key]; there {
				return value
			}
		}
		return ""
	}
	region := label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
	zone := label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
	if region == "" && zone == "" {
		return ""
	}
	return region + "/" + zone
}

// computeZones computes the states and rates of the zones.
func (w *reference) computeZones() {
	ready, unready := map[string]int{}, map[string]int{}
	for _, n := range w.nodes {
		z := n.zone()
		if _, excluded := n.labels["node.kubernetes.io/exclude-disruption"]; excluded {
			ready[z] += 0
		} else if n.conditions["Ready"].status == "True" {
			ready[z]++
		} else {
			unready[z]++
		}
	}
	zones := maps.Clone(ready)
	maps.Copy(zones, unready)
	full, any := true, false
	states := map[string]string{}
	for z := range zones {
		states[z] = w.state(ready[z], unready[z])
		if ready[z]+unready[z] > 0 {
			any = true
			full = full && states[z] == "FullDisruption"
		}
	}
	full = full && any
	if taints, _, _ := w.modes(); full && taints {
		w.clearTaints()
	}
	w.controller.full = full
	for _, z := range slices.Sorted(maps.Keys(states)) {
		rate := w.rate
		switch {
		case full:
			rate = 0
		case states[z] == "PartialDisruption":
			rate = 0
			if ready[z]+unready[z] > w.large {
				rate = w.secondary
			}
		}
		w.setZone(z, states[z], rate)
	}
	for name := range w.controller.zones {
		if _, there := states[name]; !there {
			w.removeZone(name)
		}
	}
}

// removeZone handles a zone without nodes, which must not gain a token. The zone is dropped when it
// would have one at the fastest rate.
func (w *reference) removeZone(name string) {
	z := w.controller.zones[name]
	if z.rate == 0 {
		z = z.turn(z.state, max(w.rate, w.secondary), w.now)
	}
	w.controller.zones[name] = z
	if z.rate == 0 || z.token <= w.now {
		delete(w.controller.zones, name)
	}
}

func (w *reference) state(ready, unready int) string {
	switch {
	case ready == 0 && unready > 0:
		return "FullDisruption"
	case unready > 2 && float64(unready)/float64(ready+unready) >= w.unhealthy:
		return "PartialDisruption"
	}
	return "Normal"
}

// setZone sets the state and the rate of a zone.
func (w *reference) setZone(name, state string, rate float64) {
	z, known := w.controller.zones[name]
	if !known {
		z = referenceZone{rate: rate, token: w.firstToken(name, rate)}
	}
	z = z.turn(state, rate, w.now)
	w.controller.zones[name] = z
	if f := w.previous; f != nil && rate > 0 {
		was, knew := f.zones[name]
		w.unsure = w.unsure || !knew || max(was.turn(state, rate, w.now).token, w.now) != max(z.token, w.now)
	}
	printed, before := w.printedZones[name]
	if before && (printed.state != state || printed.rate != rate) || !before && state != "Normal" {
		w.print(line{zone: name}, "zone", `"zone":%q,"state":%q,"rate":%s`, name, state, strconv.FormatFloat(rate, 'f', -1, 64))
	}
	w.printedZones[name] = z
}

// turn returns the zone with a new state and rate.
func (z referenceZone) turn(state string, rate float64, now time.Duration) referenceZone {
	if rate != z.rate && rate > 0 && (z.rate == 0 || z.token > now) {
		z.token = now + gap(rate)
	}
	z.state, z.rate = state, rate
	return z
}

func gap(rate float64) time.Duration { return time.Duration(float64(time.Second) / rate) }

// firstToken returns when a zone that is new to this controller has its token.
func (w *reference) firstToken(zone string, rate float64) time.Duration {
	token := notYet
	if w.now != w.controller.startedAt {
		return token
	}
	for _, n := range w.nodes {
		for _, t := range n.taints {
			if n.zone() == zone && t.effect == "NoExecute" && (t.key == notReady || t.key == unreachable) && rate > 0 {
				token = max(token, t.added+gap(rate))
			}
		}
	}
	return token
}

const (
	notReady    = "node.kubernetes.io/not-ready"
	unreachable = "node.kubernetes.io/unreachable"
)

// clearTaints removes the NoExecute taints: if all nodes are unready, the cause is probably
// elsewhere.
func (w *reference) clearTaints() {
	for _, n := range w.nodes {
		w.untaint(n, notReady)
		w.untaint(n, unreachable)
	}
}

func (w *reference) untaint(n *referenceNode, key string) {
	if t, there := n.drop(key, "NoExecute"); there {
		w.printTaint(n, "remove", t)
	}
}

func (w *reference) taintNoSchedule(n *referenceNode) {
	status := func(kind string) string { return n.conditions[kind].status }
	for key, wanted := range map[string]bool{
		notReady:                                 status("Ready") == "False",
		unreachable:                              status("Ready") == "Unknown",
		"node.kubernetes.io/memory-pressure":     status("MemoryPressure") == "True",
		"node.kubernetes.io/disk-pressure":       status("DiskPressure") == "True",
		"node.kubernetes.io/pid-pressure":        status("PIDPressure") == "True",
		"node.kubernetes.io/network-unavailable": status("NetworkUnavailable") == "True",
		"node.kubernetes.io/unschedulable":       n.cordoned,
	} {
		t := taint{key: key, effect: "NoSchedule", added: w.now}
		if wanted && !n.has(key, t.effect) {
			n.taints = append(n.taints, t)
			w.printTaint(n, "add", t)
		} else if !wanted && n.has(key, t.effect) {
			n.drop(key, t.effect)
			w.printTaint(n, "remove", t)
		}
	}
}

func (w *reference) relabel(n *referenceNode) {
	for _, what := range []string{"os", "arch"} {
		stable, there := n.labels["kubernetes.io/"+what]
		beta := "beta.kubernetes.io/" + what
		if old, had := n.labels[beta]; there && (!had || old != stable) {
			n.labels[beta] = stable
			w.print(line{node: n.name, kind: beta}, "label", `"node":%q,"key":%q,"value":%q`, n.name, beta, stable)
		}
	}
}

// taintNoExecute handles the NoExecute taints.
func (w *reference) taintNoExecute() {
	waiting := map[string][]*referenceNode{}
	for _, n := range w.sorted() {
		wanted, other := unreachable, notReady
		switch n.conditions["Ready"].status {
		case "True":
			w.untaint(n, notReady)
			w.untaint(n, unreachable)
			continue
		case "":
			continue
		case "False":
			wanted, other = notReady, unreachable
		}
		was, swap := n.drop(other, "NoExecute")
		if swap {
			w.printTaint(n, "remove", was)
		}
		switch {
		case n.has(wanted, "NoExecute"):
		case swap:
			w.addNoExecute(n, wanted, was.added)
		default:
			waiting[n.zone()] = append(waiting[n.zone()], n)
		}
	}
	for zone, nodes := range waiting {
		if w.spend(zone) {
			w.oldestFirst(nodes)
			wanted := map[string]string{"False": notReady, "Unknown": unreachable}[nodes[0].conditions["Ready"].status]
			w.addNoExecute(nodes[0], wanted, w.now)
		}
	}
}

func (w *reference) addNoExecute(n *referenceNode, key string, added time.Duration) {
	t := taint{key: key, effect: "NoExecute", added: added}
	n.taints = append(n.taints, t)
	w.printTaint(n, "add", t)
}

func (w *reference) oldestFirst(nodes []*referenceNode) {
	slices.SortFunc(nodes, func(a, b *referenceNode) int {
		return cmp.Or(cmp.Compare(w.controller.since[a], w.controller.since[b]), cmp.Compare(a.name, b.name))
	})
}

// spend spends the token of a zone, if there is one.
func (w *reference) spend(zone string) bool {
	z := w.controller.zones[zone]
	if z.rate == 0 || z.token > w.now {
		return false
	}
	z.token = w.now + gap(z.rate)
	w.controller.zones[zone] = z
	return true
}

func (w *reference) markPods() {
	for _, p := range w.sortedPods() {
		n := w.nodes[p.node]
		if n == nil || p.finished || !p.ready {
			continue
		}
		if c := n.conditions["Ready"]; c.status == "Unknown" && (c.reason != "" || p.created >= c.transition) {
			p.ready = false
			w.print(line{node: n.name, pod: p.key}, "pod-not-ready", `"node":%q,"pod":%q`, n.name, p.key)
		}
	}
}

func (t *toleration) tolerates(against taint) bool {
	if t.effect != "" && t.effect != against.effect || t.key != "" && t.key != against.key {
		return false
	}
	if t.operator == "Gt" || t.operator == "Lt" {
		has, is := strconv.Atoi(against.value)
		than, _ := strconv.Atoi(t.value)
		return is == nil && (t.operator == "Gt" && has > than || t.operator == "Lt" && has < than)
	}
	return t.operator == "Exists" || t.operator == "Nearly" || t.value == against.value
}

// leaves returns when a pod is evicted for the NoExecute taints of its node.
func (w *reference) leaves(p *referencePod) (at time.Duration, leaves bool) {
	n := w.nodes[p.node]
	taints, tolerations, _ := w.modes()
	if n == nil || p.finished || !tolerations {
		return 0, false
	}
	at = always
	for _, t := range n.taints {
		if t.effect != "NoExecute" {
			continue
		}
		from := t.added
		if other, turned := n.swapped(t); taints && turned > from && p.toleratedFor(other) == always {
			from = turned
		}
		if tolerated := p.toleratedFor(t); tolerated != always {
			at = min(at, max(from, p.created)+tolerated)
		}
	}
	return at, at != always
}

// swapped returns the predecessor of a taint, if it had one, and its time.
func (n *referenceNode) swapped(t taint) (replaced taint, at time.Duration) {
	c := n.conditions["Ready"]
	switch {
	case t.key == notReady && c.status == "False":
		return taint{key: unreachable, effect: t.effect}, c.transition
	case t.key == unreachable && c.status == "Unknown":
		return taint{key: notReady, effect: t.effect}, c.transition
	}
	return taint{}, -1
}

// toleratedFor returns how long a pod tolerates a taint.
func (p *referencePod) toleratedFor(t taint) time.Duration {
	i := slices.IndexFunc(p.tolerations, func(tol toleration) bool { return tol.tolerates(t) })
	switch {
	case i < 0:
		return 0
	case p.tolerations[i].seconds == nil:
		return always
	}
	return max(0, time.Duration(*p.tolerations[i].seconds)) * time.Second
}

func (w *reference) evict(p *referencePod, why string) {
	delete(w.pods, p.key)
	w.print(line{node: p.node, pod: p.key}, "evict", `"node":%q,"pod":%q,"why":%q`, p.node, p.key, why)
}

func (w *reference) runTimers() {
	ran := w.controller.timers
	w.controller.timers = map[*referencePod]bool{}
	for _, p := range w.sortedPods() {
		at, leaves := w.leaves(p)
		switch {
		case leaves && at <= w.now:
			w.evict(p, "taint")
		case leaves:
			w.controller.timers[p] = true
		case ran[p]:
			w.print(line{node: p.node, pod: p.key}, "cancel", `"node":%q,"pod":%q`, p.node, p.key)
		}
	}
}

// lost returns when a node has been unready for so long that its pods are evicted without a
// taint.
func (w *reference) lost(n *referenceNode) time.Duration {
	switch c := n.conditions["Ready"]; c.status {
	case "False":
		return c.transition + w.timeout
	case "Unknown":
		return w.lastHeartbeat(n) + w.timeout
	}
	return always
}

// evictFromLostNodes evicts the pods of lost nodes.
func (w *reference) evictFromLostNodes() {
	if w.controller.full {
		clear(w.controller.gone)
		return
	}
	waiting := map[string][]*referenceNode{}
	for _, n := range w.sorted() {
		if w.now >= w.lost(n) && w.controller.gone[n] != "" {
			w.evictAll(n)
		} else if w.now >= w.lost(n) {
			waiting[n.zone()] = append(waiting[n.zone()], n)
		}
	}
	for zone, nodes := range waiting {
		w.oldestFirst(nodes)
		for _, n := range nodes {
			if len(w.evictable(n)) > 0 && w.spend(zone) {
				w.controller.gone[n] = n.conditions["Ready"].status
				w.evictAll(n)
			}
		}
	}
}

func (w *reference) evictable(n *referenceNode) (pods []*referencePod) {
	for _, p := range w.sortedPods() {
		if p.node == n.name && !p.daemon && !p.finished {
			pods = append(pods, p)
		}
	}
	return pods
}

func (w *reference) evictAll(n *referenceNode) {
	for _, p := range w.evictable(n) {
		w.evict(p, "node-lost")
	}
}

// clear deletes evicted pods.
func (w *reference) clear() {
	for _, p := range w.sortedPods() {
		if p.evicted && w.evictedPodTTL > 0 && w.now >= p.created+w.evictedPodTTL && p.node != "" {
			delete(w.pods, p.key)
			w.print(line{node: p.node, pod: p.key}, "clear-pod", `"node":%q,"pod":%q`, p.node, p.key)
		}
	}
}

// restart starts another controller with the state of the API. Other state of the previous one is
// lost, with an effect only if it mattered.
func (w *reference) restart() {
	if w.previous == nil { // otherwise a controller failed before any action
		w.previous = w.controller
	}
	w.controller = w.newController()
}
