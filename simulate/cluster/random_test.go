package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// scenario is a random ClusterScenario, to be written as a file and run by the reference model.
type scenario struct {
	grace, startup, timeout, large, until int
	rate, secondary                       float64
	manager, based                        bool // enableTaintManager, taintBasedEvictions
	evictedPodTTL                         int  // evictedPodTTL
	nodes                                 []scenarioNode
	pods                                  []scenarioPod
	events                                []scenarioEvent
}

type scenarioNode struct {
	name, zone string
	excluded   bool
}

type scenarioPod struct {
	name, node       string
	tolerates        []scenarioToleration
	daemon, finished bool
	evicted          bool // by its node's agent
}

// scenarioToleration is for the NoExecute taint of a key, or of any key if empty.
type scenarioToleration struct {
	key     string
	seconds int
}

const forEver = -1 << 30

type scenarioEvent struct {
	at    int
	do    string
	node  string
	value string
	added *scenarioNode
	pod   *scenarioPod
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// newScenario generates a scenario. A quiet one has large zones with few events. Each zone has an anchor,
// a node that stays in it. The contract does not define the tokens of a zone without
// nodes.
func newScenario(seed uint64, quiet bool) *scenario {
	r := rand.New(rand.NewPCG(seed, 5))
	p := &scenario{
		grace: pick(r, 20, 40, 50), startup: 60, timeout: pick(r, 60, 120, 300), large: pick(r, 2, 4, 50), until: 1000,
		rate: pick(r, 0.1, 0.1, 0.2, 1), secondary: pick(r, 0.01, 0.05), manager: r.IntN(4) > 0, based: r.IntN(4) > 0, evictedPodTTL: pick(r, 0, 50, 333),
	}
	zones := []string{"z0", "z1", "z2"}[:1+r.IntN(3)]
	least, every := 1, pick(r, 20, 60, 150)
	if quiet {
		least, every = 12, 80
	}
	for _, zone := range zones {
		for i := range least + r.IntN(6) {
			p.nodes = append(p.nodes, scenarioNode{fmt.Sprintf("%s-%d", zone, i), zone, i > 0 && r.IntN(8) == 0})
		}
	}
	for i := range r.IntN(12) {
		p.pods = append(p.pods, p.newPod(r, fmt.Sprintf("p%d", i)))
	}
	w := &eventGenerator{r: r, scenario: p, zones: zones, pods: len(p.pods), quiet: quiet}
	for _, n := range p.nodes {
		w.on = append(w.on, n.name)
	}
	for at := 0; at < 700; at += r.IntN(every) {
		w.add(at)
	}
	return p
}

func (p *scenario) newPod(r *rand.Rand, name string) scenarioPod {
	pod := scenarioPod{name: "default/" + name, node: p.nodes[r.IntN(len(p.nodes))].name, daemon: r.IntN(5) == 0, finished: r.IntN(5) == 0}
	pod.evicted = pod.finished && r.IntN(3) > 0
	if pod.tolerates = tolerations(r); r.IntN(2) == 0 { // the most frequent case
		seconds := pick(r, 20, 60, 100, 300)
		pod.tolerates = []scenarioToleration{{"node.kubernetes.io/unreachable", seconds}, {"node.kubernetes.io/not-ready", seconds}, {"k", seconds}}
	}
	return pod
}

func tolerations(r *rand.Rand) (all []scenarioToleration) {
	for range r.IntN(4) {
		key := pick(r, "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "k", "")
		all = append(all, scenarioToleration{key, pick(r, -5, 0, 7, 30, 100, 300, forEver)})
	}
	return all
}

// eventGenerator generates the events of a scenario.
type eventGenerator struct {
	r        *rand.Rand
	scenario *scenario
	zones    []string
	on       []string // existing nodes
	pods     int      // number of pods so far
	quiet    bool
}

// add adds the events of a time.
func (w *eventGenerator) add(at int) {
	r := w.r
	node := w.on[r.IntN(len(w.on))]
	e := scenarioEvent{at: at, node: node}
	e.do = pick(r, "stop", "stop", "stopLease", "stopStatus", "resume", "resume", "resume", "ready", "ready", "pressure",
		"cordon", "uncordon", "taint", "untaint", "move", "deleteNode", "addNode", "addPod", "deletePod", "updatePod", "blackout", "recovery")
	anchor := strings.HasSuffix(node, "-0")
	switch e.do {
	case "ready", "pressure":
		e.value = pick(r, "True", "False", "False")
	case "move":
		if e.value = pick(r, w.zones...); anchor {
			return
		}
	case "deleteNode":
		if anchor {
			return
		}
		w.on = slices.DeleteFunc(w.on, func(n string) bool { return n == node })
	case "addNode":
		gone := w.scenario.nodes[r.IntN(len(w.scenario.nodes))]
		if slices.Contains(w.on, gone.name) {
			return
		}
		w.on = append(w.on, gone.name)
		e.added = &gone
	case "addPod", "updatePod", "deletePod":
		if !w.addPodEvent(&e) {
			return
		}
	case "blackout", "recovery": // of many nodes at once
		if w.quiet {
			return
		}
		for _, n := range w.on {
			if r.IntN(4) > 0 {
				w.scenario.events = append(w.scenario.events, scenarioEvent{at: at, node: n, do: map[string]string{"blackout": "stop", "recovery": "resume"}[e.do]})
			}
		}
		return
	}
	w.scenario.events = append(w.scenario.events, e)
}

func (w *eventGenerator) addPodEvent(e *scenarioEvent) bool {
	if e.do == "addPod" {
		pod := w.scenario.newPod(w.r, fmt.Sprintf("p%d", w.pods))
		w.pods++
		e.pod = &pod
		return true
	}
	if w.pods == 0 {
		return false
	}
	e.value = fmt.Sprintf("default/p%d", w.r.IntN(w.pods))
	if e.do == "updatePod" {
		e.pod = &scenarioPod{name: e.value, tolerates: tolerations(w.r)}
	}
	return true
}

// withFailovers returns the scenario with failovers at the given ascending times.
func (p *scenario) withFailovers(times ...int) *scenario {
	with := *p
	with.events = nil
	for _, e := range p.events {
		for ; len(times) > 0 && times[0] <= e.at; times = times[1:] {
			with.events = append(with.events, scenarioEvent{at: times[0], do: "restart"})
		}
		with.events = append(with.events, e)
	}
	return &with
}

// yaml returns the scenario as a file.
func (p *scenario) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: plimsoll.dev/v1alpha1\nkind: ClusterScenario\nconfig: {nodeMonitorGracePeriod: %ds, nodeStartupGracePeriod: %ds, podEvictionTimeout: %ds, nodeEvictionRate: %g, secondaryNodeEvictionRate: %g, largeClusterSizeThreshold: %d, enableTaintManager: %t, taintBasedEvictions: %t%s}\nnodes:\n",
		p.grace, p.startup, p.timeout, p.rate, p.secondary, p.large, p.manager, p.based, map[bool]string{true: fmt.Sprintf(", evictedPodTTL: %ds", p.evictedPodTTL)}[p.evictedPodTTL > 0])
	for _, n := range p.nodes {
		fmt.Fprintf(&b, "- %s\n", n.yaml())
	}
	b.WriteString("pods:\n")
	for _, pod := range p.pods {
		fmt.Fprintf(&b, "- %s\n", pod.yaml())
	}
	b.WriteString("events:\n")
	for _, e := range p.events {
		fmt.Fprintf(&b, "- {at: %ds, %s}\n", e.at, e.yaml())
	}
	fmt.Fprintf(&b, "until: %ds\n", p.until)
	return b.String()
}

func (n *scenarioNode) yaml() string {
	labels := "topology.kubernetes.io/zone: " + n.zone
	if n.excluded {
		labels += `, node.kubernetes.io/exclude-disruption: ""`
	}
	return fmt.Sprintf("{metadata: {name: %s, labels: {%s}}}", n.name, labels)
}

func (p *scenarioPod) yaml() string {
	metadata := "name: " + strings.TrimPrefix(p.name, "default/")
	if p.daemon {
		metadata += ", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]"
	}
	var tolerations []string
	for _, t := range p.tolerates {
		text := "operator: Exists"
		if t.key != "" {
			text += ", key: " + t.key
		}
		if t.seconds != forEver {
			text += fmt.Sprintf(", tolerationSeconds: %d", t.seconds)
		}
		tolerations = append(tolerations, "{"+text+"}")
	}
	spec := "tolerations: [" + strings.Join(tolerations, ", ") + "]"
	if p.node != "" {
		spec += ", nodeName: " + p.node
	}
	status := map[bool]string{true: "phase: Succeeded", false: "phase: Running"}[p.finished]
	if p.evicted {
		status = "phase: Failed, reason: Evicted, conditions: [{type: plimsoll.dev/Evicted, status: \"True\"}]"
	}
	return fmt.Sprintf("{metadata: {%s}, spec: {%s}, status: {%s}}", metadata, spec, status)
}

func (e *scenarioEvent) yaml() string {
	on := "nodes: [" + e.node + "]"
	switch e.do {
	case "ready":
		return fmt.Sprintf("ready: {%s, status: %q}", on, e.value)
	case "pressure":
		return fmt.Sprintf("condition: {%s, type: DiskPressure, status: %q}", on, e.value)
	case "taint", "untaint":
		return fmt.Sprintf("%s: {%s, key: k, effect: NoExecute}", e.do, on)
	case "move":
		return fmt.Sprintf("label: {%s, key: topology.kubernetes.io/zone, value: %s}", on, e.value)
	case "addNode":
		return "addNode: " + e.added.yaml()
	case "addPod", "updatePod":
		return e.do + ": " + e.pod.yaml()
	case "restart":
		return "restart: true"
	case "deletePod":
		return "deletePod: [" + e.value + "]"
	}
	return fmt.Sprintf("%s: [%s]", e.do, e.node)
}
