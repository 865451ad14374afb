package spec

import (
	"fmt"
	"slices"
	"time"
)

// Incident is one course of pressure on a node, and its expected result.
type Incident struct {
	Name      string
	Title     string
	Patterns  []int // of the catalogue of public incidents
	Reenacts  []Source
	Differs   string // from the public incident
	Node      int64  // memory of the node in bytes, where the node is a cgroup
	Threshold Amount // available memory that contestants shall preserve
	Duration  time.Duration
	Settle    time.Duration // after the last expected death, in which further deaths count: equal for all contestants
	Jitter    float64       // share by which times and rates vary with the seed
	Pods      []Pod
	System    []Process // daemons outside of pods
	Expect    Expect
}

// Source is a public incident.
type Source struct{ What, Reference string }

// Pod is one pod, or several equal ones.
type Pod struct {
	Name           string
	Count          int
	Request, Limit Amount
	Priority       int
	Processes      []Process
	Replace        Replace
}

// Replace describes the owner of a pod, which creates a new one after each death.
type Replace struct {
	After time.Duration
	Times int
}

// Process is a hog with steps, or a real program.
type Process struct {
	Count   int
	Before  []Step // before the incident begins
	Steps   []Step
	Command []string // instead of steps; {{scratch}} is a directory on a disk
	Needs   []string // programs of the command
}

// Expect is the result that a perfect contestant reaches.
type Expect struct {
	// Exhausts reports that the kernel would have to kill unless a pod ends.
	Exhausts bool
	// MayKill lists the pods that may end.
	MayKill []string
	// Needed is the number of ends that suffice.
	Needed int
	// Cause names what fills the memory.
	Cause string
}

// Neighbour is the name of the pod that every incident has in addition: it serves requests, and its
// latency is measured.
const Neighbour = "neighbour"

// Names returns the names of the instances of a pod.
func (p Pod) Names() (names []string) {
	if p.Count == 1 {
		return []string{p.Name}
	}
	for i := range p.Count {
		names = append(names, fmt.Sprintf("%s-%d", p.Name, i+1))
	}
	return names
}

// Bounds of an incident.
const (
	MinNode      = 64 << 20
	MaxNode      = 2 << 30
	maxPods      = 64
	maxProcesses = 16
	maxReplaced  = 20
	maxPriority  = 2_000_000_000
)

// Defaults of an incident.
const (
	defaultNode   = 1 << 30
	defaultSettle = MaxPhase + 2*time.Second // every contestant checks again in it
)

// ParseIncident parses an incident. Returns [Faults] for a text that is none.
func ParseIncident(text []byte) (i Incident, err error) {
	err = read(text, func(f field) { i = f.incident() })
	return i, err
}

func (f field) incident() Incident {
	o := f.object()
	defer o.end()
	i := Incident{
		Name: o.get("name").name(), Title: o.get("title").sentence(), Differs: o.get("differs").text(),
		Node: defaultNode, Duration: o.get("duration").duration(), Settle: defaultSettle,
		Threshold: Amount{Share: 0.1}, Jitter: o.get("jitter").share(),
	}
	for _, p := range o.get("patterns").list(4) {
		i.Patterns = append(i.Patterns, p.number(1, 99))
	}
	reenacts := o.get("reenacts")
	for _, s := range reenacts.list(8) {
		i.Reenacts = append(i.Reenacts, s.source())
	}
	if reenacts.required() && len(i.Reenacts) == 0 {
		reenacts.fault("empty: name the public incident, or what the pattern is taken from")
	}
	if n := o.get("node"); n.present() {
		i.Node = n.fixedAmount().Bytes
		if i.Node < MinNode || i.Node > MaxNode {
			n.fault("want %s to %s", FormatBytes(MinNode), FormatBytes(MaxNode))
		}
	}
	if t := o.get("threshold"); t.present() {
		i.Threshold = t.fixedAmount()
	}
	if s := o.get("settle"); s.present() {
		i.Settle = s.duration()
	}
	if d := o.get("duration"); d.required() && i.Duration < time.Second {
		d.fault("want at least 1s")
	}
	pods := o.get("pods")
	for _, p := range pods.list(maxPods) {
		i.Pods = append(i.Pods, p.pod())
	}
	pods.required()
	for _, p := range o.get("system").list(maxProcesses) {
		i.System = append(i.System, p.process())
	}
	i.Expect = o.get("expect").expect(&i)
	i.checkPods(pods)
	return i
}

func (f field) sentence() string {
	f.required()
	return f.text()
}

// share reads a percentage below 100.
func (f field) share() float64 {
	a := f.fixedAmount()
	if a.Bytes > 0 || a.Share >= 1 {
		f.fault("want a percentage below 100%%")
		return 0
	}
	return a.Share
}

func (f field) source() Source {
	o := f.object()
	defer o.end()
	return Source{What: o.get("what").sentence(), Reference: o.get("reference").sentence()}
}

func (f field) pod() Pod {
	o := f.object()
	defer o.end()
	p := Pod{
		Name: o.get("name").name(), Count: 1,
		Request: o.get("request").fixedAmount(), Limit: o.get("limit").fixedAmount(),
		Priority: o.get("priority").number(-maxPriority, maxPriority),
	}
	if c := o.get("count"); c.present() {
		p.Count = c.number(1, maxPods)
	}
	processes := o.get("processes")
	for _, x := range processes.list(maxProcesses) {
		p.Processes = append(p.Processes, x.process())
	}
	if processes.required() && len(p.Processes) == 0 {
		processes.fault("empty: a pod has at least one process")
	}
	if r := o.get("replace"); r.present() {
		x := r.object()
		p.Replace = Replace{After: x.get("after").duration(), Times: x.get("times").number(1, maxReplaced)}
		x.get("times").required()
		x.end()
	}
	return p
}

func (f field) process() Process {
	o := f.object()
	defer o.end()
	p := Process{Count: 1, Before: o.get("before").steps(0), Steps: o.get("steps").steps(0)}
	if c := o.get("count"); c.present() {
		p.Count = c.number(1, maxProcesses)
	}
	command := o.get("command")
	p.Command = command.texts(32)
	p.Needs = o.get("needs").texts(8)
	if command.present() == (o.get("before").present() || o.get("steps").present()) {
		f.fault("want either a command, or before and steps")
	}
	if command.present() && len(p.Needs) == 0 {
		o.get("needs").fault("required with a command: the programs, by their Debian package")
	}
	if n := len(p.Command); command.present() && (n == 0 || p.Command[0] == "") {
		command.fault("want a program and its arguments")
	}
	for i, text := range p.Command {
		if err := checkVariables(text, []string{"scratch"}); err != nil {
			command.fault("argument %d: %v", i, err)
		}
	}
	return p
}

func (f field) expect(i *Incident) Expect {
	o := f.object()
	defer o.end()
	f.required()
	exhausts, mayKill, needed := o.get("exhausts"), o.get("mayKill"), o.get("needed")
	e := Expect{Exhausts: exhausts.boolean(), MayKill: mayKill.texts(maxPods), Needed: needed.number(0, maxPods), Cause: o.get("cause").sentence()}
	if !f.present() {
		return e
	}
	exhausts.required()
	mayKill.required()
	for _, name := range e.MayKill {
		if !slices.ContainsFunc(i.Pods, func(p Pod) bool { return p.Name == name }) {
			mayKill.fault("%s: no such pod", shorten(name))
		}
	}
	switch {
	case e.Exhausts && len(e.MayKill) == 0:
		mayKill.fault("empty, but the node is exhausted: no contestant could succeed")
	case e.Exhausts && e.Needed == 0:
		needed.fault("want at least 1, because the node is exhausted")
	case !e.Exhausts && e.Needed > 0:
		needed.fault("want 0, because nothing has to end")
	}
	return e
}

// checkPods checks the pods against each other.
func (i *Incident) checkPods(pods field) {
	var names []string
	for _, p := range i.Pods {
		for _, name := range p.Names() {
			if name == Neighbour {
				pods.fault("%s: every incident has this pod already", name)
			}
			if slices.Contains(names, name) {
				pods.fault("%s: two pods have this name", name)
			}
			names = append(names, name)
		}
	}
	if len(names) > maxPods {
		pods.fault("%d pods, at most %d", len(names), maxPods)
	}
}
