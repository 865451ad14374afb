package cluster_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// generator generates random clusters and events.
type generator struct {
	*rand.Rand
	file  *file
	nodes []string // existing nodes at this point of the file
	pods  []string // existing pods, unless they were evicted
	made  int

	tainted []taint // by users so far
}

func some[T any](d *generator, of ...T) T { return of[d.IntN(len(of))] }

func (d *generator) chance(percent int) bool { return d.IntN(100) < percent }

// generate returns the cluster of a seed.
func generate(seed uint64) *file {
	d := &generator{Rand: rand.New(rand.NewPCG(seed, 5)), file: &file{}}
	d.file.settings = d.settings()
	d.file.settings.liveReads = seed%3 == 0
	for range 1 + d.IntN(4) {
		n := d.node()
		if d.chance(40) {
			n.count = some(d, 2, 3, 4, 5, 6, 8, 10)
		}
		if d.chance(3) {
			n.count = some(d, 20, 50, 51, 60)
		}
		d.file.nodes = append(d.file.nodes, n)
		d.nodes = append(d.nodes, names(n.name, n.count)...)
	}
	if d.chance(50) { // a zone without events, so that not all zones are fully disrupted
		d.file.nodes = append(d.file.nodes, fileNode{name: "well", labels: map[string]string{"topology.kubernetes.io/zone": "well"}})
	}
	for range d.IntN(12) {
		p := d.pod()
		if d.chance(20) {
			p.count = 2 + d.IntN(3)
		}
		d.file.pods = append(d.file.pods, p)
		d.pods = append(d.pods, names(p.name, p.count)...)
	}
	d.generateEvents()
	return d.file
}

func (d *generator) settings() settings {
	s := settings{
		grace:     some(d, 20*time.Second, 40*time.Second, 40*time.Second, 50*time.Second),
		timeout:   some(d, time.Minute, 100*time.Second, 5*time.Minute),
		rate:      some(d, 0, 0.1, 0.1, 1, 5),
		secondary: some(d, 0, 0.01, 0.1, 1),
		large:     some(d, 0, 2, 4, 7, 50),
		unhealthy: some(d, 0.3, 0.5, 0.55, 0.55, 0.6, 1),
		manager:   d.chance(70),
	}
	s.startup = s.grace + some(d, 0, 10*time.Second, 20*time.Second)
	if d.chance(25) {
		based := d.chance(50)
		s.taintBased = &based
	}
	if d.chance(40) {
		s.evictedPodTTL = some(d, time.Second, 30*time.Second, 100*time.Second, 5*time.Minute)
	}
	return s
}

var zoneLabels = []map[string]string{
	{},
	{"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z1"},
	{"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z2"},
	{"topology.kubernetes.io/zone": "z1"},
	{"topology.kubernetes.io/region": "r"},
	{"failure-domain.beta.kubernetes.io/zone": "z2", "topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z1"},
}

func (d *generator) node() fileNode {
	d.made++
	n := fileNode{name: fmt.Sprintf("%s%d", some(d, "a", "b", "n"), d.made), labels: map[string]string{}}
	for key, value := range some(d, zoneLabels...) {
		n.labels[key] = value
	}
	if d.chance(10) {
		n.labels["node.kubernetes.io/exclude-disruption"] = some(d, "", "true", "false")
	}
	if d.chance(10) {
		n.labels["kubernetes.io/os"] = "linux"
	}
	if d.chance(5) {
		n.labels["beta.kubernetes.io/arch"] = "arm"
	}
	if d.chance(10) {
		n.conditions = append(n.conditions, condition{kind: "Ready", status: some(d, "True", "False", "False", "Unknown")})
	}
	if d.chance(10) {
		n.conditions = append(n.conditions, condition{kind: d.pressure(), status: d.status()})
	}
	if d.chance(10) {
		t := d.userTaint()
		n.taints = append(n.taints, t)
	}
	n.cordoned = d.chance(5)
	return n
}

func (d *generator) pressure() string {
	return some(d, "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
}

func (d *generator) status() string { return some(d, "True", "True", "False", "Unknown") }

func (d *generator) userTaint() taint {
	t := taint{key: some(d, "k", "k", "l"), value: some(d, "", "v", "w", "7", "10"), effect: some(d, "NoExecute", "NoExecute", "NoExecute", "NoSchedule", "PreferNoSchedule")}
	if d.chance(5) {
		t.key = some(d, notReady, unreachable, "node.kubernetes.io/memory-pressure", "node.kubernetes.io/unschedulable")
	}
	return t
}

func (d *generator) pod() filePod {
	d.made++
	p := filePod{name: fmt.Sprintf("%s%d", some(d, "p", "q"), d.made), node: some(d, d.nodes...), tolerations: d.tolerations()}
	if d.chance(10) {
		p.uid = p.name + "-uid"
	}
	if d.chance(20) {
		p.phase = some(d, "Running", "Pending", "Succeeded", "Failed")
	}
	if d.chance(15) {
		p.phase = "Failed"
	}
	if p.phase != "" && d.chance(70) {
		p.mark = some(d, "True", "True", "True", "False", "Unknown")
		p.reason = some(d, "Evicted", "Evicted", "Evicted", "Evicted", "DeadlineExceeded", "")
	}
	p.unready = d.chance(5)
	p.daemon = d.chance(10)
	return p
}

func (d *generator) tolerations() (all []toleration) {
	seconds := func() *int64 {
		if d.chance(30) {
			return nil
		}
		s := some[int64](d, -5, 0, 1, 10, 20, 30, 60, 100, 300)
		return &s
	}
	if d.chance(40) {
		s := some[int64](d, 60, 100, 300)
		all = append(all, toleration{key: some(d, "", unreachable, notReady, "k"), operator: "Exists", effect: "NoExecute", seconds: &s})
	}
	for range d.IntN(5) {
		t := toleration{key: some(d, unreachable, notReady, "k", "k", "l"), effect: some(d, "NoExecute", "NoExecute", "NoExecute", ""), seconds: seconds()}
		switch d.IntN(8) {
		case 0:
			t.operator, t.value = "Equal", some(d, "", "v", "w")
		case 1:
			t.operator, t.value = "", some(d, "", "v")
		case 2:
			t.key, t.operator = "", "Exists"
		case 3:
			t.effect, t.seconds = some(d, "NoSchedule", ""), nil
			t.operator = "Exists"
		case 4:
			t.operator, t.value = some(d, "Gt", "Lt", "Nearly"), some(d, "-1", "7", "8", "60")
		default:
			t.operator = "Exists"
		}
		all = append(all, t)
	}
	return all
}

// generateEvents generates events. Many of them are at the same time, and at round times.
func (d *generator) generateEvents() {
	at := time.Duration(0)
	for range d.IntN(20) {
		switch d.IntN(10) {
		case 0, 1, 2: // at the time of the previous one
		case 3:
			at += time.Duration(d.IntN(40)) * 500 * time.Millisecond
		case 4, 5:
			at += time.Duration(1+d.IntN(20)) * time.Second
		case 6:
			at += time.Duration(1+d.IntN(30)) * 10 * time.Second
		default:
			at += time.Duration(1+d.IntN(8)) * 10 * time.Second
		}
		d.event(at)
	}
	d.file.until = at + some(d, time.Second, 100*time.Second, 700*time.Second)
}

var eventKinds = []string{
	"stop", "stop", "stop", "stop", "stop", "stop", "stopLease", "stopStatus", "resume", "resume", "resume", "resume", "ready", "ready", "ready", "condition",
	"taint", "taint", "taint", "taint", "untaint", "untaint", "untaint", "cordon", "uncordon", "label", "label", "addNode", "deleteNode", "addPod", "addPod", "updatePod", "updatePod",
	"deletePod", "restart",
}

func (d *generator) event(at time.Duration) {
	e := fileEvent{at: at, do: some(d, eventKinds...)}
	switch e.do {
	case "addNode":
		n := d.node()
		e.node = &n
		d.nodes = append(d.nodes, n.name)
	case "addPod", "updatePod", "deletePod":
		if !d.podEvent(&e) {
			return
		}
	case "restart":
	default:
		if len(d.nodes) == 0 {
			return
		}
		d.nodeEvent(&e)
	}
	d.file.events = append(d.file.events, e)
}

func (d *generator) podEvent(e *fileEvent) bool {
	if len(d.nodes) == 0 || e.do != "addPod" && len(d.pods) == 0 {
		return false
	}
	p := d.pod()
	if e.do != "addPod" || len(d.pods) > 0 && d.chance(10) {
		p.name = some(d, d.pods...) // adding an existing pod would be a fault
	}
	e.pod = &p
	switch e.do {
	case "addPod":
		d.pods = append(d.pods, p.name)
	case "updatePod":
		*e.pod = filePod{name: p.name, tolerations: p.tolerations}
	case "deletePod":
		e.pod, e.names = nil, []string{"default/" + p.name}
		d.pods = slices.DeleteFunc(d.pods, func(name string) bool { return name == p.name })
	}
	return true
}

func (d *generator) nodeEvent(e *fileEvent) {
	e.names = d.several()
	if e.do == "stopStatus" && slices.ContainsFunc(d.file.events, func(was fileEvent) bool { return was.at == e.at && was.do == "resume" }) {
		e.do = "stop" // not generated: a resumed node that renews its lease but never reports
	}
	switch e.do {
	case "deleteNode":
		e.names = e.names[:1]
		d.nodes = slices.DeleteFunc(d.nodes, func(name string) bool { return name == e.names[0] })
		if d.chance(50) && e.names[0] != "" {
			d.file.events = append(d.file.events, *e)
			n := d.node()
			n.name = e.names[0]
			*e = fileEvent{at: e.at, do: "addNode", node: &n}
			d.nodes = append(d.nodes, n.name)
		}
	case "ready":
		e.status = some(d, "True", "False", "False", "Unknown")
		if e.status == "Unknown" && slices.ContainsFunc(d.file.events, func(was fileEvent) bool { return strings.HasPrefix(was.do, "stop") }) {
			e.status = "False" // not generated: a silent node that reports Unknown itself
		}
	case "condition":
		e.kind, e.status = d.pressure(), d.status()
	case "taint", "untaint":
		e.taint = d.userTaint()
		switch {
		case e.do == "taint":
			d.tainted = append(d.tainted, e.taint)
		case d.chance(30):
			e.taint.key = some(d, notReady, unreachable)
		case len(d.tainted) > 0:
			e.taint = some(d, d.tainted...)
		}
	case "label":
		e.taint.key = some(d, "topology.kubernetes.io/zone", "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
			"node.kubernetes.io/exclude-disruption", "kubernetes.io/os", "beta.kubernetes.io/os", "kubernetes.io/arch", "x")
		e.taint.value = some(d, "z1", "z2", "r", "linux")
	}
}

// several returns some of the nodes, each once.
func (d *generator) several() []string {
	n := 1
	switch {
	case d.chance(20):
		n = len(d.nodes)
	case d.chance(40):
		n = 1 + d.IntN(len(d.nodes))
	}
	all := slices.Clone(d.nodes)
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = slices.SortedFunc(slices.Values(all[:n]), cmp.Compare[string])
	return all
}
