package cluster

import (
	"slices"
	"strings"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// changes are the possible fields of an event. Several fields of one event are executed in this
// order.
var changes = []struct {
	field string
	read  func(*reader, strictyaml.Value) []change
}{
	{"deleteNode", (*reader).deleteNode},
	{"addNode", (*reader).addNode},
	{"deletePod", (*reader).deletePod},
	{"addPod", (*reader).addPod},
	{"updatePod", (*reader).updatePod},
	{"label", (*reader).label},
	{"cordon", onNodes("cordoned", func(w *env, n *node) { w.cordon(n, true) })},
	{"uncordon", onNodes("uncordoned", func(w *env, n *node) { w.cordon(n, false) })},
	{"untaint", (*reader).untaint},
	{"taint", (*reader).taint},
	{"stop", onNodes("stopped", func(_ *env, n *node) { n.renews, n.reports = false, false })},
	{"stopLease", onNodes("lease renewed no longer", func(_ *env, n *node) { n.renews = false })},
	{"stopStatus", onNodes("status reported no longer", func(_ *env, n *node) { n.reports = false })},
	{"resume", onNodes("back", (*env).resume)},
	{"ready", (*reader).ready},
	{"condition", (*reader).condition},
	{"restart", (*reader).restart},
}

func changeNames() []string {
	names := make([]string, len(changes))
	for i := range changes {
		names[i] = changes[i].field
	}
	return names
}

// onNodes reads a list of nodes for the same change.
func onNodes(words string, do func(*env, *node)) func(*reader, strictyaml.Value) []change {
	return func(r *reader, v strictyaml.Value) []change { return each(r.names(v), words, do) }
}

// each returns a change for each of the given existing nodes.
func each(names []string, words string, do func(*env, *node)) []change {
	return []change{{listNames(names) + ": " + words, func(w *env) error {
		for _, name := range names {
			do(w, w.nodes[name])
		}
		return nil
	}}}
}

// listNames lists names in text, and counts them if there are many.
func listNames(names []string) string {
	const maxNamed = 6
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + " and " + counted(len(names)-maxNamed, "other")
	}
	return strings.Join(names, ", ")
}

// names reads a list of nodes that exist at this point of the file.
func (r *reader) names(v strictyaml.Value) []string {
	var names []string
	for _, item := range v.List() {
		name := item.Text()
		switch {
		case name == "":
			item.Fault("must be the name of a node")
		case !r.ever[name]:
			item.Fault("no node of this file ever has this name")
		case !r.present[name]:
			item.Fault("no node has this name at this time")
		case slices.Contains(names, name):
			item.Fault("is named twice")
		default:
			names = append(names, name)
		}
	}
	return names
}

// text reads a required, non-empty string.
func text(v strictyaml.Value) string {
	s := v.Text()
	if v.Present() && s == "" {
		v.Fault("must not be empty")
	}
	return s
}

func choice(v strictyaml.Value, choices []string) string {
	s := v.Text()
	if v.Present() && !slices.Contains(choices, s) {
		v.Fault("must be one of %s", strings.Join(choices, ", "))
	}
	return s
}

func (r *reader) addNode(v strictyaml.Value) []change {
	n, ok := r.node(v)
	if !ok {
		return nil
	}
	return []change{{listNames(n.names) + ": registered", func(w *env) error { w.register(n); return nil }}}
}

func (r *reader) deleteNode(v strictyaml.Value) []change {
	names := r.names(v)
	for _, name := range names {
		delete(r.present, name)
	}
	return each(names, "deleted", (*env).deregister)
}

func (r *reader) addPod(v strictyaml.Value) []change {
	p, ok := r.pod(v)
	if r.remember(p); !ok {
		return nil
	}
	path := v.Path()
	return []change{{listNames(p.names) + ": bound to " + p.spec.object.Node, func(w *env) error {
		for _, name := range p.names {
			if w.pods[name] != nil {
				return strictyaml.Faults{{Path: path, Value: name, Problem: "there is a pod of this name at this time"}}
			}
		}
		w.create(p)
		return nil
	}}}
}

func (r *reader) updatePod(v strictyaml.Value) []change {
	p, ok := r.pod(v)
	for _, name := range p.names {
		node, is := r.pods[name]
		switch {
		case !is:
			r.faults.Add(v.Path()+".metadata.name", name, "no pod of this file has this namespace/name by then")
			ok = false
		case p.spec.object.Node != "" && p.spec.object.Node != node:
			r.faults.Add(v.Path()+".spec.nodeName", p.spec.object.Node, "must stay %q: only tolerations can be changed", node)
			ok = false
		}
	}
	if !ok {
		return nil
	}
	return []change{{listNames(p.names) + ": tolerations changed", func(w *env) error {
		for _, name := range p.names {
			w.tolerate(name, p.spec.object.Tolerations)
		}
		return nil
	}}}
}

// deletePod reads pods by namespace/name. A pod that no longer exists is no fault, since
// evictions are not known when the file is written.
func (r *reader) deletePod(v strictyaml.Value) []change {
	var names []string
	for _, item := range v.List() {
		name := item.Text()
		if _, is := r.pods[name]; !is {
			item.Fault("no pod of this file has this namespace/name by then")
			continue
		}
		names = append(names, name)
	}
	return []change{{listNames(names) + ": deleted", func(w *env) error {
		for _, name := range names {
			w.remove(name)
		}
		return nil
	}}}
}

func (r *reader) label(v strictyaml.Value) []change {
	o := v.Object("nodes", "key", "value")
	key, value := text(o.Need("key")), o.Get("value").Text()
	return each(r.names(o.Need("nodes")), "labelled "+key+"="+value, func(w *env, n *node) { w.label(n, key, value) })
}

func (r *reader) taint(v strictyaml.Value) []change {
	o := v.Object("nodes", "key", "value", "effect")
	t := model.Taint{Key: text(o.Need("key")), Value: o.Get("value").Text()}
	t.Effect, _ = model.ParseEffect(choice(o.Need("effect"), effects))
	return each(r.names(o.Need("nodes")), "tainted "+taintName(t), func(w *env, n *node) { w.taint(n, t) })
}

// untaint reads a taint by key and effect. Without an effect, all taints with the key are meant.
// A value is accepted and ignored.
func (r *reader) untaint(v strictyaml.Value) []change {
	o := v.Object("nodes", "key", "value", "effect")
	t := model.Taint{Key: text(o.Need("key")), Value: o.Get("value").Text()}
	if effect := o.Get("effect"); effect.Present() {
		t.Effect, _ = model.ParseEffect(choice(effect, effects))
	}
	return each(r.names(o.Need("nodes")), "untainted of "+taintName(t), func(w *env, n *node) { w.untaint(n, t) })
}

// taintName returns key=value:effect, without missing parts.
func taintName(t model.Taint) string {
	name := t.Key
	if t.Value != "" {
		name += "=" + t.Value
	}
	if t.Effect != model.AnyEffect {
		name += ":" + t.Effect.String()
	}
	return name
}

func (r *reader) ready(v strictyaml.Value) []change {
	o := v.Object("nodes", "status")
	return r.reportCondition(o, model.Ready, model.Ready.String(), choice(o.Need("status"), statuses))
}

// condition reads the status of one condition in node reports. Conditions without an effect on
// decisions are permitted.
func (r *reader) condition(v strictyaml.Value) []change {
	o := v.Object("nodes", "type", "status")
	name := text(o.Need("type"))
	status := choice(o.Need("status"), statuses)
	t, decides := model.ParseConditionType(name)
	if !decides {
		return each(r.names(o.Need("nodes")), name+" reported "+status, func(*env, *node) {})
	}
	return r.reportCondition(o, t, name, status)
}

func (r *reader) reportCondition(o strictyaml.Object, t model.ConditionType, name, status string) []change {
	s := model.ParseStatus(status)
	return each(r.names(o.Need("nodes")), name+" reported "+status, func(w *env, n *node) { w.setCondition(n, t, s) })
}

func (r *reader) restart(v strictyaml.Value) []change {
	if !v.Bool(false) {
		return nil
	}
	return []change{{"the controller fails over", func(w *env) error { w.fleet = nil; return nil }}}
}
