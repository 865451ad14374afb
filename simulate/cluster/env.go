package cluster

import (
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/plimsoll/lifecycle/convert"
	"plimsoll.dev/plimsoll/lifecycle/core"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// env is the state of the API, with the nodes that write to it. The Fleet receives every change
// at once: its watch is fresh.
type env struct {
	now      time.Time
	nodes    map[string]*node
	pods     map[string]*pod   // by namespace/name
	bound    map[string][]*pod // by the name of the node, whether it exists or not
	calendar *calendar
	uidUses  map[string]int // number of objects of a UID so far

	fleet   *core.Fleet // nil: none has started yet, or the last one has failed
	changed bool        // the Fleet received a change that may trigger an action
}

// node is an object of the API and the machine behind it.
type node struct {
	object *model.Node // immutable, only replaced: the Fleet shares it
	labels map[string]string
	lease  time.Time // renewTime; zero: no lease

	ownStatus  [model.ConditionTypes]model.Status // the conditions in its reports
	renews     bool
	reports    bool
	generation int // valid generation of beats: others are from before it resumed
}

// pod is an object of the API.
type pod struct {
	object *model.Pod // immutable, only replaced
	runs   bool       // Ready whenever its node is
}

func newEnv() *env {
	return &env{
		now: start, nodes: map[string]*node{}, pods: map[string]*pod{}, bound: map[string][]*pod{},
		calendar: newCalendar(), uidUses: map[string]int{},
	}
}

// uid returns a UID for a new object that differs from those of all earlier ones.
func (w *env) uid(wanted, instead string) string {
	if wanted == "" {
		wanted = instead
	}
	w.uidUses[wanted]++
	if n := w.uidUses[wanted]; n > 1 {
		return fmt.Sprintf("%s#%d", wanted, n)
	}
	return wanted
}

// register creates nodes. Each writes its lease and its status after all events of this instant.
func (w *env) register(spec named[nodeSpec]) {
	for _, name := range spec.names {
		object := spec.spec.object
		object.Name, object.UID, object.Created = name, w.uid(object.UID, "node/"+name), w.now
		object.Taints = slices.Clone(object.Taints)
		for i := range object.Taints {
			object.Taints[i].Added = w.now
		}
		n := &node{labels: spec.spec.labels, ownStatus: spec.spec.ownStatus}
		w.nodes[name] = n
		w.put(n, &object)
		w.begin(n)
	}
}

// deregister deletes a node and its lease. Its pods stay.
func (w *env) deregister(n *node) {
	delete(w.nodes, n.object.Name)
	n.generation++
	if w.fleet != nil {
		w.fleet.NodeGone(n.object.Name, w.now)
		w.fleet.Unleased(n.object.Name, w.now)
		w.changed = true
	}
}

// put replaces a node's object.
func (w *env) put(n *node, object *model.Node) {
	n.object = object
	if w.fleet != nil {
		w.fleet.Node(object, w.now)
		w.changed = true
	}
}

// change replaces a node's object by a copy with changes. The function must not modify the list
// of Taints in place.
func (w *env) change(n *node, change func(*model.Node)) {
	object := *n.object
	change(&object)
	w.put(n, &object)
}

func (w *env) cordon(n *node, unschedulable bool) {
	w.change(n, func(o *model.Node) { o.Unschedulable = unschedulable })
}

func (w *env) label(n *node, key, value string) {
	n.labels = withLabel(n.labels, key, value)
	w.change(n, func(o *model.Node) { o.Labels = convert.Labels(n.labels) })
}

// taint sets a taint on a node, replacing one of the same key and effect.
func (w *env) taint(n *node, t model.Taint) {
	t.Added = w.now
	w.change(n, func(o *model.Node) { o.Taints = append(without(o.Taints, t), t) })
}

func (w *env) untaint(n *node, t model.Taint) {
	w.change(n, func(o *model.Node) { o.Taints = without(o.Taints, t) })
}

// without returns a new list of taints, without those of t's key and effect. If t has no effect,
// all taints of its key are removed.
func without(taints []model.Taint, t model.Taint) []model.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(other model.Taint) bool {
		return other.Key == t.Key && (t.Effect == model.AnyEffect || other.Effect == t.Effect)
	})
}

// create creates pods.
func (w *env) create(spec named[podSpec]) {
	for i, name := range spec.names {
		object := spec.spec.object
		if len(spec.names) > 1 {
			object.Name = fmt.Sprintf("%s-%d", object.Name, i)
			if object.UID != "" {
				object.UID = fmt.Sprintf("%s-%d", object.UID, i)
			}
		}
		object.UID, object.Created = w.uid(object.UID, name), w.now
		if spec.spec.evicted {
			object.Evicted = &object.Created
		}
		p := &pod{runs: spec.spec.runs}
		w.pods[name] = p
		w.bound[object.Node] = append(w.bound[object.Node], p)
		w.putPod(p, &object)
	}
}

func (w *env) putPod(p *pod, object *model.Pod) {
	p.object = object
	if w.fleet != nil && object.Node != "" {
		w.fleet.Pod(object, w.now)
		w.changed = true
	}
}

func (w *env) setReady(p *pod, ready bool) {
	object := *p.object
	object.Ready = ready
	w.putPod(p, &object)
}

// tolerate replaces the tolerations of a pod, if it still exists.
func (w *env) tolerate(name string, tolerations []model.Toleration) {
	if p := w.pods[name]; p != nil {
		object := *p.object
		object.Tolerations = tolerations
		w.putPod(p, &object)
	}
}

// remove deletes a pod, if it still exists.
func (w *env) remove(name string) {
	p := w.pods[name]
	if p == nil {
		return
	}
	delete(w.pods, name)
	on := w.bound[p.object.Node]
	w.bound[p.object.Node] = slices.DeleteFunc(on, func(other *pod) bool { return other == p })
	if w.fleet != nil && p.object.Node != "" {
		w.fleet.PodGone(p.object.UID, w.now)
		w.changed = true
	}
}
