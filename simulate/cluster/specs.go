package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/lifecycle/model"
)

// nodeItem is an entry of a list of nodes.
type nodeItem struct {
	corev1.Node `json:",inline"`

	Count *int64 `json:"count,omitempty"`
}

// podItem is an entry of a list of pods.
type podItem struct {
	corev1.Pod `json:",inline"`

	Count *int64 `json:"count,omitempty"`
}

// learnNodes notes the names of all nodes of the file, before pods and events are read. A pod may
// be bound to a node registered later.
func (r *reader) learnNodes(doc strictyaml.Object) {
	var ignored strictyaml.Faults
	quiet := &reader{faults: &ignored}
	learn := func(v strictyaml.Value) {
		var item nodeItem
		if v.Present() {
			v.Into(&item)
		}
		for _, name := range quiet.expand(v, item.Name, item.Count) {
			r.ever[name] = true
		}
	}
	for _, v := range doc.Get("nodes").Discard(&ignored).List() {
		learn(v)
	}
	for _, v := range doc.Get("events").Discard(&ignored).List() {
		learn(v.Object("addNode").Get("addNode"))
	}
}

// registered reads the nodes of a list, which exist from then on.
func (r *reader) registered(list []strictyaml.Value) []named[nodeSpec] {
	var read []named[nodeSpec]
	for _, v := range list {
		if n, ok := r.node(v); ok {
			read = append(read, n)
		}
	}
	return read
}

func (r *reader) node(v strictyaml.Value) (n named[nodeSpec], ok bool) {
	var item nodeItem
	if !v.Into(&item) {
		return n, false
	}
	faultless := len(*r.faults)
	r.checkKind(v, item.Kind, "Node")
	r.checkName(v, item.Name)
	r.checkNode(v, &item.Node)
	n = named[nodeSpec]{r.expand(v, item.Name, item.Count), nodeOf(&item.Node)}
	for _, name := range n.names {
		if r.present[name] {
			r.faults.Add(v.Path()+".metadata.name", name, "is already the name of a node")
		}
		r.present[name] = true
	}
	return n, len(*r.faults) == faultless
}

// created reads the pods of a list, which exist from then on.
func (r *reader) created(list []strictyaml.Value) []named[podSpec] {
	var read []named[podSpec]
	for _, v := range list {
		p, ok := r.pod(v)
		for _, name := range p.names {
			if _, is := r.pods[name]; is {
				r.faults.Add(v.Path()+".metadata.name", name, "is already the name of a pod")
				ok = false
			}
		}
		r.remember(p)
		if ok {
			read = append(read, p)
		}
	}
	return read
}

func (r *reader) remember(p named[podSpec]) {
	for _, name := range p.names {
		r.pods[name] = p.spec.object.Node
	}
}

// pod reads a pod and its names, which are namespace/name.
func (r *reader) pod(v strictyaml.Value) (p named[podSpec], ok bool) {
	var item podItem
	if !v.Into(&item) {
		return p, false
	}
	faultless := len(*r.faults)
	r.checkKind(v, item.Kind, "Pod")
	r.checkName(v, item.Name)
	r.checkPod(v, &item.Pod)
	if item.Namespace == "" {
		item.Namespace = corev1.NamespaceDefault
	}
	if node := item.Spec.NodeName; node != "" && !r.ever[node] {
		r.faults.Add(v.Path()+".spec.nodeName", node, "no node of this file ever has this name")
	}
	p = named[podSpec]{r.expand(v, item.Namespace+"/"+item.Name, item.Count), podOf(&item.Pod)}
	return p, len(*r.faults) == faultless
}

func (r *reader) checkKind(v strictyaml.Value, kind, want string) {
	if kind != "" && kind != want {
		r.faults.Add(v.Path()+".kind", kind, "must be %s", want)
	}
}

func (r *reader) checkName(v strictyaml.Value, name string) {
	switch {
	case name == "":
		r.faults.Add(v.Path()+".metadata.name", "", "required, but left out")
	case strings.ContainsFunc(name, outsideNames):
		r.faults.Add(v.Path()+".metadata.name", name, "must be letters, digits, - and .")
	}
}

func outsideNames(c rune) bool {
	return c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

func (r *reader) checkNode(v strictyaml.Value, n *corev1.Node) {
	for i, t := range n.Spec.Taints {
		path := fmt.Sprintf("%s.spec.taints[%d]", v.Path(), i)
		if t.Key == "" {
			r.faults.Add(path+".key", "", "required, but left out")
		}
		r.checkChoice(path+".effect", string(t.Effect), effects)
	}
	for i, c := range n.Status.Conditions {
		r.checkChoice(fmt.Sprintf("%s.status.conditions[%d].status", v.Path(), i), string(c.Status), statuses)
	}
}

var phases = []string{string(corev1.PodPending), string(corev1.PodRunning), string(corev1.PodSucceeded), string(corev1.PodFailed), string(corev1.PodUnknown)}

func (r *reader) checkPod(v strictyaml.Value, p *corev1.Pod) {
	if phase := string(p.Status.Phase); phase != "" {
		r.checkChoice(v.Path()+".status.phase", phase, phases)
	}
	for i, c := range p.Status.Conditions {
		r.checkChoice(fmt.Sprintf("%s.status.conditions[%d].status", v.Path(), i), string(c.Status), statuses)
	}
}

// The values of taints and conditions in the API.
var (
	effects  = []string{model.NoSchedule.String(), model.PreferNoSchedule.String(), model.NoExecute.String()}
	statuses = []string{model.True.String(), model.False.String(), model.Unknown.String()}
)

func (r *reader) checkChoice(path, text string, choices []string) {
	if !slices.Contains(choices, text) {
		r.faults.Add(path, text, "must be one of %s", strings.Join(choices, ", "))
	}
}
