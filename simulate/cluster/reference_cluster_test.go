package cluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// reference is the reference model of a cluster, as simple as possible. It visits all nodes and
// pods at every instant, and recomputes all state.
type reference struct {
	settings
	now          time.Duration
	nodes        map[string]*referenceNode
	pods         map[string]*referencePod
	controller   *controller
	previous     *controller              // of the previous controller, if there was a restart at this instant
	printedZones map[string]referenceZone // zones as last printed
	lines        []line
	unsure       bool // the contract does not define the next result
}

type referenceNode struct {
	name       string
	created    time.Duration
	labels     map[string]string
	cordoned   bool
	conditions map[string]condition // as in the API
	taints     []taint
	lease      time.Duration // notYet: there is no lease

	beats, reports      bool
	beatsFrom, repsFrom time.Duration     // start of the periods
	ownStatus           map[string]string // the node's own conditions
}

type referencePod struct {
	key         string
	created     time.Duration
	node        string
	tolerations []toleration
	finished    bool
	daemon      bool
	ready       bool
	runs        bool // ready whenever its node is
	evicted     bool // by its node's agent
}

const (
	notYet = time.Duration(-1 << 62)
	always = time.Duration(1 << 62)
)

func names(name string, count int) []string {
	if count <= 1 {
		return []string{name}
	}
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("%s-%d", name, i))
	}
	return all
}

func (w *reference) register(f *fileNode) error {
	for _, name := range names(f.name, f.count) {
		if w.nodes[name] != nil {
			return errors.New("exists")
		}
		n := &referenceNode{name: name, created: w.now, labels: map[string]string{}, cordoned: f.cordoned, conditions: map[string]condition{},
			lease: notYet, beats: true, reports: true, beatsFrom: w.now, repsFrom: w.now,
			ownStatus: map[string]string{"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}}
		maps.Copy(n.labels, f.labels)
		for _, c := range f.conditions {
			n.ownStatus[c.kind] = c.status
		}
		for _, t := range f.taints {
			t.added = w.now
			n.taints = append(n.taints, t)
		}
		w.nodes[name] = n
	}
	return nil
}

func (w *reference) create(f *filePod) error {
	for _, name := range names(f.name, f.count) {
		key := "default/" + name
		if w.pods[key] != nil {
			return errors.New("exists")
		}
		finished := f.phase == "Succeeded" || f.phase == "Failed"
		runs := !f.unready && (f.phase == "" || f.phase == "Running")
		w.pods[key] = &referencePod{key: key, created: w.now, node: f.node, tolerations: f.tolerations, finished: finished, daemon: f.daemon,
			ready: runs, runs: runs, evicted: f.phase == "Failed" && (f.reason == "Evicted" || f.reason == "") && f.mark == "True"}
	}
	return nil
}

// report writes the node's own conditions.
func (w *reference) report(n *referenceNode) {
	for kind, status := range n.ownStatus {
		w.write(n, kind, status)
	}
	if n.ownStatus["Ready"] == "True" {
		for _, p := range w.pods {
			if p.node == n.name && p.runs {
				p.ready = true
			}
		}
	}
}

func (w *reference) write(n *referenceNode, kind, status string) {
	was, there := n.conditions[kind]
	is := condition{kind: kind, status: status, heartbeat: w.now, transition: w.now}
	if there && was.status == status {
		is.transition = was.transition
	}
	n.conditions[kind] = is
}

// renew executes the periodic writes of nodes at this instant.
func (w *reference) renew() {
	for _, n := range w.nodes {
		if n.beats && (w.now-n.beatsFrom)%(10*time.Second) == 0 {
			n.lease = w.now
		}
		if n.reports && (w.now-n.repsFrom)%(5*time.Minute) == 0 {
			w.report(n)
		}
	}
}

func (n *referenceNode) drop(key, effect string) (was taint, there bool) {
	for i, t := range n.taints {
		if t.key == key && t.effect == effect {
			n.taints = slices.Delete(slices.Clone(n.taints), i, i+1)
			return t, true
		}
	}
	return taint{}, false
}

func (n *referenceNode) has(key, effect string) bool {
	return slices.ContainsFunc(n.taints, func(t taint) bool { return t.key == key && t.effect == effect })
}

// apply executes an event.
func (w *reference) apply(e *fileEvent) error {
	switch e.do {
	case "addNode":
		return w.register(e.node)
	case "addPod":
		return w.create(e.pod)
	case "updatePod":
		for _, name := range names(e.pod.name, e.pod.count) {
			if p := w.pods["default/"+name]; p != nil {
				p.tolerations = e.pod.tolerations
			}
		}
	case "deletePod":
		for _, key := range e.names {
			delete(w.pods, key)
		}
	case "deleteNode":
		for _, name := range e.names {
			delete(w.nodes, name)
		}
	case "restart":
		w.restart()
	default:
		for _, name := range e.names {
			w.touch(w.nodes[name], e)
		}
	}
	return nil
}

// touch applies an event to one of its nodes.
func (w *reference) touch(n *referenceNode, e *fileEvent) {
	switch e.do {
	case "stop":
		n.beats, n.reports = false, false
	case "stopLease":
		n.beats = false
	case "stopStatus":
		n.reports = false
	case "resume":
		n.beats, n.reports, n.beatsFrom, n.repsFrom = true, true, w.now, w.now
		n.ownStatus["Ready"] = "True"
	case "ready":
		n.ownStatus["Ready"] = e.status
		w.report(n)
	case "condition":
		n.ownStatus[e.kind] = e.status
		if n.reports {
			w.report(n) // a kubelet writes its whole status
		} else {
			w.write(n, e.kind, e.status)
		}
	case "taint":
		t := e.taint
		t.added = w.now
		n.drop(t.key, t.effect)
		n.taints = append(n.taints, t)
	case "untaint":
		n.drop(e.taint.key, e.taint.effect)
	case "cordon":
		n.cordoned = true
	case "uncordon":
		n.cordoned = false
	case "label":
		n.labels[e.taint.key] = e.taint.value
	default:
		panic(e.do)
	}
}

// run runs the whole scenario and returns its lines. It returns an error for a fault of the
// file that only the run can find.
func (f *file) run() (*reference, error) {
	w := &reference{settings: f.settings, nodes: map[string]*referenceNode{}, pods: map[string]*referencePod{}, printedZones: map[string]referenceZone{}}
	w.controller = w.newController()
	for i := range f.nodes {
		if err := w.register(&f.nodes[i]); err != nil {
			return w, err
		}
	}
	for i := range f.pods {
		if err := w.create(&f.pods[i]); err != nil {
			return w, err
		}
	}
	for w.now < f.until {
		for i := range f.events {
			if f.events[i].at == w.now {
				if err := w.apply(&f.events[i]); err != nil {
					return w, err
				}
			}
		}
		w.renew()
		w.control()
		if w.unsure {
			return w, nil
		}
		next := w.next()
		for i := range f.events {
			if at := f.events[i].at; at > w.now {
				next = min(next, at)
			}
		}
		w.now = next
	}
	return w, nil
}

// next returns a time before which nothing happens by itself. A time without an event is
// harmless.
func (w *reference) next() time.Duration {
	next := always
	after := func(at time.Duration) {
		if at > w.now {
			next = min(next, at)
		}
	}
	period := func(from, every time.Duration) { after(from + (w.now-from)/every*every + every) }
	after(w.controller.startedAt + 10*time.Second)
	for _, n := range w.nodes {
		if n.beats {
			period(n.beatsFrom, 10*time.Second)
		}
		if n.reports {
			period(n.repsFrom, 5*time.Minute)
		}
		after(w.deadline(n))
		after(w.lost(n))
	}
	for _, p := range w.pods {
		if at, leaves := w.leaves(p); leaves {
			after(at)
		}
		after(p.created + w.evictedPodTTL)
	}
	for _, z := range w.controller.zones {
		after(z.token)
	}
	return next
}
