package cluster_test

import (
	"encoding/json"
	"time"
)

// file is a ClusterScenario of the reference model, which runs the structure. The product reads the text.
type file struct {
	settings settings
	nodes    []fileNode
	pods     []filePod
	events   []fileEvent
	until    time.Duration
}

type settings struct {
	grace, startup, timeout time.Duration
	rate, secondary         float64
	large                   int
	unhealthy               float64
	manager                 bool          // enableTaintManager
	taintBased              *bool         // taintBasedEvictions, if set
	evictedPodTTL           time.Duration // evictedPodTTL; 0: omitted
	liveReads               bool          // liveLeaseReads, at any rate: they agree with the watch
}

type fileNode struct {
	name       string
	count      int // 0: omitted
	labels     map[string]string
	conditions []condition
	taints     []taint
	cordoned   bool
}

type condition struct {
	kind, status          string
	reason                string        // only of conditions written by the controller
	heartbeat, transition time.Duration // not in a file
}

type taint struct {
	key, value, effect string
	added              time.Duration // not in a file
}

type filePod struct {
	name        string
	count       int
	uid         string
	node        string
	tolerations []toleration
	phase       string
	reason      string // of the phase
	unready     bool   // by its status
	mark        string // status of the condition plimsoll.dev/Evicted; "": none
	daemon      bool
}

type toleration struct {
	key, operator, value, effect string
	seconds                      *int64
}

// fileEvent is one event; its kind determines the fields that count.
type fileEvent struct {
	at     time.Duration
	do     string
	names  []string // nodes, or pods
	kind   string   // of a condition
	status string
	taint  taint // key and value are also those of a label
	node   *fileNode
	pod    *filePod
}

type object = map[string]any

func (f *file) text() []byte {
	var nodes, pods, events []object
	for i := range f.nodes {
		nodes = append(nodes, f.nodes[i].object())
	}
	for i := range f.pods {
		pods = append(pods, f.pods[i].object())
	}
	for i := range f.events {
		events = append(events, f.events[i].object())
	}
	text, err := json.Marshal(object{
		"apiVersion": "plimsoll.dev/v1alpha1", "kind": "ClusterScenario", "config": f.settings.object(),
		"nodes": nodes, "pods": pods, "events": events, "until": f.until.String(),
	})
	if err != nil {
		panic(err)
	}
	return text
}

func (s *settings) object() object {
	o := object{
		"nodeMonitorGracePeriod": s.grace.String(), "nodeStartupGracePeriod": s.startup.String(),
		"podEvictionTimeout": s.timeout.String(), "nodeEvictionRate": s.rate, "secondaryNodeEvictionRate": s.secondary,
		"largeClusterSizeThreshold": s.large, "unhealthyZoneThreshold": s.unhealthy, "enableTaintManager": s.manager,
	}
	if s.taintBased != nil {
		o["taintBasedEvictions"] = *s.taintBased
	}
	if s.evictedPodTTL > 0 {
		o["evictedPodTTL"] = s.evictedPodTTL.String()
	}
	if s.liveReads {
		o["liveLeaseReads"], o["liveLeaseReadsPerSecond"] = true, 0
	}
	return o
}

func (n *fileNode) object() object {
	o := object{"metadata": object{"name": n.name, "labels": n.labels}}
	if n.count > 0 {
		o["count"] = n.count
	}
	if len(n.conditions) > 0 {
		var all []object
		for _, c := range n.conditions {
			all = append(all, object{"type": c.kind, "status": c.status})
		}
		o["status"] = object{"conditions": all}
	}
	spec := object{}
	if n.cordoned {
		spec["unschedulable"] = true
	}
	if len(n.taints) > 0 {
		var all []object
		for _, t := range n.taints {
			all = append(all, object{"key": t.key, "value": t.value, "effect": t.effect})
		}
		spec["taints"] = all
	}
	if len(spec) > 0 {
		o["spec"] = spec
	}
	return o
}

func (p *filePod) object() object {
	meta := object{"name": p.name}
	if p.uid != "" {
		meta["uid"] = p.uid
	}
	if p.daemon {
		meta["ownerReferences"] = []object{{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}}
	}
	var tolerations []object
	for _, t := range p.tolerations {
		tolerations = append(tolerations, t.object())
	}
	spec := object{"tolerations": tolerations}
	if p.node != "" {
		spec["nodeName"] = p.node
	}
	o := object{"metadata": meta, "spec": spec}
	if p.count > 0 {
		o["count"] = p.count
	}
	status := object{}
	if p.phase != "" {
		status["phase"] = p.phase
	}
	if p.reason != "" {
		status["reason"] = p.reason
	}
	var conditions []object
	if p.unready {
		conditions = append(conditions, object{"type": "Ready", "status": "False"})
	}
	if p.mark != "" {
		conditions = append(conditions, object{"type": "plimsoll.dev/Evicted", "status": p.mark, "lastTransitionTime": "2020-01-01T00:00:00Z"})
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	if len(status) > 0 {
		o["status"] = status
	}
	return o
}

func (t *toleration) object() object {
	o := object{}
	for field, text := range map[string]string{"key": t.key, "operator": t.operator, "value": t.value, "effect": t.effect} {
		if text != "" {
			o[field] = text
		}
	}
	if t.seconds != nil {
		o["tolerationSeconds"] = *t.seconds
	}
	return o
}

func (e *fileEvent) object() object {
	o := object{"at": e.at.String()}
	switch e.do {
	case "ready":
		o["ready"] = object{"nodes": e.names, "status": e.status}
	case "condition":
		o["condition"] = object{"nodes": e.names, "type": e.kind, "status": e.status}
	case "taint":
		o["taint"] = object{"nodes": e.names, "key": e.taint.key, "value": e.taint.value, "effect": e.taint.effect}
	case "untaint":
		o["untaint"] = object{"nodes": e.names, "key": e.taint.key, "effect": e.taint.effect}
	case "label":
		o["label"] = object{"nodes": e.names, "key": e.taint.key, "value": e.taint.value}
	case "addNode":
		o["addNode"] = e.node.object()
	case "addPod", "updatePod":
		o[e.do] = e.pod.object()
	case "restart":
		o["restart"] = true
	default: // stop, stopLease, stopStatus, resume, cordon, uncordon, deleteNode, deletePod
		o[e.do] = e.names
	}
	return o
}
