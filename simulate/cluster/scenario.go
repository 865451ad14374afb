package cluster

import (
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/plimsoll/internal/strictyaml"
	"plimsoll.dev/plimsoll/lifecycle/config"
	"plimsoll.dev/plimsoll/lifecycle/core"
)

// Kind is the kind of scenarios with many nodes.
const Kind = "ClusterScenario"

// maxObjects is the maximum number of objects that `count` may create from a file: nodes and
// pods together, those of events included.
const maxObjects = 1_000_000

// Scenario is a timeline of a cluster.
type Scenario struct {
	policy core.Policy
	nodes  []named[nodeSpec] // registered at the start
	pods   []named[podSpec]  // existing at the start
	events []event           // by time
	until  time.Duration     // end of the timeline, exclusive
}

// named is an object of the file with its names: more than one with a count.
type named[T any] struct {
	names []string
	spec  T
}

// event is a change of the cluster at one time.
type event struct {
	at      time.Duration
	changes []change
}

// change is one change, as text and as a function. The function returns an error for a fault of the
// file that only the run can find.
type change struct {
	words string
	do    func(*env) error
}

// start is the start of virtual time. It is not the zero time, which stands for "never".
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Read reads a scenario of known apiVersion and kind. If faults were found, it must not be used.
func Read(root strictyaml.Value, faults *strictyaml.Faults) *Scenario {
	doc := root.Object("apiVersion", "kind", "config", "nodes", "pods", "events", "until")
	r := newReader(faults)
	s := &Scenario{policy: config.ReadScenario(doc.Get("config")).Policy()}
	// A live read agrees with the watch, at once: it matters to the breaker alone, which counts reads.
	reads := &s.policy.Confirmation
	reads.LiveReads = reads.LiveReads && reads.MassFailureMinNodes > 0
	r.learnNodes(doc)
	s.nodes = r.registered(doc.Need("nodes").List())
	s.pods = r.created(doc.Get("pods").List())
	for _, v := range doc.Get("events").List() {
		s.events = append(s.events, r.event(v))
	}
	s.until = r.until(doc.Need("until"))
	return s
}

// reader reads nodes, pods and events, which refer to each other by name.
type reader struct {
	faults  *strictyaml.Faults
	ever    map[string]bool   // nodes of the whole file, by name
	present map[string]bool   // nodes that exist at this point of the file
	pods    map[string]string // pods that have existed so far, with their node
	objects int64             // number of nodes and pods so far
	last    time.Duration     // time of the previous event
}

func newReader(faults *strictyaml.Faults) *reader {
	return &reader{faults: faults, ever: map[string]bool{}, present: map[string]bool{}, pods: map[string]string{}}
}

func (r *reader) event(v strictyaml.Value) event {
	o := v.Object(append([]string{"at"}, changeNames()...)...)
	e := event{at: r.at(o.Need("at"))}
	nothing := true
	for i := range changes {
		if w := o.Get(changes[i].field); w.Present() {
			e.changes = append(e.changes, changes[i].read(r, w)...)
			nothing = false
		}
	}
	if nothing {
		v.Fault("nothing happens: give it one of %s", strings.Join(changeNames(), ", "))
	}
	return e
}

func (r *reader) until(v strictyaml.Value) time.Duration {
	until := v.Duration(1)
	if until <= 0 {
		v.Fault("must be positive")
	}
	return until
}

func (r *reader) at(v strictyaml.Value) time.Duration {
	at := v.Duration(r.last)
	switch {
	case at < 0:
		v.Fault("must not be negative")
	case at < r.last:
		v.Fault("must not be earlier than the event before it, which is at %s", r.last)
	}
	r.last = max(r.last, at)
	return at
}

// expand returns the names of an object: its own, or name-0 … name-(n-1) with a count n above
// one.
func (r *reader) expand(v strictyaml.Value, name string, count *int64) []string {
	n := int64(1)
	if count != nil {
		n = *count
	}
	r.objects += max(n, 1)
	switch {
	case n < 1:
		r.faults.Add(v.Path()+".count", fmt.Sprint(n), "must be at least 1")
		return nil
	case n > maxObjects || r.objects > maxObjects:
		r.faults.Add(v.Path()+".count", fmt.Sprint(n), "makes more than %d nodes and pods altogether", maxObjects)
		return nil
	case n == 1:
		return []string{name}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return names
}
