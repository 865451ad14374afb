package cluster_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// mind is the state of a controller that is not in the API.
type mind struct {
	born   time.Duration
	since  map[*shadowNode]time.Duration // not ready
	zones  map[string]shadowZone
	full   bool                   // all zones are fully disrupted
	timers map[*shadowPod]bool    // pods with a running timer
	gone   map[*shadowNode]string // nodes with evicted pods, and their Ready at that time
}

type shadowZone struct {
	state string
	rate  float64
	token time.Duration // time of the next token
}

func (w *shadow) newMind() *mind {
	return &mind{born: w.now, since: map[*shadowNode]time.Duration{}, zones: map[string]shadowZone{}, timers: map[*shadowPod]bool{}, gone: map[*shadowNode]string{}}
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

func (w *shadow) say(l line, do, rest string, args ...any) {
	l.at = w.now
	l.rank = slices.Index([]string{"zone", "condition", "taint", "label", "pod-not-ready", "evict", "cancel", "clear-pod"}, do)
	at := strconv.FormatFloat(float64(w.now.Round(time.Millisecond))/1e9, 'f', -1, 64)
	l.text = fmt.Sprintf(`{"at":"%ss","do":%q,`, at, do) + fmt.Sprintf(rest, args...) + "}"
	w.lines = append(w.lines, l)
}

func (w *shadow) sayTaint(n *shadowNode, op string, t taint) {
	w.say(line{node: n.name, kind: t.key, op: op, effect: t.effect}, "taint", `"node":%q,"op":%q,"key":%q,"effect":%q`, n.name, op, t.key, t.effect)
}

// modes returns which component taints and which one evicts.
func (w *shadow) modes() (taints, tolerations, legacy bool) {
	based := w.manager
	if w.taintBased != nil {
		based = *w.taintBased
	}
	return based, w.manager, !based
}

// control executes all actions of the controller at this instant.
func (w *shadow) control() {
	for _, n := range w.sorted() {
		died := w.silence(n)
		if _, been := w.mind.since[n]; !been {
			w.mind.since[n] = min(n.conditions["Ready"].transition, died)
		}
		status := n.conditions["Ready"].status
		if status == "True" || status == "" {
			delete(w.mind.since, n)
		}
		if w.mind.gone[n] != status {
			delete(w.mind.gone, n)
		}
	}
	w.assess()
	for _, n := range w.sorted() {
		w.keepOut(n)
		w.relabel(n)
	}
	taints, tolerations, legacy := w.modes()
	if taints {
		w.driveOut()
	}
	w.markPods()
	if legacy {
		w.abandon()
	}
	if tolerations {
		w.runTimers()
	}
	w.clear()
	slices.SortStableFunc(w.lines, compareLines)
	if w.former != nil && legacy {
		for _, n := range w.nodes {
			w.unsure = w.unsure || w.now >= w.lost(n)
		}
	}
	w.former = nil
}

func (w *shadow) sorted() []*shadowNode {
	var all []*shadowNode
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		all = append(all, w.nodes[name])
	}
	return all
}

func (w *shadow) sortedPods() []*shadowPod {
	var all []*shadowPod
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		all = append(all, w.pods[key])
	}
	return all
}

// deadline returns when a node becomes silent.
func (w *shadow) deadline(n *shadowNode) time.Duration {
	if n.conditions["Ready"].reason != "" {
		return w.sign(n) + w.bears(n) // known silence
	}
	return max(w.sign(n)+w.bears(n), w.mind.born+10*time.Second)
}

// bears returns the grace period of a node.
func (w *shadow) bears(n *shadowNode) time.Duration {
	if n.conditions["Ready"].status == "" {
		return w.startup
	}
	return w.grace
}

// sign returns the last sign of life.
func (w *shadow) sign(n *shadowNode) time.Duration {
	return max(n.created, n.lease, n.conditions["Ready"].heartbeat)
}

// silence sets the conditions of a silent node to Unknown. If Ready is among them, the node died
// at the end of its grace period, even if a takeover extended it.
func (w *shadow) silence(n *shadowNode) (died time.Duration) {
	if w.now < w.deadline(n) {
		return always
	}
	died = always
	if c := n.conditions["Ready"]; c.status != "Unknown" {
		died = w.sign(n) + w.bears(n)
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
		w.say(line{node: n.name, kind: kind}, "condition", `"node":%q,"type":%q,"status":"Unknown","reason":%q`, n.name, kind, reason)
	}
	return died
}

func (n *shadowNode) zone() string {
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

// assess computes the states and rates of the zones.
func (w *shadow) assess() {
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
		w.acquit()
	}
	w.mind.full = full
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
		w.enter(z, states[z], rate)
	}
	for name := range w.mind.zones {
		if _, there := states[name]; !there {
			w.vanish(name)
		}
	}
}

// vanish handles a zone without nodes, which must not gain a token. The zone is dropped when it
// would have one at the fastest rate.
func (w *shadow) vanish(name string) {
	z := w.mind.zones[name]
	if z.rate == 0 {
		z = z.turn(z.state, max(w.rate, w.secondary), w.now)
	}
	w.mind.zones[name] = z
	if z.rate == 0 || z.token <= w.now {
		delete(w.mind.zones, name)
	}
}

func (w *shadow) state(ready, unready int) string {
	switch {
	case ready == 0 && unready > 0:
		return "FullDisruption"
	case unready > 2 && float64(unready)/float64(ready+unready) >= w.unhealthy:
		return "PartialDisruption"
	}
	return "Normal"
}

// enter sets the state and the rate of a zone.
func (w *shadow) enter(name, state string, rate float64) {
	z, known := w.mind.zones[name]
	if !known {
		z = shadowZone{rate: rate, token: w.inherit(name, rate)}
	}
	z = z.turn(state, rate, w.now)
	w.mind.zones[name] = z
	if f := w.former; f != nil && rate > 0 {
		was, knew := f.zones[name]
		w.unsure = w.unsure || !knew || max(was.turn(state, rate, w.now).token, w.now) != max(z.token, w.now)
	}
	told, before := w.told[name]
	if before && (told.state != state || told.rate != rate) || !before && state != "Normal" {
		w.say(line{zone: name}, "zone", `"zone":%q,"state":%q,"rate":%s`, name, state, strconv.FormatFloat(rate, 'f', -1, 64))
	}
	w.told[name] = z
}

// turn returns the zone with a new state and rate.
func (z shadowZone) turn(state string, rate float64, now time.Duration) shadowZone {
	if rate != z.rate && rate > 0 && (z.rate == 0 || z.token > now) {
		z.token = now + gap(rate)
	}
	z.state, z.rate = state, rate
	return z
}

func gap(rate float64) time.Duration { return time.Duration(float64(time.Second) / rate) }

// inherit returns when a zone that is new to this controller has its token.
func (w *shadow) inherit(zone string, rate float64) time.Duration {
	token := notYet
	if w.now != w.mind.born {
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

// acquit clears the evidence against nodes: if all of them are unready, the cause is probably
// elsewhere.
func (w *shadow) acquit() {
	for _, n := range w.nodes {
		w.untaint(n, notReady)
		w.untaint(n, unreachable)
	}
}

func (w *shadow) untaint(n *shadowNode, key string) {
	if t, there := n.drop(key, "NoExecute"); there {
		w.sayTaint(n, "remove", t)
	}
}

func (w *shadow) keepOut(n *shadowNode) {
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
			w.sayTaint(n, "add", t)
		} else if !wanted && n.has(key, t.effect) {
			n.drop(key, t.effect)
			w.sayTaint(n, "remove", t)
		}
	}
}

func (w *shadow) relabel(n *shadowNode) {
	for _, what := range []string{"os", "arch"} {
		stable, there := n.labels["kubernetes.io/"+what]
		beta := "beta.kubernetes.io/" + what
		if old, had := n.labels[beta]; there && (!had || old != stable) {
			n.labels[beta] = stable
			w.say(line{node: n.name, kind: beta}, "label", `"node":%q,"key":%q,"value":%q`, n.name, beta, stable)
		}
	}
}

// driveOut handles the NoExecute taints.
func (w *shadow) driveOut() {
	waiting := map[string][]*shadowNode{}
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
			w.sayTaint(n, "remove", was)
		}
		switch {
		case n.has(wanted, "NoExecute"):
		case swap:
			w.drive(n, wanted, was.added)
		default:
			waiting[n.zone()] = append(waiting[n.zone()], n)
		}
	}
	for zone, nodes := range waiting {
		if w.spend(zone) {
			w.oldestFirst(nodes)
			wanted := map[string]string{"False": notReady, "Unknown": unreachable}[nodes[0].conditions["Ready"].status]
			w.drive(nodes[0], wanted, w.now)
		}
	}
}

func (w *shadow) drive(n *shadowNode, key string, added time.Duration) {
	t := taint{key: key, effect: "NoExecute", added: added}
	n.taints = append(n.taints, t)
	w.sayTaint(n, "add", t)
}

func (w *shadow) oldestFirst(nodes []*shadowNode) {
	slices.SortFunc(nodes, func(a, b *shadowNode) int {
		return cmp.Or(cmp.Compare(w.mind.since[a], w.mind.since[b]), cmp.Compare(a.name, b.name))
	})
}

// spend spends the token of a zone, if there is one.
func (w *shadow) spend(zone string) bool {
	z := w.mind.zones[zone]
	if z.rate == 0 || z.token > w.now {
		return false
	}
	z.token = w.now + gap(z.rate)
	w.mind.zones[zone] = z
	return true
}

func (w *shadow) markPods() {
	for _, p := range w.sortedPods() {
		n := w.nodes[p.node]
		if n == nil || p.finished || !p.ready {
			continue
		}
		if c := n.conditions["Ready"]; c.status == "Unknown" && (c.reason != "" || p.created >= c.transition) {
			p.ready = false
			w.say(line{node: n.name, pod: p.key}, "pod-not-ready", `"node":%q,"pod":%q`, n.name, p.key)
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
func (w *shadow) leaves(p *shadowPod) (at time.Duration, leaves bool) {
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
		if other, turned := n.swapped(t); taints && turned > from && p.bears(other) == always {
			from = turned
		}
		if bears := p.bears(t); bears != always {
			at = min(at, max(from, p.created)+bears)
		}
	}
	return at, at != always
}

// swapped returns the predecessor of a taint, if it had one, and its time.
func (n *shadowNode) swapped(t taint) (replaced taint, at time.Duration) {
	c := n.conditions["Ready"]
	switch {
	case t.key == notReady && c.status == "False":
		return taint{key: unreachable, effect: t.effect}, c.transition
	case t.key == unreachable && c.status == "Unknown":
		return taint{key: notReady, effect: t.effect}, c.transition
	}
	return taint{}, -1
}

// bears returns how long a pod tolerates a taint.
func (p *shadowPod) bears(t taint) time.Duration {
	i := slices.IndexFunc(p.tolerations, func(tol toleration) bool { return tol.tolerates(t) })
	switch {
	case i < 0:
		return 0
	case p.tolerations[i].seconds == nil:
		return always
	}
	return max(0, time.Duration(*p.tolerations[i].seconds)) * time.Second
}

func (w *shadow) evict(p *shadowPod, why string) {
	delete(w.pods, p.key)
	w.say(line{node: p.node, pod: p.key}, "evict", `"node":%q,"pod":%q,"why":%q`, p.node, p.key, why)
}

func (w *shadow) runTimers() {
	ran := w.mind.timers
	w.mind.timers = map[*shadowPod]bool{}
	for _, p := range w.sortedPods() {
		at, leaves := w.leaves(p)
		switch {
		case leaves && at <= w.now:
			w.evict(p, "taint")
		case leaves:
			w.mind.timers[p] = true
		case ran[p]:
			w.say(line{node: p.node, pod: p.key}, "cancel", `"node":%q,"pod":%q`, p.node, p.key)
		}
	}
}

// lost returns when a node has been unready for so long that its pods are evicted without a
// taint.
func (w *shadow) lost(n *shadowNode) time.Duration {
	switch c := n.conditions["Ready"]; c.status {
	case "False":
		return c.transition + w.timeout
	case "Unknown":
		return w.sign(n) + w.timeout
	}
	return always
}

// abandon evicts the pods of lost nodes.
func (w *shadow) abandon() {
	if w.mind.full {
		clear(w.mind.gone)
		return
	}
	waiting := map[string][]*shadowNode{}
	for _, n := range w.sorted() {
		if w.now >= w.lost(n) && w.mind.gone[n] != "" {
			w.evictAll(n)
		} else if w.now >= w.lost(n) {
			waiting[n.zone()] = append(waiting[n.zone()], n)
		}
	}
	for zone, nodes := range waiting {
		w.oldestFirst(nodes)
		for _, n := range nodes {
			if len(w.evictable(n)) > 0 && w.spend(zone) {
				w.mind.gone[n] = n.conditions["Ready"].status
				w.evictAll(n)
			}
		}
	}
}

func (w *shadow) evictable(n *shadowNode) (pods []*shadowPod) {
	for _, p := range w.sortedPods() {
		if p.node == n.name && !p.daemon && !p.finished {
			pods = append(pods, p)
		}
	}
	return pods
}

func (w *shadow) evictAll(n *shadowNode) {
	for _, p := range w.evictable(n) {
		w.evict(p, "node-lost")
	}
}

// clear deletes evicted pods.
func (w *shadow) clear() {
	for _, p := range w.sortedPods() {
		if p.evicted && w.kept > 0 && w.now >= p.created+w.kept && p.node != "" {
			delete(w.pods, p.key)
			w.say(line{node: p.node, pod: p.key}, "clear-pod", `"node":%q,"pod":%q`, p.node, p.key)
		}
	}
}

// restart starts another controller with the state of the API. Other state of the previous one is
// lost, with an effect only if it mattered.
func (w *shadow) restart() {
	if w.former == nil { // otherwise one failed before any action
		w.former = w.mind
	}
	w.mind = w.newMind()
}
