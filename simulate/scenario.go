package simulate

import (
	"io"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/agent/config"
	"plimsoll.dev/plimsoll/eviction"
	"plimsoll.dev/plimsoll/eviction/limiter"
	"plimsoll.dev/plimsoll/eviction/signals"
	"plimsoll.dev/plimsoll/internal/kube/agentpods"
	"plimsoll.dev/plimsoll/internal/options"
	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/simulate/cluster"
)

// NodeKind is the kind of scenarios with one node under pressure.
const NodeKind = "NodeScenario"

// Scenario is a timeline: a [*NodeScenario] or a [*cluster.Scenario]. It can be run any number of
// times. A fault of the file that only the run can find is returned as an error of type
// [strictyaml.Faults], with nothing written.
type Scenario interface {
	WriteText(io.Writer) error // as text
	WriteJSON(io.Writer) error // one JSON object per line
}

// NodeScenario is a timeline of one node.
type NodeScenario struct {
	Policy      *eviction.Policy
	Restraint   limiter.Policy
	Remarks     []string      // ignored parts of the configuration, as in the agent
	Pods        []signals.Pod // active from the start
	Steps       []Step
	KeepEvicted bool // evicted pods stay active
}

// Step is one check of the agent, with its observations.
type Step struct {
	At           time.Duration // since the start of the scenario
	Kind         signals.Kind
	Node         signals.Observations
	AfterReclaim signals.Observations // as Node, after garbage collection
	Usage        map[string]*signals.Usage
	KillError    string
	Add          []signals.Pod
	Remove       []string
	Restart      bool
}

// start is the start of virtual time. It is not the zero time, which stands for "never".
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// readers read the fields of a scenario, by kind.
var readers = map[string]func(strictyaml.Value, *strictyaml.Faults) Scenario{
	NodeKind:     func(v strictyaml.Value, faults *strictyaml.Faults) Scenario { return readNode(v, faults) },
	cluster.Kind: func(v strictyaml.Value, faults *strictyaml.Faults) Scenario { return cluster.Read(v, faults) },
}

// Parse reads a scenario. If there are faults, the scenario must not be used.
func Parse(data []byte) (Scenario, strictyaml.Faults) {
	var faults, ignored strictyaml.Faults
	root := strictyaml.Parse(data, &faults)
	if faults.Err() != nil {
		return nil, faults
	}
	head := root.Discard(&ignored).Object()
	head.Value = root // its other fields are read by the reader of the kind
	if v := head.Need("apiVersion"); v.Present() && v.Text() != options.APIVersion {
		v.Fault("must be %s", options.APIVersion)
	}
	kind := head.Need("kind")
	read := readers[kind.Text()]
	switch {
	case read != nil:
	case kind.Present():
		kind.Fault("must be %s or %s", NodeKind, cluster.Kind)
		return nil, faults // the meaning of its fields is unknown
	default:
		read = readers[NodeKind]
	}
	return read(root, &faults), faults
}

// readNode reads a scenario of known apiVersion and kind. If faults were found, it must not be
// used.
func readNode(root strictyaml.Value, faults *strictyaml.Faults) *NodeScenario {
	doc := root.Object("apiVersion", "kind", "config", "filesystems", "pods", "steps", "keepEvicted")
	layout := readLayout(doc.Get("filesystems"))
	c := config.ReadScenario(doc.Get("config"), faults)
	s := &NodeScenario{KeepEvicted: doc.Get("keepEvicted").Bool(false), Restraint: c.Limits.Policy()}
	r := reader{layout: layout, faults: faults, known: map[string]bool{}, choices: agentpods.NewChoices(c.ProtectedNamespaces, c.EvictionPolicyNamespaces,
		func(problem error) { s.Remarks = append(s.Remarks, problem.Error()) })}
	r.learnNames(doc.Get("pods"))
	s.Pods = r.pods(doc.Get("pods"))
	steps := doc.Need("steps").List()
	var ignored strictyaml.Faults
	for _, step := range steps {
		r.learnNames(step.Discard(&ignored).Object(stepFields...).Get("add"))
	}
	for _, step := range steps {
		s.Steps = append(s.Steps, r.step(step))
	}
	if faults.Err() != nil {
		return s
	}
	policy, err := c.Policy(layout)
	if err != nil {
		faults.Add("config", "", "%v", err)
	}
	s.Policy = policy
	return s
}

func readLayout(v strictyaml.Value) signals.Layout {
	if !v.Present() {
		return signals.Single
	}
	layout, err := signals.ParseLayout(v.Text())
	if err != nil {
		v.Fault("must be single, dedicated or split")
	}
	return layout
}

// reader reads steps and pods, which refer to each other by name.
type reader struct {
	layout  signals.Layout
	faults  *strictyaml.Faults
	known   map[string]bool // all pods of the file
	choices *agentpods.Choices
	last    *time.Duration // time of the previous step
}

var stepFields = []string{"at", "check", "node", "usage", "afterReclaim", "killError", "add", "remove", "restart"}

func (r *reader) step(v strictyaml.Value) Step {
	o := v.Object(stepFields...)
	s := Step{
		At:        r.at(o.Need("at")),
		Kind:      readKind(o.Get("check")),
		Usage:     map[string]*signals.Usage{},
		KillError: o.Get("killError").Text(),
		Add:       r.pods(o.Get("add")),
		Restart:   o.Get("restart").Bool(false),
	}
	at := start.Add(s.At)
	r.observations(o.Get("node"), &s.Node, at, true)
	s.AfterReclaim = s.Node
	r.observations(o.Get("afterReclaim"), &s.AfterReclaim, at, false)
	r.followContainerfs(&s.Node)
	r.followContainerfs(&s.AfterReclaim)
	for _, e := range o.Get("usage").Entries() {
		r.checkName(e.Value, e.Key)
		s.Usage[e.Key] = readUsage(e.Value, at)
	}
	for _, name := range o.Get("remove").List() {
		s.Remove = append(s.Remove, name.Text())
		r.checkName(name, name.Text())
	}
	return s
}

func (r *reader) at(v strictyaml.Value) time.Duration {
	at := v.Duration(0)
	switch {
	case at < 0:
		v.Fault("must not be negative")
	case r.last != nil && at <= *r.last && v.Present():
		v.Fault("must be later than the step before it")
	}
	r.last = &at
	return at
}

func readKind(v strictyaml.Value) signals.Kind {
	if !v.Present() {
		return signals.Periodic
	}
	switch v.Text() {
	case "periodic":
		return signals.Periodic
	case "early":
		return signals.Early
	}
	v.Fault("must be periodic or early")
	return signals.Periodic
}

func (r *reader) checkName(v strictyaml.Value, name string) {
	if !r.known[name] {
		r.faults.Add(v.Path(), name, "no pod of this file ever has this namespace/name")
	}
}

// observations reads observations of the node into the named signals.
func (r *reader) observations(v strictyaml.Value, into *signals.Observations, at time.Time, withTime bool) {
	known := []string{"available", "capacity"}
	if withTime {
		known = append(known, "time")
	}
	for _, e := range v.Entries() {
		sig, err := signals.Parse(e.Key)
		if err != nil {
			e.Value.Fault("%v", err)
			continue
		}
		o := e.Value.Object(known...)
		measured := at
		if t := o.Get("time"); withTime && t.Present() {
			measured = start.Add(t.Duration(0))
		}
		into[sig] = signals.Observed(amount(o.Need("available")), amount(o.Need("capacity")), measured)
	}
}

// followContainerfs sets an omitted containerfs signal to the observation of the signal on the
// same device.
func (r *reader) followContainerfs(o *signals.Observations) {
	if r.layout == signals.Split {
		return
	}
	for _, s := range []signals.Signal{signals.ContainerfsAvailable, signals.ContainerfsInodesFree} {
		if followed, _ := s.ContainerfsFollows(r.layout); !o[s].Known {
			o[s] = o[followed]
		}
	}
}

func amount(v strictyaml.Value) signals.Amount {
	if !v.Present() {
		return 0
	}
	return signals.Amount(strictyaml.Whole(v.Quantity()))
}

// key returns namespace/name, the name of a pod in scenarios.
func key(namespace, name string) string {
	return strings.Join([]string{namespace, name}, "/")
}
